"""What labkit measures of itself, each measurement against the plain alternative."""
