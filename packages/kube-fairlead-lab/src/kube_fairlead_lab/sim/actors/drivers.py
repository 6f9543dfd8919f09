"""Drivers, each a process of its own beside the agent, and the machines that they work on."""

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
from kube_fairlead_lab.sim.environment import Environment, Life
from kube_fairlead_lab.sim.links import Link
from kube_fairlead_lab.sim.loop import Process, current_process

__all__ = [
    "CENTRAL",
    "DRIVER",
    "REMOTE",
    "SELF_TEST",
    "Central",
    "DriverHost",
    "DriverObserver",
    "Release",
    "Worker",
    "drainer",
    "worker",
]

_T = TypeVar("_T")

DRIVER: Final = "example.com/reboot"
SELF_TEST: Final = OfferedTransition(name="self-test", start="Testing", end="Tested", sla="33s")
"""A user's own. The driver of one node offers another one of its name in some releases, and is refused."""


class Release:
    """The version of the drivers that are started from now on, and what it offers."""

    def __init__(self) -> None:
        self.number = 0

    def offered(self, node_name: str) -> tuple[OfferedTransition, ...]:
        """What a driver of this version offers on a node."""
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
"""What is done to machines from elsewhere, by a driver beside the controller manager."""

_LIES: Final = 0.02  # how often a driver names a state that is none of the transition's
_CONNECTIONS_LOST: Final = 0.5  # how often they do not survive a cut


class DriverObserver(Protocol):
    """Who wants to know what drivers are asked and what they do."""

    def begun(self, work: Work, *, is_end: bool, caller: Process, link: Link) -> int:
        """A driver begins; the number of the call."""
        ...

    def over(self, number: int, reached: object = None) -> None:
        """It has ended, with an answer or without."""
        ...

    def answered(self, work: Work, progress: Progress | None) -> None:
        """Its answer has reached the claimant, and before it this was its last progress."""
        ...


class _Marks:
    """What survives a driver's process: which work was done on it."""

    def __init__(self) -> None:
        self.ended: set[str] = set()


class Worker(sdk.Driver):
    """Takes its time, sometimes for ever, and now and then refuses."""

    name: str = DRIVER
    transitions: Sequence[OfferedTransition] = ()

    def __init__(self, host: DriverHost, life: Life) -> None:
        self._host = host
        self._life = life

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


class Central(Worker):
    """The same from elsewhere."""

    name = CENTRAL
    transitions = REMOTE


def worker(node_name: str, release: Release) -> Callable[[DriverHost, Life], sdk.Driver]:
    """A driver of the version that is out when it is started."""

    def make(host: DriverHost, life: Life) -> sdk.Driver:
        made = Worker(host, life)
        made.transitions = release.offered(node_name)
        return made

    return make


def drainer(node_name: str) -> Callable[[DriverHost, Life], sdk.Driver]:
    """The real drain driver of a node. What it offers has an SLA here, or a drain might last as long as the world."""

    def make(host: DriverHost, life: Life) -> sdk.Driver:
        made = DrainDriver(host.environment.client(life), node_name=node_name)
        slas = zip(DrainDriver.transitions, ("2m", "1m"), strict=True)
        made.transitions = tuple(dataclasses.replace(offered, sla=sla) for offered, sla in slas)
        return made

    return make


@dataclasses.dataclass(slots=True, eq=False)
class _Call:
    """A call under way: who made it, what runs for it in the driver, where the answer goes."""

    caller: Process
    answer: asyncio.Future[Any]
    task: asyncio.Task[None]


class DriverHost:
    """A driver's process as its agent reaches it. Calls run there; only answers come back, over a link."""

    def __init__(
        self,
        environment: Environment,
        link: Link,
        make: Callable[[DriverHost, Life], sdk.Driver],
        on_call: Callable[[Work], None],
        checker: DriverObserver,
    ) -> None:
        self.environment = environment
        self.link = link
        link.on_heal.append(self._link_healed)
        self._on_call = on_call
        self._checker = checker
        self.marks = _Marks()
        self._make = make
        self.is_troubled = True
        self.name = ""  # as it registers
        self.offered: Sequence[OfferedTransition] = ()
        self.lives = 0
        self.began_at = 0.0
        self.died_at: float | None = 0.0  # None: it lives
        self.registered: dict[Process, int] = {}  # with whom, in which life
        self.on_socket: dict[str, Callable[[], None]] = {}  # who looks at the folder, by name
        self._service: Service | None = None
        self._process: Process | None = None
        self._calls: dict[_Call, None] = {}  # in the order in which they came
        self._at_work: set[int] = set()  # calls by their number for the checker

    async def main(self, life: Life) -> None:
        """One life of the driver."""
        driver = self._make(self, life)
        self.name, self.offered = driver.name, driver.transitions
        self._service = Service(driver, life.clock)
        self._process = life.process
        self.lives, self.began_at, self.died_at = life.number, self.environment.loop.time(), None
        for listener in self.on_socket.values():
            listener()
        await asyncio.Event().wait()

    def died(self, process: Process) -> None:
        """A process is gone: the driver, or somebody who called it. The kernel tells the other end."""
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

    # ---- the channels: what the agent calls

    async def get_info(self) -> PluginInfo:
        """Who it is."""

        async def info(_service: Service) -> PluginInfo:
            return PluginInfo(
                type=contracts.PLUGIN_TYPE, name=self.name, supported_versions=(contracts.DRIVER_VERSION,)
            )

        return await self._call(info)

    async def notify(self, *, registered: bool, error: str = "") -> None:
        """Whether it is known now."""
        caller = current_process()

        async def heard(_service: Service) -> None:
            self._tell("is registered" if registered else f"is not registered: {error}")
            if registered:
                self.registered[caller] = self.lives
            else:
                self.registered.pop(caller, None)

        await self._call(heard)

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """Which transitions the driver carries out."""
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
            self._tell(f"is asked by {caller.name} to {step}")
            self._on_call(work)
            number, reached = self._checker.begun(work, is_end=is_end, caller=caller, link=self.link), None
            self._at_work.add(number)
            try:
                reached = await begin(service)
                self._tell(f"is done: {step}")
            except asyncio.CancelledError:
                self._tell(f"is stopped: {step}")
                raise
            except Exception as error:
                self._tell(f"fails to {step}: {error}")
                raise
            finally:
                self._at_work.discard(number)
                self._checker.over(number, reached)
            if self.is_troubled and self.environment.chance.random() < _LIES:
                self.environment.counts["driver lies"] += 1
                self._tell(f"lies about how it was: {step}")
                return Reached(state="Nonsense", node_name=reached.node_name)
            return reached

        return await self._call(checked)

    def _tell(self, what: str) -> None:
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
        except Exception as error:  # noqa: BLE001 - over a socket, too, an exception is an answer
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
    """Nobody takes back what was said."""
