"""What each lesson asks: one file a lesson, and what several of them share.

lesson_NN   what lesson NN asks, one file each
cuts        how a learner cuts layers into stages
slots       the slots of a pipeline that a learner returned
networks    networks drawn for a check
notices     what ranks tell one another beside the learner's calls
"""
