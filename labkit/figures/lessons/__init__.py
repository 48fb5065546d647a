"""Figures that one lesson needs, one a file.

turns             who had a core when (lesson 00)
split_gradient    shard gradients around the whole one (lesson 03)
broken_training   loss with one thing forgotten (lesson 04)
break_even        epoch time against bandwidth (lesson 05)
scaling           speed-up against the number of ranks (lesson 05)
algorithm_times   time of an all-reduce against its size (lesson 06)
schedule_states   what ranks hold after each step of a schedule (lesson 06)
throughput        computed per second by so many workers (lesson 08)
timelines         several runs on one axis of time (lesson 08)
errors            distance from the minimum, update by update (lesson 10)
staleness         how stale gradients are (lesson 10)
two_clocks        loss over updates, and over time (lesson 10)
backup_workers    gradients used against backup workers (lesson 11)
slowest           what waiting for the slowest costs (lesson 11)
pipeline          which micro-batch each stage works on when (lesson 17)
placement         which messages of a ring cross the network (lesson 24)
"""
