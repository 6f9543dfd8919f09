from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.objects import Key, key_of, resource_version_of, uid_of
from tests.unit.client.modelserver import ModelServer, client_of

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
Object = dict[str, Any]
Told = tuple[str, str, str]  # what happened, uid, resource version


class Listener:
    """Writes down what it is told, and checks that the store already shows it."""

    def __init__(self, informer: Informer[Object]) -> None:
        self.told: list[Told] = []
        self._store = informer.store
        informer.add_handler(Handler(on_add=self._add, on_update=self._update, on_delete=self._delete))

    def _add(self, item: Object) -> None:
        assert self._store.by_key(key_of(item)) == item
        self.told.append(("ADDED", uid_of(item), resource_version_of(item)))

    def _update(self, old: Object, new: Object) -> None:
        assert self._store.by_key(key_of(new)) == new
        assert uid_of(old) == uid_of(new)
        self.told.append(("MODIFIED", uid_of(new), resource_version_of(new)))

    def _delete(self, item: Object) -> None:
        assert self._store.by_key(key_of(item)) is None
        self.told.append(("DELETED", uid_of(item), resource_version_of(item)))

    def alive(self) -> dict[str, str]:
        """What a listener who believes it all thinks is there."""
        believed: dict[str, str] = {}
        for kind, uid, version in self.told:
            if kind == "DELETED":
                del believed[uid]
            else:
                assert (kind == "MODIFIED") == (uid in believed)
                believed[uid] = version
        return believed


def truth_of(server: ModelServer) -> list[Told]:
    return [(kind, uid_of(item), str(version)) for version, kind, item in server.truth]


def make(server: ModelServer, clock: VirtualClock, **options: Any) -> Informer[Object]:
    return Informer(client_of(server, clock).of(CONFIG_MAPS), **options)


OPERATIONS: dict[str, Callable[[ModelServer, str], None]] = {
    "put": lambda server, name: server.put(name),
    "delete": lambda server, name: server.delete(name),
    "replace": lambda server, name: server.replace(name),
    "cut": lambda server, _: server.cut(),
    "cut inside a frame": lambda server, _: server.cut(inside_a_frame=True),
    "end": lambda server, _: server.end(),
    "bookmark": lambda server, _: server.bookmark(),
    "compact": lambda server, _: server.compact(),
    "refuse": lambda server, _: setattr(server, "refusals", server.refusals + 1),
}
# After a step the client may have seen it, may have had time to reconnect too, or neither.
Step = tuple[str, str, str]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", *OPERATIONS]),
        st.sampled_from("abc"),
        st.sampled_from(["", "settle", "settle", "wait"]),
    ),
    min_size=5,
    max_size=60,
)


async def play(steps: list[Step], *, streaming_list: bool) -> tuple[ModelServer, Listener]:
    server, clock = ModelServer(), VirtualClock()
    for name in "ab":
        server.put(name)
    informer = make(server, clock, streaming_list=streaming_list)
    listener = Listener(informer)
    async with informer.running():
        await clock.settle()
        for operation, name, pause in steps:
            OPERATIONS[operation](server, name)
            if pause:
                await clock.advance(1 if pause == "wait" else 0)
        server.refusals = 0
        await clock.advance(120)
        assert {uid_of(item): resource_version_of(item) for item in informer.store} == {
            uid_of(item): resource_version_of(item) for item in server.live.values()
        }
    return server, listener


def check(server: ModelServer, listener: Listener) -> None:
    truth = truth_of(server)
    # Replaying what was told gives the truth's end.
    assert listener.alive() == {uid_of(item): resource_version_of(item) for item in server.live.values()}
    # No state is told twice, and none that never was.
    states = [(uid, version) for kind, uid, version in listener.told if kind != "DELETED"]
    assert len(states) == len(set(states))
    assert set(states) <= {(uid, version) for kind, uid, version in truth if kind != "DELETED"}
    # Each object's own story only moves forward.
    for subject in {uid for _, uid, _ in listener.told}:
        versions = [int(version) for kind, uid, version in listener.told if uid == subject and kind != "DELETED"]
        assert versions == sorted(versions)
    # While history was there, every change is told, exactly once, in order.
    if server.lists <= 1:
        assert listener.told == truth


@settings(max_examples=300, deadline=None)
@given(STEPS)
async def test_what_is_told_is_the_truth(steps: list[Step]) -> None:
    check(*await play(steps, streaming_list=False))


@settings(max_examples=100, deadline=None)
@given(STEPS)
async def test_what_is_told_is_the_truth_with_streamed_lists(steps: list[Step]) -> None:
    server, listener = await play(steps, streaming_list=True)
    assert server.lists == 0
    server.lists = 1 if server.compacted == 0 else 2
    check(server, listener)


async def test_synced_means_that_everything_was_told() -> None:
    server, clock = ModelServer(), VirtualClock()
    server.put("a")
    server.refusals = 2
    informer = make(server, clock)
    listener = Listener(informer)
    async with informer.running(), tasks.TaskScope("test") as scope:
        waiting = scope.start(informer.wait_synced(), name="wait")
        await clock.settle()
        assert not waiting.done()
        assert not informer.has_synced
        assert "refused by the test" in str(informer.last_error)
        await clock.advance(10)
        assert waiting.done()
        assert len(listener.told) == 1
        assert informer.last_error is None


async def test_a_list_of_many_pages() -> None:
    server, clock = ModelServer(), VirtualClock()
    for number in range(1201):
        server.put(f"object-{number:04}")
    informer = make(server, clock)
    async with informer.running():
        await informer.wait_synced()
        assert len(informer.store) == 1201
        assert server.lists == 3


async def test_a_late_handler_hears_what_is_known() -> None:
    server, clock = ModelServer(), VirtualClock()
    server.put("a")
    informer = make(server, clock)
    async with informer.running():
        await informer.wait_synced()
        late = Listener(informer)
        assert late.told == truth_of(server)
        server.put("a")
        await clock.settle()
        assert late.told == truth_of(server)


async def test_a_server_without_streamed_lists_is_asked_for_a_plain_one() -> None:
    server, clock = ModelServer(), VirtualClock()
    server.supports_streamed_lists = False
    server.put("a")
    informer = make(server, clock, streaming_list=True)
    async with informer.running():
        await informer.wait_synced()
        assert (len(informer.store), server.lists) == (1, 1)


async def test_a_server_that_never_ends_its_streamed_list() -> None:
    server, clock = ModelServer(), VirtualClock()
    server.supports_streamed_lists = True
    informer = make(server, clock, streaming_list=True)
    server.live["a"] = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}
    original = server.stream

    def silent(request: Any) -> Any:
        if ("sendInitialEvents", "true") in request.query:
            query = tuple(pair for pair in request.query if pair[0] != "sendInitialEvents")
            import dataclasses

            request = dataclasses.replace(request, query=(*query, ("resourceVersion", str(server.version))))
        return original(request)

    server.stream = silent  # type: ignore[method-assign]  # an old server, for this test
    async with informer.running():
        await clock.advance(59)
        assert not informer.has_synced
        await clock.advance(5)
        assert informer.has_synced


async def test_an_error_of_a_handler_ends_the_informer() -> None:
    server, clock = ModelServer(), VirtualClock()
    server.put("a")
    informer = make(server, clock)

    def fail(_: Object) -> None:
        raise ZeroDivisionError

    informer.add_handler(Handler(on_add=fail))
    with pytest.raises(ExceptionGroup) as caught:
        async with informer.running():
            await clock.advance(5)
    assert caught.group_contains(ZeroDivisionError)


async def test_indexes_and_transform() -> None:
    server, clock = ModelServer(), VirtualClock()
    for name in ("a1", "a2", "b1"):
        server.put(name)

    def lean(item: Object) -> Object:
        return {"metadata": item["metadata"]}

    informer = make(server, clock, indexes={"first": lambda item: [item["metadata"]["name"][0]]}, transform=lean)
    async with informer.running():
        await informer.wait_synced()
        assert {item["metadata"]["name"] for item in informer.store.by_index("first", "a")} == {"a1", "a2"}
        assert "data" not in next(iter(informer.store))
        server.delete("a1")
        await clock.settle()
        assert [item["metadata"]["name"] for item in informer.store.by_index("first", "a")] == ["a2"]
        assert informer.store.by_key(Key("default", "a1")) is None


async def test_no_task_is_left_behind() -> None:
    server, clock = ModelServer(), VirtualClock()
    async with make(server, clock).running():
        await clock.settle()
    assert tasks.live_tasks() == ()
