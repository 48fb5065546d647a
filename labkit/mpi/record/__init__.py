"""What a rank notes of its calls: when, and in which line.

history   the last calls, always
record    the moments of each call while a trace is on
position  the user's line behind a call
"""
