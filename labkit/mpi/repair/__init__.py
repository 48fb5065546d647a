"""Calls that cannot go well: seen before they begin, and mended after they were given up."""
