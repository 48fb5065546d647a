"""Other hosts: their names, ssh to them, what they tell of themselves, and who ends what runs there.

names          how hosts are named, and how many ranks each takes
ssh            how they are reached, and asked
facts          what a host tells of itself
ports          can hosts reach each other? and a free port
remote_shell   the ssh that an mpiexec uses
watchdog       ends a lab's processes there when the lab is gone
"""
