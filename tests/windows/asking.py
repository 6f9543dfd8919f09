"""Runs on Windows: questions to the service control manager and the registry, lines of JSON as are the answers."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import sys
import time
import traceback
from typing import Any

from kube_fairlead.agent.windows.control import Control
from kube_fairlead.agent.windows.processes import Processes
from kube_fairlead.agent.windows.registry import Registry
from kube_fairlead.agent.windows.scm import NewService, ScmError, ServiceManager, _service, advapi
from kube_fairlead.agent.windows.structures import ServiceStatus, StartKind

RUNNING, STOPPED = 4, 1
NO_ANSWER = 1053  # ERROR_SERVICE_REQUEST_TIMEOUT
MAY_PAUSE: Any = 0x40  # the right to tell of changed settings too


def facts(name: str) -> Any:
    found = ServiceManager().facts(name)
    return None if found is None else dataclasses.asdict(found)


def create(name: str, command_line: str, *dependencies: str) -> None:
    ServiceManager().create(
        NewService(
            name=name,
            display_name=name,
            description="A test.",
            command_line=command_line,
            start=StartKind.DEMAND,
            dependencies=dependencies,
        )
    )


def start(name: str) -> float:
    """Start it; seconds until it runs."""
    manager = ServiceManager()
    began = time.monotonic()
    while True:
        try:
            manager.start(name)
            break
        except ScmError as error:
            # Wine waits ten seconds for a service to answer, which may be too short on a machine that is busy.
            if error.code != NO_ANSWER or time.monotonic() - began > 250:
                raise
    while (found := manager.facts(name)) is not None and found.state != RUNNING:
        assert time.monotonic() - began < 100, found
        time.sleep(0.02)
    return time.monotonic() - began


def stop(name: str) -> list[tuple[int, int, int, int]]:
    """Stop it; everything that it reports until it has stopped."""
    manager = ServiceManager()
    began = time.monotonic()
    manager.stop(name)
    seen: list[tuple[int, int, int, int]] = []
    while True:
        found = manager.facts(name)
        assert found is not None
        report = (found.state, found.checkpoint, found.wait_hint_ms, found.exit_code)
        if not seen or seen[-1] != report:
            seen.append(report)
        if found.state == STOPPED:
            return seen
        assert time.monotonic() - began < 100, seen
        time.sleep(0.01)


def paramchange(name: str) -> int:
    """Tell it that its settings were changed; the error, 0 for none."""
    with _service(name, MAY_PAUSE) as handle:
        told = advapi().ControlService(handle, Control.PARAMCHANGE, ctypes.byref(ServiceStatus()))
        return 0 if told else int(ctypes.get_last_error())  # type: ignore[attr-defined]  # exists on Windows only


def timeout(name: str, *milliseconds: str) -> int:
    """The preshutdown timeout, after it was changed where a number is given."""
    manager = ServiceManager()
    for number in milliseconds:
        manager.set_preshutdown_timeout_ms(name, int(number))
    return manager.preshutdown_timeout_ms(name)


def order(*names: str) -> list[str] | None:
    """PreshutdownOrder, after it was written where names are given."""
    if names:
        Registry().set_order(names)
    return Registry().order()


def dependencies(name: str) -> list[str]:
    return Registry().dependencies(name)


def tree(process_id: str) -> list[str]:
    """The names of a process that runs and of all that it has started."""
    return [one.name for one in Processes().tree(int(process_id))]


QUESTIONS = {one.__name__: one for one in (create, dependencies, facts, order, paramchange, start, stop, timeout, tree)}


def answer(question: str, *arguments: str) -> dict[str, Any]:
    try:
        return {"answer": QUESTIONS[question](*arguments)}
    except Exception:  # noqa: BLE001 - whoever asked wants to see it
        return {"failure": traceback.format_exc()}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)  # noqa: T201 - the answer
