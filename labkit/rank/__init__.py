"""What runs inside every rank's process."""
