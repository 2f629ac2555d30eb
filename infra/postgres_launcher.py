"""Start one PostgreSQL program so that it can't outlive turnlog. Run as a script; standard library only.

A process of its own, because what it does belongs between fork and exec, where Python code in a threaded program can
deadlock. It drops root, ties its life to the owner's, and becomes the program:

* Linux: `prctl(PR_SET_PDEATHSIG)` (prctl(2)). Set after setuid, which clears it, and followed by a look at the parent:
  an owner that died before the call sends no signal. It follows the *thread* that forked, so fork from the loop's.
* Elsewhere: stay as the program's parent and watch the owner's end of a pipe on stdin; end of file is the signal.

With `check` it starts nothing and prints, for each of those paths, the first directory on the way to it that the
program's user can't enter (JSON; "" when there is none).
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

WATCH_BY_PIPE = sys.platform != "linux"
_PR_SET_PDEATHSIG = 1
_FAST_SHUTDOWN_S = 20.0


class Launch(TypedDict):
    """What the script is told, as JSON in its only argument. `inherit` is a file descriptor to keep open, or -1."""

    command: list[str]
    uid: int
    gid: int
    owner_pid: int
    death_signal: int
    inherit: int
    watch: bool
    check: list[str]


def launcher_command(
    command: Sequence[str],
    *,
    user: tuple[int, int] | None,
    death_signal: signal.Signals,
    inherit: int = -1,
    watch: bool = WATCH_BY_PIPE,
    check: Sequence[str] = (),
) -> list[str]:
    """The command line that runs `command` as `user` (uid, gid; None keeps ours) until this process dies."""
    uid, gid = user or (-1, -1)
    launch = Launch(
        command=list(command),
        uid=uid,
        gid=gid,
        owner_pid=os.getpid(),
        death_signal=death_signal,
        inherit=inherit,
        watch=watch,
        check=list(check),
    )
    return [sys.executable, "-I", "-S", __file__, json.dumps(launch)]


def main(launch: Launch) -> int:
    """Become the program (no return), or watch over it and return its exit status."""
    owner_is_gone = os.getppid() != launch["owner_pid"]
    if launch["uid"] >= 0:
        os.setgroups([])
        os.setgid(launch["gid"])
        os.setuid(launch["uid"])
    os.umask(0o077)
    if launch["check"]:
        json.dump([_closed_directory(path) for path in launch["check"]], sys.stdout)
        return 0
    if owner_is_gone:
        return 1
    if launch["inherit"] >= 0:
        os.set_inheritable(launch["inherit"], True)
    if launch["watch"]:
        return _watch(launch)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, launch["death_signal"], 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != launch["owner_pid"]:
        return 1
    return os.execv(launch["command"][0], launch["command"])  # noqa: S606 - the point of this script; no shell


def _closed_directory(path: str) -> str:
    for ancestor in reversed(Path(path).parents):
        if not os.access(ancestor, os.X_OK):
            return str(ancestor)
    needed = os.X_OK if Path(path).is_dir() else os.R_OK | os.X_OK
    return "" if os.access(path, needed) else path


def _watch(launch: Launch) -> int:
    inherit = [launch["inherit"]] if launch["inherit"] >= 0 else []
    child = subprocess.Popen(launch["command"], stdin=subprocess.DEVNULL, pass_fds=inherit)  # noqa: S603 - no shell
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    while child.poll() is None:
        readable, _, _ = select.select([0], [], [], 0.2)
        if readable and not os.read(0, 1):
            child.send_signal(launch["death_signal"])
            try:
                return child.wait(_FAST_SHUTDOWN_S)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGQUIT)
                return child.wait()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
