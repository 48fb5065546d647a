"""What a rank notes of its calls: when, and in which line."""
