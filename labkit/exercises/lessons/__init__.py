"""What each lesson asks: one file a lesson, and what is long enough for a file of its own.

lesson_NN   what lesson NN asks, one file each
cuts        how a learner cuts layers into stages
slots       the slots of a pipeline that a learner returned
networks    networks drawn for a check
notices     what ranks tell one another beside the learner's calls
merging     two parts of a softmax, merged
blocks      attention round a ring of ranks, and one that looks only back
lost_order  experts whose answers come back in another order
sixteen_bits   weights of 16 bits and their masters
loss_scale     a loss scale, and steps that all ranks skip together
rest_of_epoch  the rest of an epoch, for as many ranks as there are
useful_share   what is left of a year in which ranks die
late_write     a state that is written later, while training changes it
"""
