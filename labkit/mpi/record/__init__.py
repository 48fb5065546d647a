"""What a rank notes of its calls: when, and in which line.

record     the calls since a trace is on
position   which line of the user's code called
"""
