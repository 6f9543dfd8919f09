"""Drivers: each one is a process beside the agent."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from kube_fairlead.driverapi import contracts
from kube_fairlead.driverapi.errors import DriverError, DriverGone, DriverRefused
from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo, Progress, Reached, Work
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.drain.driver import DrainDriver
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead_lab.sim.environment import Environment, ProcessRun
from kube_fairlead_lab.sim.links import Link
from kube_fairlead_lab.sim.loop import Process, current_process

__all__ = [
    "CENTRAL",
    "DRIVER",
    "REMOTE",
    "SELF_TEST",
    "ControllerManagerDriver",
    "DriverHost",
    "DriverObserver",
    "DriverRelease",
    "NodeDriver",
    "drainer",
    "worker",
]

_T = TypeVar("_T")

DRIVER: Final = "example.com/reboot"
SELF_TEST: Final = OfferedTransition(name="self-test", start="Testing", end="Tested", sla="33s")
"""A user's own transition. In some releases a driver offers one with the same name, which is rejected."""


class DriverRelease:
    """The version of the drivers that start from now on, and its transitions."""

    def __init__(self) -> None:
        self.number = 0

    def offered(self, node_name: str) -> tuple[OfferedTransition, ...]:
        """Return the transitions of this version on a node."""
        found = [
            OfferedTransition(name="reboot", start="Rebooting", end="Rebooted", sla="90s"),
            OfferedTransition(name="patch", start="Patching", end="Patched", sla="10m"),
            OfferedTransition(name="firmware", start="Flashing", end="Flashed"),
            OfferedTransition(name="retune", start="Retuning", end="Retuned", sla=f"{70 + 10 * (self.number % 2)}s"),
        ]
        if not self.number:
            found.append(OfferedTransition(name="calibrate", start="Calibrating", end="Calibrated", sla="60s"))
        if self.number % 3 == 2 and node_name == "node-1":
            found.append(dataclasses.replace(SELF_TEST, sla="44s"))
        return tuple(found)


CENTRAL: Final = "example.com/central"
REMOTE: Final[tuple[OfferedTransition, ...]] = (
    OfferedTransition(name="remote", start="RemoteStarted", end="RemoteDone"),
)
"""The transition of the driver beside the controller manager."""

_WRONG_STATES: Final = 0.02  # how often a driver reports a state that is not in the transition
_CONNECTIONS_LOST: Final = 0.5  # how often connections do not survive a cut


class DriverObserver(Protocol):
    """Observes calls to drivers."""

    def begun(self, work: Work, *, is_end: bool, caller: Process, link: Link) -> int:
        """A call begins; returns its number."""
        ...

    def over(self, number: int, reached: object = None) -> None:
        """A call has ended, with an answer or without."""
        ...

    def answered(self, work: Work, progress: Progress | None) -> None:
        """The answer has reached the claimant; `progress` is the last one before it."""
        ...


class _FinishedWork:
    """What survives a driver's process: the work that is done."""

    def __init__(self) -> None:
        self.ended: set[str] = set()


class NodeDriver(sdk.Driver):
    """Takes a random time, sometimes for ever, and sometimes fails."""

    name: str = DRIVER
    transitions: Sequence[OfferedTransition] = ()

    def __init__(self, host: DriverHost, process_run: ProcessRun) -> None:
        self._host = host
        self._life = process_run

    async def start(self, work: sdk.Work) -> None:
        """Enter the start state."""
        del work
        await self._life.clock.sleep(self._life.randomness.uniform(0.0, 3.0))

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        """Bring the node to the end state."""
        if work.event_uid in self._host.marks.ended:
            return
        chance = self._life.randomness.random()
        troubled = self._host.is_troubled
        if troubled and chance < 0.05 and work.deadline is not None:
            self._host.environment.counts["driver hangs"] += 1
            await asyncio.Event().wait()
        for done in range(1, 4):
            await self._life.clock.sleep(self._life.randomness.uniform(0.0, 12.0))
            report(Progress(done=done, total=3, unit="steps"))
        if troubled and chance > 0.95:
            raise DriverRefused("the machine does not obey")
        self._host.marks.ended.add(work.event_uid)


class ControllerManagerDriver(NodeDriver):
    """The driver beside the controller manager."""

    name = CENTRAL
    transitions = REMOTE


def worker(node_name: str, release: DriverRelease) -> Callable[[DriverHost, ProcessRun], sdk.Driver]:
    """Return a driver of the version that is current when it starts."""

    def make(host: DriverHost, process_run: ProcessRun) -> sdk.Driver:
        made = NodeDriver(host, process_run)
        made.transitions = release.offered(node_name)
        return made

    return make


def drainer(node_name: str) -> Callable[[DriverHost, ProcessRun], sdk.Driver]:
    """Return the real drain driver of a node. Its transitions have an SLA here, so that every drain ends."""

    def make(host: DriverHost, process_run: ProcessRun) -> sdk.Driver:
        made = DrainDriver(host.environment.client(process_run), node_name=node_name)
        slas = zip(DrainDriver.transitions, ("2m", "1m"), strict=True)
        made.transitions = tuple(dataclasses.replace(offered, sla=sla) for offered, sla in slas)
        return made

    return make


@dataclasses.dataclass(slots=True, eq=False)
class _Call:
    """A running call: its caller, its task in the driver, and the future for its answer."""

    caller: Process
    answer: asyncio.Future[Any]
    task: asyncio.Task[None]


class DriverHost:
    """A driver's process as its agent reaches it. Calls run in the driver; answers come back over a link."""

    def __init__(
        self,
        environment: Environment,
        link: Link,
        make: Callable[[DriverHost, ProcessRun], sdk.Driver],
        on_call: Callable[[Work], None],
        checker: DriverObserver,
    ) -> None:
        self.environment = environment
        self.link = link
        link.on_heal.append(self._link_healed)
        self._on_call = on_call
        self._checker = checker
        self.marks = _FinishedWork()
        self._make = make
        self.is_troubled = True
        self.name = ""  # the name that it registers
        self.offered: Sequence[OfferedTransition] = ()
        self.lives = 0
        self.began_at = 0.0
        self.died_at: float | None = 0.0  # None: it runs
        self.registered: dict[Process, int] = {}  # agent process -> run of the driver
        self.on_socket: dict[str, Callable[[], None]] = {}  # listeners for new sockets, by name
        self._service: Service | None = None
        self._process: Process | None = None
        self._calls: dict[_Call, None] = {}  # in the order of arrival
        self._at_work: set[int] = set()  # numbers of running calls

    async def main(self, process_run: ProcessRun) -> None:
        """One run of the driver."""
        driver = self._make(self, process_run)
        self.name, self.offered = driver.name, driver.transitions
        self._service = Service(driver, process_run.clock)
        self._process = process_run.process
        self.lives, self.began_at, self.died_at = process_run.number, self.environment.loop.time(), None
        for listener in self.on_socket.values():
            listener()
        await asyncio.Event().wait()

    def died(self, process: Process) -> None:
        """A process has ended: the driver or a caller. The kernel closes the connections of the other end."""
        for call in [call for call in self._calls if call.caller is process]:
            del self._calls[call]
            self.link.send(functools.partial(_cancel, call.task))
        if process is not self._process:
            return
        self._service = None
        self.died_at = self.environment.loop.time()
        for number in sorted(self._at_work):
            self._checker.over(number)
        self._at_work.clear()
        self.link.send(self._break_all)

    def _link_healed(self) -> None:
        if self.environment.chance.random() < _CONNECTIONS_LOST:
            self._break_all()

    def _break_all(self) -> None:
        for call in self._calls:
            if not call.answer.done():
                call.answer.set_exception(DriverGone("connection reset by peer"))

    # ---- the channels that the agent calls

    async def get_info(self) -> PluginInfo:
        """Return the driver's name and versions."""

        async def info(_service: Service) -> PluginInfo:
            return PluginInfo(
                type=contracts.PLUGIN_TYPE, name=self.name, supported_versions=(contracts.DRIVER_VERSION,)
            )

        return await self._call(info)

    async def notify(self, *, registered: bool, error: str = "") -> None:
        """The result of the registration."""
        caller = current_process()

        async def heard(_service: Service) -> None:
            self._record("is registered" if registered else f"is not registered: {error}")
            if registered:
                self.registered[caller] = self.lives
            else:
                self.registered.pop(caller, None)

        await self._call(heard)

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """Return the transitions of the driver."""
        return await self._call(lambda service: service.get_transitions(node_name))

    async def start(self, work: Work, *, timeout_seconds: float | None = None) -> Reached:
        """Enter the start state."""
        del timeout_seconds
        return await self._work(lambda service: service.start(work), work, is_end=False)

    async def end(
        self, work: Work, on_progress: Callable[[Progress], None], *, timeout_seconds: float | None = None
    ) -> Reached:
        """Bring the node to the end state."""
        del timeout_seconds
        loop, caller = self.environment.loop, current_process()
        last: Progress | None = None

        def hear(progress: Progress) -> None:
            nonlocal last
            last = progress
            on_progress(progress)

        def relay(progress: Progress) -> None:
            self.link.send(lambda: _ignore(loop.call_soon(hear, progress, context=caller.context.copy())))

        reached = await self._work(lambda service: service.end(work, relay), work, is_end=True)
        self._checker.answered(work, last)
        return reached

    async def _work(
        self, begin: Callable[[Service], Coroutine[Any, Any, Reached]], work: Work, *, is_end: bool
    ) -> Reached:
        caller = current_process()

        async def checked(service: Service) -> Reached:
            step = f"{'end' if is_end else 'start'} {work.event_name}"
            self._record(f"is called by {caller.name}: {step}")
            self._on_call(work)
            number, reached = self._checker.begun(work, is_end=is_end, caller=caller, link=self.link), None
            self._at_work.add(number)
            try:
                reached = await begin(service)
                self._record(f"has finished: {step}")
            except asyncio.CancelledError:
                self._record(f"is cancelled: {step}")
                raise
            except Exception as error:
                self._record(f"fails to {step}: {error}")
                raise
            finally:
                self._at_work.discard(number)
                self._checker.over(number, reached)
            if self.is_troubled and self.environment.chance.random() < _WRONG_STATES:
                self.environment.counts["wrong states of drivers"] += 1
                self._record(f"reports a wrong state: {step}")
                return Reached(state="Nonsense", node_name=reached.node_name)
            return reached

        return await self._call(checked)

    def _record(self, what: str) -> None:
        if current_process().is_alive:
            self.environment.trace.add(current_process().name, what)

    async def _call(self, begin: Callable[[Service], Coroutine[Any, Any, _T]]) -> _T:
        await asyncio.sleep(self.environment.chance.uniform(0.0, 0.001))
        try:
            await self.link.wait_connected()
        except TimeoutError as error:
            raise DriverGone("connection timed out") from error
        if self._service is None or self._process is None:
            raise DriverGone("connection refused")
        loop = self.environment.loop
        answer: asyncio.Future[_T] = loop.create_future()
        task = loop.start(self._process, self._answered(begin(self._service), answer), name="call")
        call = _Call(current_process(), answer, task)
        self._calls[call] = None
        try:
            return await answer
        finally:
            self._calls.pop(call, None)
            self.link.send(functools.partial(_cancel, task))

    async def _answered(self, work: Coroutine[Any, Any, _T], answer: asyncio.Future[_T]) -> None:
        try:
            result = await work
        except DriverError as error:
            self.link.send(functools.partial(_fail, answer, error))
        except Exception as error:  # noqa: BLE001 - over a socket an exception is an answer, too
            self.link.send(functools.partial(_fail, answer, DriverRefused(f"{type(error).__name__}: {error}")))
        else:
            self.link.send(functools.partial(_settle, answer, result))


def _settle(answer: asyncio.Future[_T], result: _T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


def _ignore(_handle: object) -> None:
    """A sent message cannot be cancelled."""
