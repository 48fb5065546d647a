"""Where ranks run, and with which MPI; how their processes start, and how they end.

plan             where ranks shall run, checked before anything starts
mpi              which MPI is here, and what it wants to be told
preflight/       is this machine, and each host, as it should be?
engines          a plan brought to life, and its end
cluster          the start of its controller and ranks
no_start         why ranks did not come up, in a sentence
runtime          where running labs have their folders, beside Jupyter's files, and who else may enter
ranks            the ranks as facts
channel          what notebook and ranks say to each other, encrypted and signed
ports            that nobody else gets the controller's
heartbeat        that the controller is one process, which leaves idle ranks alone
remote           what is needed when ranks are on other hosts
slurm            ranks by one `srun`
hosts/           names of hosts, ssh to them, what they tell
shared           one lab for all notebooks of a JupyterLab server
spare            a second set of ranks, ready for a restart
spare_maker      the process that makes it
interrupts       Ctrl-C where an exception would leave something half done
stopped          processes that are stopped, and live
keeping          that a lab always has a living keeper, to which the controller sees
keeper           the process that ends what a `kill -9` would leave
living           a process known by pid and start time, and what it does
processes        which processes belong to a lab
witness          the process that mpiexec knows as a rank, which says how the rank ended
endings          how a rank ended, as its witness says it
private          folders that only the user enters, files that nobody finds half written
keyless          a program begun without its user's keys in the kernel
mpi_files        shared memory and files that an MPI leaves when its ranks are ended
listeners        ports of an MPI's launcher that nobody needs any more
cause_of_death   why a lab's ranks ended
"""

from labkit.launch.mpi import MPI, find_mpi, recognise
from labkit.launch.plan import BACKENDS, DEFAULT_RANKS, DEVICES, LAUNCHERS, MAX_RANKS, Plan, plan, resized

__all__ = [
    "BACKENDS",
    "DEFAULT_RANKS",
    "DEVICES",
    "LAUNCHERS",
    "MAX_RANKS",
    "MPI",
    "Plan",
    "find_mpi",
    "plan",
    "recognise",
    "resized",
]
