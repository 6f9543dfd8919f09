from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kube_fairlead_lab.testing import processes
from kube_fairlead_lab.testing.control_plane import ControlPlaneFailed
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready


def python(folder: Path, code: str, name: str = "child") -> ManagedProcess:
    return ManagedProcess(name, [sys.executable, "-c", textwrap.dedent(code)], folder=folder)


def said(process: ManagedProcess, text: str) -> bool:
    return text in process.log.read_text(encoding="utf-8")


async def until_said(process: ManagedProcess, text: str) -> None:
    async def probe() -> bool:
        return said(process, text)

    await wait_until_ready(probe, [process], what=text, timeout_seconds=20)


async def test_stop_sends_sigterm_first(tmp_path: Path) -> None:
    process = python(
        tmp_path,
        """
        import signal, sys, threading
        done = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: done.set())
        print("up", flush=True)
        done.wait()
        print("bye", flush=True)
        """,
    )
    process.start()
    await until_said(process, "up")
    await process.stop()
    assert not process.running
    assert said(process, "bye")


@pytest.mark.parametrize("setpriv", [("no-such-setpriv",), ("false",)])
async def test_without_setpriv_it_starts_too(
    tmp_path: Path, setpriv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_SETPRIV", setpriv)
    monkeypatch.setattr(processes, "_launcher", processes._launcher.__wrapped__)
    process = python(tmp_path, "import threading; print('up', flush=True); threading.Event().wait()")
    process.start()
    await until_said(process, "up")
    process.kill()


async def test_stop_kills_after_the_grace_period(tmp_path: Path) -> None:
    process = python(
        tmp_path,
        """
        import signal, threading
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("up", flush=True)
        threading.Event().wait()
        """,
    )
    process.start()
    await until_said(process, "up")
    await process.stop(grace_seconds=0.2)
    assert not process.running
    await process.stop()  # a second call is allowed


async def test_waiting_ends_when_the_process_does_and_shows_its_log(tmp_path: Path) -> None:
    process = python(tmp_path, "raise SystemExit('no disk left')")
    process.start()

    async def never() -> bool:
        return False

    with pytest.raises(ControlPlaneFailed, match=r"child ended\n(.|\n)*no disk left"):
        await wait_until_ready(never, [process], what="it", timeout_seconds=20)
    process.kill()


async def test_waiting_has_a_limit(tmp_path: Path) -> None:
    process = python(tmp_path, "import threading; threading.Event().wait()")
    process.start()

    async def never() -> bool:
        return False

    with pytest.raises(ControlPlaneFailed, match=r"it is not ready after 0\.2 s"):
        await wait_until_ready(never, [process], what="it", timeout_seconds=0.2)
    process.kill()


def test_a_process_starts_only_once(tmp_path: Path) -> None:
    process = python(tmp_path, "import threading; threading.Event().wait()")
    with pytest.raises(ControlPlaneFailed, match="child is not running"):
        _ = process.pid
    process.start()
    with pytest.raises(ControlPlaneFailed, match="child is already running"):
        process.start()
    process.kill()


def test_freeze_and_thaw(tmp_path: Path) -> None:
    process = python(tmp_path, "import threading; threading.Event().wait()")
    process.start()
    process.freeze()
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    process.thaw()
    _, status = os.waitpid(process.pid, os.WCONTINUED)
    assert os.WIFCONTINUED(status)
    process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's death signal is Linux's")
def test_children_of_a_killed_parent_are_killed(tmp_path: Path) -> None:
    """The child holds the write end of a pipe: end of file here means that it is gone."""
    reading, writing = os.pipe()
    code = f"""
        import subprocess, sys
        from pathlib import Path
        from kube_fairlead_lab.testing.processes import ManagedProcess
        real = subprocess.Popen
        subprocess.Popen = lambda *a, **k: real(*a, **k, pass_fds=({writing},))
        waiting = "import threading; threading.Event().wait()"
        child = ManagedProcess("child", [sys.executable, "-c", waiting], folder=Path("."))
        child.start()
        print("up", flush=True)
        exec(waiting)
        """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, stdout=subprocess.PIPE, pass_fds=(writing,)
    )
    os.close(writing)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert os.read(reading, 1) == b""
    os.close(reading)
