"""`%%px --orders`: a cell in every order in which its messages can meet.

board       who can meet whom, and what could have been otherwise
play        one order, from the first call to the end
explore     all orders that differ
unbuffered  where they end if sends wait for their receives
copies      the copies of ranks in which the cell runs
run         the cell, from its source to all of its orders
orders      what came of it, and how it is told
"""
