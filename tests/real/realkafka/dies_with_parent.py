"""Run a program that dies with its parent process: ``python dies_with_parent.py PARENT_PID PROGRAM ARGUMENTS...``.

A test run that is killed runs no cleanup, and would leave brokers behind. The kernel does better (Linux only). A
program in between, not ``preexec_fn``: that runs Python between fork and exec, and warns once other threads are there.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, program: list[str]) -> None:
    """Ask for the signal, then become the program: the process id stays."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we could ask
            sys.exit(1)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
