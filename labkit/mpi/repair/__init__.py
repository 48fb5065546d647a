"""Calls that cannot go well: seen before they begin, and mended after they were given up.

agreement  checked mode: the ranks tell each other what they are about to do
monitored  a barrier that names the ranks that did not come
recovery   recover(): every group usable again
leftovers  what is under way and nobody waits for
drain      how a communicator is emptied for that
"""
