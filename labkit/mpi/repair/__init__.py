"""Calls that cannot go well: seen before they begin, and mended after they were given up.

agreement   do all ranks make the same call?
monitored   a barrier that names who did not come
recovery    everything usable again after interrupts and deadlines
drain       empty a communicator of what was given up
"""
