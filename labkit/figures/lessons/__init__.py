"""Figures that one lesson needs, one a file."""
