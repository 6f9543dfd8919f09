"""Executes a program that the kernel kills when its parent dies.

Run as `python -I -S launcher.py PARENT_PID COMMAND [ARGUMENT...]`. A test process that is killed with SIGKILL cannot
clean up, so the kernel has to: the death signal survives execve. (The alternative, preexec_fn, runs Python between
fork and exec, which is unsafe beside threads.) On other systems than Linux the program starts without it.
The signal follows the parent's *thread*: start control planes from a thread that lives as long as they should.
"""

import ctypes
import os
import signal
import sys

__all__: list[str] = []

_PR_SET_PDEATHSIG = 1


def _main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the death signal was set
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - becoming the given program is the purpose


if __name__ == "__main__":
    _main()
