"""Carries out the plan: injects the faults and runs the users' requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from kube_fairlead.base.randomness import Randomness, SeededRandomness
from kube_fairlead_lab.sim.action_plan import FAULTS, Action
from kube_fairlead_lab.sim.actors.clouds import CloudFault, SimCloud
from kube_fairlead_lab.sim.actors.drivers import DriverHost, DriverRelease
from kube_fairlead_lab.sim.actors.machines import SimMachine
from kube_fairlead_lab.sim.actors.server import SERVER
from kube_fairlead_lab.sim.actors.users import Users
from kube_fairlead_lab.sim.checkers.leaders import Leaders
from kube_fairlead_lab.sim.environment import Actor, Environment
from kube_fairlead_lab.sim.links import Link
from kube_fairlead_lab.sim.network import Direction
from kube_fairlead_lab.sim.scenario import NetworkFaults
from kube_fairlead_lab.sim.trace import PLAN, Trace

__all__ = ["FaultInjector"]

Handler = Callable[[Randomness], Awaitable[None] | None]

_PAUSES = (1.0, 6.0, 15.0, 35.0, 70.0, 90.0)
_CUTS = (0.5, 3.0, 12.0, 35.0, 70.0)
_AT_LEADERS = 0.6  # share of faults to a replica that hit the leader
_KINDS = ("agent-", "agent-", "kubelet-", "driver-", "drain-", "manager-", "ccm-", "operator-", "operator-")
_ON_THE_NETWORK = ("agent-", "agent-", "kubelet-", "drain-", "manager-", "manager-", "ccm-", "ccm-", "operator-")
_STEPS_MAX = 60
_WAYS = (Direction.BOTH, Direction.BOTH, Direction.IN, Direction.OUT)
_CUT_OFF = {Direction.BOTH: "is cut off", Direction.IN: "receives nothing", Direction.OUT: "cannot send"}
_JUMPS = (-3600.0, -30.0, -2.0, 2.0, 30.0, 3600.0)


class FaultInjector:
    """Has one handler for each kind of action."""

    def __init__(
        self,
        environment: Environment,
        users: Users,
        leaders: Leaders,
        clouds: dict[str, SimCloud],
        drivers: list[DriverHost],
        machines: dict[str, SimMachine],
        release: DriverRelease,
    ) -> None:
        self._release = release
        self._gone: set[str] = set()  # names of drivers that are stopped for a while
        self._environment = environment
        self._users = users
        self._leaders = leaders
        self._clouds = clouds
        self._drivers = drivers
        self._machines = machines
        self._handlers: dict[str, Handler] = {
            "server_crash": lambda chance: environment.crash(environment.actors[SERVER], _steps(chance)),
            "disk_full": self._disk_full,
            "disk_slow": self._disk_slow,
            "agent_crash": lambda chance: self._kill("agent-", chance),
            "manager_crash": lambda chance: self._kill("manager-", chance),
            "manager_yield": self._yield,
            "cloud_manager_crash": lambda chance: self._kill("ccm-", chance),
            "driver_death": lambda chance: self._kill(chance.choice(["driver-", "drain-"]), chance),
            "driver_gone": self._driver_gone,
            "driver_release": self._driver_release,
            "transition_deleted": users.delete_a_transition,
            "kubelet_crash": lambda chance: self._kill("kubelet-", chance),
            "machine_shutdown": self._machine_shutdown,
            "machine_disk_full": self._machine_disk_full,
            "pause": self._pause,
            "partition": self._partition,
            "driver_partition": lambda chance: self._cut_link(self._drivers_link(chance), chance),
            "cloud_partition": self._cloud_partition,
            "clock_jump": self._clock_jump,
            "cloud_silence": lambda chance: self._cloud_trouble(CloudFault.SILENT, 1.0, chance),
            "cloud_empty": lambda chance: self._cloud_trouble(CloudFault.EMPTY, 1.0, chance),
            "cloud_wrong": self._cloud_wrong,
            "cloud_late": lambda chance: self._cloud_trouble(CloudFault.LATE, 10.0, chance),
            "cloud_confused": self._cloud_confused,
            "node_annotated": users.annotate_a_node,
            "machine_gone": users.lose_a_machine,
            "node_recreated": users.recreate_a_node,
            "finalizer_removed": users.remove_a_finalizer,
            "deadline_rewritten": users.rewrite_a_deadline,
            "power_loss": lambda chance: self._machine(chance).lose_power(),
            "event_wanted": users.ask_for_event,
            "event_unwanted": users.delete_an_event,
            "thing_touched": users.touch_things,
            "maintenance_wanted": users.maintain_nodes,
        }

    async def carry_out(self, actions: Sequence[Action], network: NetworkFaults | None, *, seconds: float) -> None:
        """Carry out the actions. It takes `seconds`, however few the actions are."""
        environment = self._environment
        environment.network.faults = network
        began = environment.clock.monotonic()
        for action in actions:
            await environment.clock.sleep(max(0.0, began + action.at - environment.clock.monotonic()))
            if action.kind in FAULTS:
                environment.network.injected[action.kind] += 1
            with environment.trace.during(action):
                environment.trace.add(PLAN, action.kind)
                doing = self._handlers[action.kind](SeededRandomness(action.seed))
            if doing is not None:
                environment.loop.start(
                    environment.loop.harness, _finish(doing, environment.trace, action), name=action.kind
                )
        await environment.clock.sleep(max(0.0, began + seconds - environment.clock.monotonic()))

    def restore(self) -> None:
        """End all faults: processes run, disks have room, clouds answer."""
        environment = self._environment
        environment.trace.add("simulation", "ends all faults")
        environment.network.faults = None
        environment.disk.is_full = False
        environment.disk.slowness = 1.0
        for cloud in self._clouds.values():
            cloud.troubles.clear()
            cloud.forgotten.clear()
            cloud.said_off.clear()
        for link in environment.links.values():
            link.heal()
        for driver in self._drivers:
            driver.is_troubled = False
        for machine in self._machines.values():
            machine.is_troubled = machine.is_disk_full = False
        for name in sorted(self._gone):
            self._bring_back(self._machines[name.partition("-")[2]], name)
        if self._release.number % 3 == 2:
            self._release.number += 1  # skip a release that offers a transition with the name of a user's own
        for actor in environment.actors.values():
            environment.network.heal(actor.name)
            if actor.process is not None and actor.process.is_paused:
                environment.loop.resume(actor.process)
            if actor.name.startswith(("driver-", "drain-")):
                # A restart ends calls that hang in a driver.
                environment.kill(actor, "restarted")

    async def _driver_gone(self, chance: Randomness) -> None:
        """Stop a driver for long, if possible during work without a deadline. Its socket stays."""
        machine = self._machine(chance)
        name = f"{chance.choice(['driver', 'driver', 'drain'])}-{machine.node_name}"
        if busy := self._users.busy_without_a_deadline():
            machine = self._machines[chance.choice(busy)]
            name = f"driver-{machine.node_name}"
        self._environment.halt(self._environment.actors[name])
        self._gone.add(name)
        await self._environment.clock.sleep(chance.uniform(40.0, 150.0))
        self._bring_back(machine, name)

    def _bring_back(self, machine: SimMachine, name: str) -> None:
        self._gone.discard(name)
        if machine.is_on:
            self._environment.revive(self._environment.actors[name])

    async def _driver_release(self, chance: Randomness) -> None:
        """Roll out a new driver version with other transitions; the drivers are restarted one by one."""
        self._release.number += 1
        self._environment.trace.add("user", f"rolls out release {self._release.number} of the drivers")
        for node in sorted(self._machines):
            await self._environment.clock.sleep(chance.uniform(0.0, 8.0))
            self._environment.kill(self._environment.actors[f"driver-{node}"], "restarted")

    def _actor(self, prefix: str, chance: Randomness) -> Actor:
        leading = [name for name in self._leaders.leading() if name.startswith(prefix)]
        if prefix and leading and chance.random() < _AT_LEADERS:
            return self._environment.actors[chance.choice(leading)]
        return self._environment.actors[
            chance.choice([name for name in self._environment.actors if name.startswith(prefix)])
        ]

    def _kill(self, prefix: str, chance: Randomness) -> None:
        self._environment.crash(self._actor(prefix, chance), _steps(chance))

    def _yield(self, chance: Randomness) -> None:
        name = self._actor(chance.choice(["manager-", "ccm-"]), chance).name
        process = self._environment.actors[name].process
        if process is not None and process.is_alive:
            self._environment.trace.add(name, "receives a request to yield")
            # In its own context, as a signal handler runs in its own process.
            self._environment.loop.call_soon(self._leaders.managers[name].step_down, context=process.context.copy())

    def _pause(self, chance: Randomness) -> None:
        self._environment.pause(self._actor(chance.choice(_KINDS), chance), chance.choice(_PAUSES))

    async def _partition(self, chance: Randomness) -> None:
        environment = self._environment
        actor = self._actor(chance.choice(_ON_THE_NETWORK), chance)
        seconds = chance.choice(_CUTS)
        way = chance.choice(_WAYS)
        environment.trace.add(actor.name, f"{_CUT_OFF[way]} for {seconds} s")
        environment.network.cut(actor.name, way)
        await environment.clock.sleep(seconds)
        environment.network.heal(actor.name)
        actor.disturbed_at = environment.loop.time()

    def _drivers_link(self, chance: Randomness) -> Link:
        links = self._environment.links
        return links[chance.choice([name for name in links if name.startswith(("agent-", "manager-"))])]

    async def _cloud_partition(self, chance: Randomness) -> None:
        """Cut a manager from its cloud while one of its nodes is not ready, so that it has to ask."""
        cloud = self._cloud(chance)
        link = cloud.links[self._actor(f"ccm-{cloud.name}-", chance).name]
        if cloud.machines:
            await self._users.set_node_not_ready(chance.choice(sorted(cloud.machines)))
        await self._environment.clock.sleep(chance.uniform(0.0, 6.0))
        await self._cut_link(link, chance)

    async def _cut_link(self, link: Link, chance: Randomness) -> None:
        environment = self._environment
        if link.is_cut:
            return
        seconds = chance.choice(_CUTS)
        environment.trace.add(link.name, f"is cut for {seconds} s")
        link.cut()
        await environment.clock.sleep(seconds)
        link.heal()

    async def _clock_jump(self, chance: Randomness) -> None:
        actor = self._actor("", chance)
        seconds = chance.choice(_JUMPS)
        self._environment.trace.add(actor.name, f"clock jumps by {seconds} s")
        actor.clock.jump(seconds)
        await self._environment.clock.sleep(60.0)
        actor.clock.jump(-seconds)  # the clock is corrected
        actor.disturbed_at = self._environment.loop.time()

    async def _machine_shutdown(self, chance: Randomness) -> None:
        machine = self._machine(chance)
        machine.go_down()
        draw = chance.random()
        await self._environment.clock.sleep(chance.uniform(0.0, 12.0))
        if draw < 0.25:
            machine.call_off()
        elif draw < 0.7 and machine.preparing:
            self._environment.kill(self._environment.actors[f"agent-{machine.node_name}"])

    async def _machine_disk_full(self, chance: Randomness) -> None:
        machine = self._machine(chance)
        seconds = chance.uniform(1.0, 30.0)
        self._environment.trace.add(machine.node_name, f"the machine's disk is full for {seconds:.1f} s")
        machine.is_disk_full = True
        await self._environment.clock.sleep(seconds)
        machine.is_disk_full = False

    def _machine(self, chance: Randomness) -> SimMachine:
        return self._machines[chance.choice(sorted(self._machines))]

    async def _disk_full(self, chance: Randomness) -> None:
        seconds = chance.uniform(0.1, 5.0)
        self._environment.trace.add("disk", f"is full for {seconds:.1f} s")
        self._environment.disk.is_full = True
        await self._environment.clock.sleep(seconds)
        self._environment.disk.is_full = False
        self._environment.disk.well_since = self._environment.loop.time()

    async def _disk_slow(self, chance: Randomness) -> None:
        seconds = chance.uniform(1.0, 20.0)
        self._environment.trace.add("disk", f"is slow for {seconds:.1f} s")
        self._environment.disk.slowness = 300.0
        await self._environment.clock.sleep(seconds)
        self._environment.disk.slowness = 1.0
        self._environment.disk.well_since = self._environment.loop.time()

    async def _cloud_trouble(
        self, trouble: CloudFault, at_least_seconds: float, chance: Randomness, cloud: SimCloud | None = None
    ) -> None:
        cloud = cloud or self._cloud(chance)
        seconds = chance.uniform(at_least_seconds, 60.0)
        self._environment.trace.add(f"cloud-{cloud.name}", f"{trouble.value} for {seconds:.1f} s")
        cloud.troubles.add(trouble)
        await self._environment.clock.sleep(seconds)
        cloud.troubles.discard(trouble)

    async def _cloud_wrong(self, chance: Randomness) -> None:
        """A cloud omits a machine that exists, or reports it as shut down, while its node is not ready."""
        cloud = self._cloud(chance)
        if not cloud.machines:
            return
        name = chance.choice(sorted(cloud.machines))
        wrong = chance.choice([cloud.forgotten, cloud.said_off])
        self._environment.trace.add(f"cloud-{cloud.name}", f"gives wrong answers about {name}")
        wrong.add(name)
        await self._users.set_node_not_ready(name)
        await self._environment.clock.sleep(chance.uniform(5.0, 60.0))
        wrong.discard(name)

    async def _cloud_confused(self, chance: Randomness) -> None:
        """A provider returns invalid values while it is asked about a machine that its list omits."""
        cloud = self._cloud(chance)
        if not cloud.machines:
            return
        name = chance.choice(sorted(cloud.machines))
        cloud.forgotten.add(name)
        await self._users.set_node_not_ready(name)
        await self._cloud_trouble(CloudFault.CONFUSED, 10.0, chance, cloud)
        cloud.forgotten.discard(name)

    def _cloud(self, chance: Randomness) -> SimCloud:
        return self._clouds[chance.choice(sorted(self._clouds))]


def _steps(chance: Randomness) -> int:
    """After how many steps a process is killed: mostly few, where work is half done."""
    return 1 + int(chance.random() ** 2 * _STEPS_MAX)


async def _finish(doing: Awaitable[None], trace: Trace, action: Action) -> None:
    with trace.during(action):
        await doing
