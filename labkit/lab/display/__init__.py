"""What a learner sees: the output of ranks, while a cell runs and after it, tables and tiles."""
