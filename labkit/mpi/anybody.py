"""A receive from whoever sends, where messages come both through memory and over the network."""

from itertools import starmap

from labkit.mpi.runtime import MPI


class FromAnybody:
    """In place of the request of `comm.Irecv(buffer, ANY_SOURCE, tag)`.

    It looks for a message at each test and takes it from the sender that it came from. MPICH posts a receive
    of any source twice, once for each way, and up to 5.0 one of the two can lose a small message
    (https://github.com/pmodels/mpich/pull/7745).
    """

    def __init__(self, comm, buffer, tag):
        self._comm, self._buffer, self._tag = comm, buffer, tag
        self._requests = []  # empty until a message is there
        self._cancelled = False

    def __bool__(self):
        return not self._requests or bool(self._requests[0])

    def Test(self, status=None):
        if not self._requests:
            # One expression that stays in C, as in Channel.post: an interrupt in it would lose the message.
            look = starmap(self._comm.Improbe, ((MPI.ANY_SOURCE, self._tag),))
            self._requests.extend(map(MPI.Message.Irecv, filter(None, look), (self._buffer,)))
        return bool(self._requests) and self._requests[0].Test(status)

    def Cancel(self):
        if self._requests:
            self._requests[0].Cancel()
        else:
            self._cancelled = True

    def Wait(self, status=None):
        if not self._cancelled:
            self._requests[0].Wait(status)
        elif status is not None:
            status.Set_cancelled(True)
