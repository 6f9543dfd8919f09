from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kube_fairlead.base import process

COMPONENT = """
import asyncio, sys
from kube_fairlead.base import process

async def component():
    print("up", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("stopping", flush=True)
        {stopping}
        print("stopped", flush=True)

process.run(component{factory})
"""
QUICK = "await asyncio.sleep(0)"
# Stops only when the test closes its standard input, so that a second signal finds it still stopping.
SLOW = "await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)"
UVLOOP = ", loop_factory=__import__('uvloop').new_event_loop"


def start(stopping: str, factory: str = "") -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", COMPONENT.format(stopping=stopping, factory=factory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    return started


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("factory", ["", UVLOOP], ids=["asyncio", "uvloop"])
def test_a_signal_stops_in_order_and_is_success(number: signal.Signals, factory: str) -> None:
    with start(QUICK, factory) as running:
        running.send_signal(number)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (0, "stopping\nstopped\n", "")


@pytest.mark.parametrize("factory", ["", UVLOOP], ids=["asyncio", "uvloop"])
def test_a_second_signal_does_not_wait(factory: str) -> None:
    with start(SLOW, factory) as running:
        assert running.stdout is not None
        running.send_signal(signal.SIGTERM)
        assert running.stdout.readline() == "stopping\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == -signal.SIGTERM
        assert running.stdout.read() == ""


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def component() -> None:
        pass

    process.run(component)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_failure_comes_out() -> None:
    async def component() -> None:
        raise OSError("port taken")

    with pytest.raises(OSError, match="port taken"):
        process.run(component)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")
def test_other_signals_do_what_they_are_for() -> None:
    extra = ", on_signal={'SIGUSR1': lambda: print('yielded', flush=True), 'SIGNONE': None}"
    with start(QUICK, extra) as running:
        assert running.stdout is not None
        for _ in range(2):
            running.send_signal(signal.SIGUSR1)
            assert running.stdout.readline() == "yielded\n"
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (0, "stopping\nstopped\n", "")
