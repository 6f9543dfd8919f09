"""A service control manager in memory: it starts a service on threads of its own, as the real one does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kube_fairlead.agent.windows.control import Control, ServiceState, Status
from kube_fairlead.agent.windows.processes import Process, tree_of
from kube_fairlead.agent.windows.scm import ScmError, ServiceFacts
from kube_fairlead.agent.windows.structures import Win32Error


class FakeCalls:
    """What a service sees of the system. `control` is what the system says to it."""

    def __init__(self, name: str = "agent", *, is_a_service: bool = True) -> None:
        self.name = name
        self.reports: list[Status] = []
        self.refuses_reports = False
        self._is_a_service = is_a_service
        self._handler: Callable[[int], int] | None = None

    def dispatch(self, main: Callable[[str], None]) -> None:
        if not self._is_a_service:
            raise ScmError("becoming a service", Win32Error.FAILED_SERVICE_CONTROLLER_CONNECT)
        thread = threading.Thread(target=main, args=(self.name,))
        thread.start()
        thread.join()

    def register(self, name: str, handler: Callable[[int], int]) -> None:
        assert name == self.name
        self._handler = handler

    def report(self, status: Status) -> None:
        if self.refuses_reports:
            raise ScmError("reporting", 6)
        self.reports.append(status)

    @property
    def states(self) -> list[ServiceState]:
        return [status.state for status in self.reports]

    def last(self) -> ServiceState:
        return self.states[-1]

    def control(self, control: Control | int) -> int:
        """As the system does it: from a thread that is not the event loop's."""
        assert self._handler is not None
        answers: list[int] = []
        handler = self._handler
        thread = threading.Thread(target=lambda: answers.append(handler(control)))
        thread.start()
        thread.join()
        return answers[0]


class FakeManager:
    """The queries of the service control manager."""

    def __init__(self) -> None:
        self.timeout_ms = 10_000
        self.timeout_max_ms = 0xFFFF_FFFF
        self.services: dict[str, ServiceFacts] = {}
        self.log: list[str] = []
        self.refuses: set[str] = set()

    def preshutdown_timeout_ms(self, name: str) -> int:
        self._note(f"query {name}")
        return self.timeout_ms

    def set_preshutdown_timeout_ms(self, name: str, timeout_ms: int) -> None:
        self._note(f"change {name} {timeout_ms}")
        self.timeout_ms = min(timeout_ms, self.timeout_max_ms)

    def facts(self, name: str) -> ServiceFacts | None:
        return self.services.get(name)

    def start(self, name: str) -> None:
        self._note(f"start {name}")

    def stop(self, name: str) -> None:
        self._note(f"stop {name}")
        if "ignores" not in self.refuses:
            self.services[name] = a_service(ServiceState.STOPPED)

    def _note(self, text: str) -> None:
        self.log.append(text)
        if text.split(maxsplit=1)[0] in self.refuses:
            raise ScmError(text, 5, "Access is denied.")


class FakeProcesses:
    """The processes of a machine: by number, the number of the parent and the name."""

    def __init__(self, **processes: tuple[int, int]) -> None:
        self.alive = {number: Process(number, parent, number, name) for name, (number, parent) in processes.items()}
        self.ended: list[str] = []
        self.refuses = False

    def tree(self, process_id: int) -> list[Process]:
        return tree_of(process_id, self.alive.values())

    def end(self, process: Process) -> bool:
        if self.refuses:
            raise PermissionError("no")
        if self.alive.pop(process.process_id, None) is None:
            return False
        self.ended.append(process.name)
        return True


class FakeRegistry:
    """The list of services in the registry, and what a service needs."""

    def __init__(self, order: Sequence[str] | None) -> None:
        self.listed = None if order is None else list(order)
        self.needs: list[str] = []
        self.writes = 0
        self.refusal = ""

    def order(self) -> list[str] | None:
        if self.refusal == "order":
            raise PermissionError("no")
        return self.listed

    def set_order(self, order: Sequence[str]) -> None:
        self.listed = list(order)
        self.writes += 1

    def dependencies(self, service: str) -> list[str]:
        if self.refusal == "dependencies":
            raise PermissionError(f"the dependencies of {service} cannot be read")
        return self.needs


def a_service(state: ServiceState, accepts: int = 0, process_id: int = 0) -> ServiceFacts:
    return ServiceFacts(state=state, accepts=accepts, checkpoint=0, wait_hint_ms=0, exit_code=0, process_id=process_id)
