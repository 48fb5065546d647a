"""Checked mode: what may go wrong between an asynchronous call and its `wait`.

watch      one call meanwhile: is what it reads as it was, and does anybody wait?
in_flight  the tensors that it writes, which nobody may use
"""
