"""Checked mode: what may go wrong with the tensors of a call, and between an asynchronous one and its `wait`.

watch        one call meanwhile: is what it reads as it was, and does anybody wait?
in_flight    the tensors that it writes, which nobody may use
temporaries  a result that went into a copy which nobody keeps
"""
