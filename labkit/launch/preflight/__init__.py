"""What is looked at before ranks start: is this machine fit for them, and is each host as this machine is.

ask     this machine and the hosts tell their facts
judge   what the facts mean: a Check for each, with the fix where something is wrong
start   a lab is about to start: refuse hosts on which it could not
"""
