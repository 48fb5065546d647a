"""What each lesson asks: one file a lesson, and what is long enough for a file of its own.

lesson_NN   what lesson NN asks, one file each
cuts        how a learner cuts layers into stages
slots       the slots of a pipeline that a learner returned
networks    networks drawn for a check
bandwidth   from which bandwidth on it pays
stopwatch   a stopwatch that blames the network for a late rank
"""
