"""The registry: the kubelet's order, message and pauses, on virtual time and with plugins of every kind."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from kube_fairlead.api.reserved import ANNOTATION_OFFERED_AT, ANNOTATION_PUBLISHED_BY
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.claimant.driver_directory import DriverDirectory
from kube_fairlead.claimant.plugins import PluginRegistry
from kube_fairlead.claimant.socket_folder import SocketFile
from kube_fairlead.claimant.transition_publisher import TransitionPublisher
from kube_fairlead.client.informer import Informer
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.driverapi import errors
from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo
from tests.unit.claimant.world import DRIVER, NODE, OFFERED, World

INFO = PluginInfo(
    type="LifecyclePlugin", name=DRIVER, endpoint="/run/reboot.sock", supported_versions=("v1alpha1.LifecycleDriver",)
)
NEW = dataclasses.replace(OFFERED, name="cleaning", start="Cleaning", end="Clean")


def file(path: str = "/registry/a.sock", inode: int = 1, owner: int = 0) -> SocketFile:
    return SocketFile(pathlib.Path(path), inode, inode * 10, owner)


class Folder:
    """A folder whose content the test says."""

    def __init__(self) -> None:
        self.content: list[SocketFile] = []
        self._news = asyncio.Event()

    def now_holds(self, *files: SocketFile) -> None:
        self.content = list(files)
        self._news.set()

    async def changes(self) -> AsyncGenerator[list[SocketFile], None]:
        while True:
            self._news.clear()
            yield list(self.content)
            await self._news.wait()


@dataclasses.dataclass(eq=False)
class Plugin:
    """A plugin on a socket, and its notifications."""

    info: PluginInfo = INFO
    offered: Sequence[OfferedTransition] = (NEW,)
    notified: list[tuple[bool, str]] = dataclasses.field(default_factory=list)
    asked: int = 0
    error: Exception | None = None
    notify_error: Exception | None = None
    hang: bool = False
    asked_at: list[float] = dataclasses.field(default_factory=list)
    clock: Any = None

    async def get_info(self) -> PluginInfo:
        self.asked += 1
        self.asked_at.append(self.clock.monotonic())
        if self.hang:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.info

    async def notify(self, *, registered: bool, error: str = "") -> None:
        self.notified.append((registered, error))
        if self.notify_error is not None:
            raise self.notify_error

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        assert node_name == NODE
        return self.offered


class Registered:
    """A registry that runs."""

    def __init__(self, here: World) -> None:
        self.here = here
        self.folder = Folder()
        self.directory = DriverDirectory()
        self.plugins: dict[str, Plugin] = {}
        self.metrics = PrometheusMetrics()
        self.transitions = Informer(here.admin.of(LifecycleTransition))
        self.publisher = TransitionPublisher(here.admin, self.transitions)
        self.registry = PluginRegistry(
            self.folder,  # type: ignore[arg-type]  # a folder in all that matters
            self.directory,
            self.publisher,
            self,
            node_name=NODE,
            clock=here.clock,
            randomness=SeededRandomness(3),
            metrics=self.metrics,
        )

    def registration(self, path: str) -> Any:
        return self.plugins[path]

    def driver(self, path: str) -> Any:
        return next(one for socket, one in self.plugins.items() if (one.info.endpoint or socket) == path)

    async def add(self, plugin: Plugin, at: SocketFile | None = None) -> Plugin:
        at = at or file()
        plugin.clock = self.here.clock
        self.plugins[str(at.path)] = plugin
        self.folder.now_holds(*self.folder.content, at)
        await self.here.clock.settle()
        return plugin


@pytest.fixture
async def registered(here: World) -> AsyncIterator[Registered]:
    made = Registered(here)
    async with made.transitions.running(), tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(made.publisher.run(), name="publisher")
        scope.start(made.registry.run(), name="registry")
        await here.clock.settle()
        yield made
    assert made.directory.drivers() == {}


async def test_a_driver_is_registered_and_its_transitions_published(registered: Registered) -> None:
    plugin = await registered.add(Plugin())
    assert plugin.notified == [(True, "")]
    assert registered.directory.drivers() == {DRIVER: frozenset({("Cleaning", "Clean")})}
    published = await registered.here.admin.of(LifecycleTransition).get("cleaning")
    assert (published.spec.driver, published.spec.all_nodes) == (DRIVER, True)
    text = registered.metrics.exposition().decode()
    for state in ("actual", "desired"):
        labels = f'socket_path="/registry/a.sock",state="{state}_state_of_world"'
        assert f"fairlead_plugin_manager_total_plugins{{{labels}}} 1.0" in text


async def test_a_socket_that_goes_takes_its_registration_with_it(registered: Registered) -> None:
    plugin = await registered.add(Plugin())
    registered.folder.now_holds()
    await registered.here.clock.settle()
    assert registered.directory.drivers() == {}
    # No word to the plugin, and what it published stays.
    assert plugin.notified == [(True, "")]
    await registered.here.admin.of(LifecycleTransition).get("cleaning")


async def test_a_socket_that_is_created_again_registers_again(registered: Registered) -> None:
    plugin = await registered.add(Plugin())
    registered.folder.now_holds(file(inode=2))
    await registered.here.clock.settle()
    assert plugin.notified == [(True, ""), (True, "")]
    assert len(registered.directory.of_driver(DRIVER)) == 1


async def test_two_sockets_of_one_driver_are_a_rolling_update(registered: Registered) -> None:
    await registered.add(Plugin())
    newer = dataclasses.replace(INFO, endpoint="/run/newer.sock")
    await registered.add(Plugin(info=newer), file("/registry/b.sock", 2))
    assert [one.endpoint for one in registered.directory.of_driver(DRIVER)] == ["/run/newer.sock", "/run/reboot.sock"]
    registered.folder.now_holds(file("/registry/b.sock", 2))
    await registered.here.clock.settle()
    assert [one.endpoint for one in registered.directory.of_driver(DRIVER)] == ["/run/newer.sock"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "CSIPlugin"}, "no handler registered for plugin type: CSIPlugin at socket /registry/a.sock"),
        ({"name": "not a name"}, "driver name 'not a name'"),
        ({"name": ""}, "driver name ''"),
        ({"name": "fairlead.dev/shutdown"}, "driver name fairlead.dev/shutdown is reserved"),
        ({"supported_versions": ("v1.DRAPlugin",)}, "none of the supported services is v1alpha1.LifecycleDriver"),
        ({"supported_versions": ()}, "v1alpha1.LifecycleDriver: none"),
        ({"endpoint": "run/x.sock"}, "is not an absolute path"),
    ],
)
async def test_a_rejected_plugin_is_notified_of_the_reason(
    registered: Registered, change: dict[str, Any], message: str
) -> None:
    plugin = await registered.add(Plugin(info=dataclasses.replace(INFO, **change)))
    ((done, error),) = plugin.notified
    assert not done
    assert message in error
    assert registered.directory.drivers() == {}


async def test_failures_are_tried_again_as_the_kubelet_does(registered: Registered) -> None:
    plugin = await registered.add(Plugin(error=errors.DriverGone("not yet")))
    await registered.here.clock.advance(600)
    pauses = [b - a for a, b in zip(plugin.asked_at, plugin.asked_at[1:], strict=False)]
    assert pauses[:9] == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 64, 122])
    plugin.error = None
    await registered.here.clock.advance(122)
    assert plugin.notified[-1] == (True, "")


async def test_a_plugin_that_never_responds_does_not_delay_others(registered: Registered) -> None:
    hanging = await registered.add(Plugin(hang=True))
    other = dataclasses.replace(INFO, name="example.com/other", endpoint="/run/other.sock")
    await registered.add(Plugin(info=other), file("/registry/b.sock", 2))
    assert set(registered.directory.drivers()) == {"example.com/other"}
    await registered.here.clock.advance(12)
    assert hanging.notified == [(False, "failed to get plugin info: timed out")]


async def test_a_plugin_that_cannot_be_notified_is_not_registered(registered: Registered) -> None:
    plugin = await registered.add(Plugin(notify_error=errors.DriverGone("gone")))
    assert registered.directory.drivers() == {}
    assert plugin.notified[0] == (True, "")


async def test_the_same_endpoint_twice(registered: Registered) -> None:
    await registered.add(Plugin())
    second = await registered.add(Plugin(), file("/registry/b.sock", 2))
    assert "endpoint /run/reboot.sock is registered already" in second.notified[0][1]


async def test_anothers_name_cannot_be_taken(registered: Registered) -> None:
    await registered.add(Plugin())
    thief = dataclasses.replace(INFO, endpoint="/run/thief.sock")
    second = await registered.add(Plugin(info=thief), file("/registry/b.sock", 2, owner=1000))
    assert f"driver {DRIVER} is registered by another user" in second.notified[0][1]
    assert [one.endpoint for one in registered.directory.of_driver(DRIVER)] == ["/run/reboot.sock"]


async def test_a_transition_that_says_something_else_is_not_overwritten(registered: Registered) -> None:
    plugin = await registered.add(Plugin(offered=(dataclasses.replace(OFFERED, end="Elsewhere"),)))
    ((done, error),) = plugin.notified
    assert not done
    assert "spec.end is 'Rebooted' and the driver offers 'Elsewhere'" in error
    kept = await registered.here.admin.of(LifecycleTransition).get("reboot")
    assert kept.spec.end == "Rebooted"


async def test_a_deleted_transition_is_published_again(registered: Registered) -> None:
    await registered.add(Plugin(offered=(NEW,)))
    transitions = registered.here.admin.of(LifecycleTransition)
    first = await transitions.get(NEW.name)
    await transitions.delete(NEW.name)
    await registered.here.clock.advance(1)
    again = await transitions.get(NEW.name)
    assert (again.spec, again.uid != first.uid) == (first.spec, True)
    # Nothing brings it back when its driver is gone.
    registered.folder.now_holds()
    await registered.here.clock.settle()
    await transitions.delete(NEW.name)
    await registered.here.clock.advance(60)
    with pytest.raises(api_errors.NotFound):
        await transitions.get(NEW.name)


async def test_an_offered_transition_is_renewed_periodically(registered: Registered) -> None:
    await registered.add(Plugin(offered=(NEW,)))
    transitions = registered.here.admin.of(LifecycleTransition)
    first = (await transitions.get(NEW.name)).metadata.annotations
    await registered.here.clock.advance(19 * 60)
    assert (await transitions.get(NEW.name)).metadata.annotations == first
    await registered.here.clock.advance(5 * 60)
    later = (await transitions.get(NEW.name)).metadata.annotations
    assert later[ANNOTATION_OFFERED_AT] > first[ANNOTATION_OFFERED_AT]
    assert later[ANNOTATION_PUBLISHED_BY] == DRIVER


async def test_a_new_version_of_a_driver_replaces_what_the_old_one_offered(registered: Registered) -> None:
    here, transitions = registered.here, registered.here.admin.of(LifecycleTransition)
    await registered.add(Plugin(offered=(NEW,)))
    event = await here.create("busy", NEW.name)
    registered.folder.now_holds()
    await here.clock.settle()
    changed = dataclasses.replace(NEW, sla="5m")
    newer = Plugin(info=dataclasses.replace(INFO, endpoint="/run/new.sock"), offered=(changed,))
    plugin = await registered.add(newer, file("/registry/new.sock", 2))
    assert "it is replaced when no event uses it any more: busy" in plugin.notified[0][1]
    assert (await transitions.get(NEW.name)).spec.sla is None
    await here.events.delete(event.name)
    await here.clock.advance(130)
    assert plugin.notified[-1] == (True, "")
    assert (await transitions.get(NEW.name)).spec.sla == "5m"


@pytest.mark.parametrize("race", ["the delete", "the creation"])
async def test_a_driver_is_not_refused_because_another_agent_was_faster(
    registered: Registered, monkeypatch: pytest.MonkeyPatch, race: str
) -> None:
    """Agents of many nodes replace a transition at once, and those of the old version create it again."""
    transitions = registered.here.admin.of(LifecycleTransition)
    await registered.add(Plugin(offered=(NEW,)))
    registered.folder.now_holds()
    await registered.here.clock.settle()
    api = registered.publisher._api
    raced: list[str] = []
    delete, create = api.delete, api.create

    async def meddled_delete(name: str, **options: Any) -> Any:
        if race == "the delete" and not raced:
            raced.append(name)
            await transitions.patch(name, MergePatch({"metadata": {"labels": {"a": "b"}}}))
        return await delete(name, **options)

    async def meddled_create(wanted: LifecycleTransition, **options: Any) -> Any:
        if race == "the creation" and not raced:
            raced.append(wanted.name)
            old = wire.replace(wanted, spec=wire.replace(wanted.spec, sla=None))
            await create(old)
        return await create(wanted, **options)

    monkeypatch.setattr(api, "delete", meddled_delete)
    monkeypatch.setattr(api, "create", meddled_create)
    changed = dataclasses.replace(NEW, sla="5m")
    newer = Plugin(info=dataclasses.replace(INFO, endpoint="/run/new.sock"), offered=(changed,))
    plugin = await registered.add(newer, file("/registry/new.sock", 2))
    await registered.here.clock.advance(5)
    assert raced == [NEW.name]
    assert plugin.notified == [(True, "")]
    assert (await transitions.get(NEW.name)).spec.sla == "5m"


async def test_the_same_transition_again_is_fine(registered: Registered) -> None:
    plugin = await registered.add(Plugin(offered=(OFFERED,)))
    assert plugin.notified == [(True, "")]


@pytest.mark.parametrize(
    "offered",
    [
        dataclasses.replace(NEW, sla="soon"),
        dataclasses.replace(NEW, start=""),
        dataclasses.replace(NEW, start="shutdown-drain-started"),
        dataclasses.replace(NEW, name="node-shutdown"),
    ],
)
async def test_a_rejection_by_the_server_is_sent_to_the_plugin(
    registered: Registered, offered: OfferedTransition
) -> None:
    plugin = await registered.add(Plugin(offered=(offered,)))
    ((done, error),) = plugin.notified
    assert not done
    assert "cannot be published" in error


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        ((NEW, dataclasses.replace(NEW, name="")), "the transition from 'Cleaning' to 'Clean' has no name"),
        ((NEW, dataclasses.replace(NEW, end="Elsewhere")), f"transition {NEW.name} is offered twice"),
        ((NEW, dataclasses.replace(NEW, name="NotAName")), "the transition name 'NotAName' is not valid"),
        ((NEW, dataclasses.replace(NEW, name="a/b")), "the transition name 'a/b' is not valid"),
    ],
)
async def test_names_are_checked_before_anything_is_published(
    registered: Registered, offered: tuple[OfferedTransition, ...], message: str
) -> None:
    plugin = await registered.add(Plugin(offered=offered))
    ((done, error),) = plugin.notified
    assert not done
    assert message in error
    with pytest.raises(api_errors.NotFound):
        await registered.here.admin.of(LifecycleTransition).get(NEW.name)


async def test_too_many_transitions(registered: Registered) -> None:
    plugin = await registered.add(Plugin(offered=[NEW] * 101))
    assert "101 transitions exceed the maximum of 100" in plugin.notified[0][1]


async def test_the_api_server_may_come_later(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    registered = Registered(here)
    api = registered.registry._publisher._api
    failing: list[Exception] = [api_errors.ServiceUnavailable("not ready")] * 3
    really = api.get

    async def get(name: str) -> LifecycleTransition:
        if failing:
            raise failing.pop()
        return await really(name)

    monkeypatch.setattr(api, "get", get)
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(registered.registry.run(), name="registry")
        plugin = await registered.add(Plugin())
        assert plugin.notified == []
        await here.clock.advance(5)
        assert plugin.notified == [(True, "")]
