"""What labkit measures of itself, each measurement against the plain alternative.

__main__           all measurements, one after the other
startup            seconds until ranks are ready, and of an empty cell
ranks              the same of more and more ranks, and what a thousand would cost
collectives        latency and bandwidth of every collective
calls              one call of each, for torch and for raw mpi4py
plan               which sizes, how often, in which order
launch             starts the ranks of one measurement
worker             what runs on those ranks
ddp                one training step of a network
recording          what recording costs an all_reduce
recording_worker   what runs on the ranks of that
unrecorded         a group that cannot record, to compare with
simulation         what the simulators take
report             from seconds to ratios and a table
figure             a panel per collective
machine            on what was measured
"""
