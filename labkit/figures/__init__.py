"""Figures of the course: one file each, drawn from numbers or a trace, in one style."""
