"""What each lesson asks: one file a lesson, and judging that several lessons share.

lesson_NN   what lesson NN asks, one file each
cuts        how a learner cuts layers into stages
slots       the slots of a pipeline that a learner returned
networks    networks drawn for a check
"""
