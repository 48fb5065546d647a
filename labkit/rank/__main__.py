"""What is started as each rank where there is no fork server: a witness, which forks the rank itself."""

import os
import signal

from labkit.launch import endings, witness


def main() -> None:
    own, rank = os.getpid(), os.fork()
    if rank == 0:
        witness.end_with(own)
        from labkit.rank import engine

        return engine.main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1])
    witness.end_as(code, endings.said(rank, code))


if __name__ == "__main__":
    main()
