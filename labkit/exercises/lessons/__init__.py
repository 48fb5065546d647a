"""What each lesson asks: one file a lesson, and judging that several lessons share."""
