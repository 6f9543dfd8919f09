from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from kube_fairlead.api import core_v1, lifecycle_v1alpha1, wire
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.scheme import Scheme
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors, patches, retry, subresources
from kube_fairlead.client.client import Client
from kube_fairlead.client.requests import WriteOptions
from kube_fairlead.client.transport import Request, Response
from kube_fairlead.client.verbs import Api
from tests.unit.client import scripted

WIDGETS = GroupVersionResource("example.com", "v1", "widgets")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")


class Tape:
    """A transport that answers from a list and keeps what was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        code = answer.get("code", 200) if answer.get("kind") == "Status" else 200
        return Response(code, {}, json.dumps(answer).encode())

    def stream(self, request: Request) -> Any: ...

    async def close(self) -> None: ...

    @property
    def last(self) -> Request:
        return self.asked[-1]


def client_of(tape: Tape, scheme: Scheme | None = None) -> Client:
    return Client(
        tape,
        clock=VirtualClock(),
        randomness=SeededRandomness(0),
        namespace="home",
        retry_policy=retry.NEVER,
        scheme=scheme,
    )


def expired() -> dict[str, Any]:
    return scripted.status(410, "Expired", "The provided continue parameter is too old")


@pytest.mark.parametrize(
    ("kind", "namespace", "expected"),
    [
        (core_v1.ConfigMap, None, "/api/v1/namespaces/home/configmaps/a"),
        (core_v1.ConfigMap, "shop", "/api/v1/namespaces/shop/configmaps/a"),
        (CONFIG_MAPS, None, "/api/v1/namespaces/home/configmaps/a"),
        (core_v1.Node, None, "/api/v1/nodes/a"),
        (core_v1.Node, "ignored", "/api/v1/nodes/a"),
        (WIDGETS, None, "/apis/example.com/v1/widgets/a"),
        (WIDGETS, "shop", "/apis/example.com/v1/namespaces/shop/widgets/a"),
    ],
)
async def test_where_an_object_is(kind: Any, namespace: str | None, expected: str) -> None:
    tape = Tape({"kind": getattr(kind, "__name__", "x")})
    await client_of(tape).of(kind).get("a", namespace=namespace)
    assert tape.last.path == expected


async def test_a_list_without_a_namespace_is_of_all() -> None:
    tape = Tape(scripted.listed(version=1))
    await client_of(tape).of(core_v1.ConfigMap).list()
    assert tape.last.path == "/api/v1/configmaps"


async def test_an_object_says_where_it_belongs() -> None:
    tape = Tape(scripted.config_map("a", 1))
    maps = client_of(tape).of(CONFIG_MAPS)
    await maps.create({"metadata": {"name": "a", "namespace": "shop"}})
    assert tape.last.path == "/api/v1/namespaces/shop/configmaps"
    await maps.update({"metadata": {"name": "a", "namespace": "shop"}}, options=WriteOptions(dry_run=True))
    assert tape.last.path == "/api/v1/namespaces/shop/configmaps/a"
    assert tape.last.query == (("dryRun", "All"),)
    await maps.update_status({"metadata": {"name": "a", "namespace": "shop"}})
    assert tape.last.path == "/api/v1/namespaces/shop/configmaps/a/status"


@pytest.mark.parametrize(
    ("patch", "content_type", "body"),
    [
        (patches.JsonPatch([{"op": "remove", "path": "/x"}]), "json-patch+json", b'[{"op":"remove","path":"/x"}]'),
        (patches.MergePatch({"x": None}), "merge-patch+json", b'{"x":null}'),
        (patches.StrategicMergePatch({"x": 1}), "strategic-merge-patch+json", b'{"x":1}'),
        (patches.Apply({"x": 1}), "apply-patch+yaml", b'{"x":1}'),
    ],
)
async def test_patches_on_the_wire(patch: patches.Patch, content_type: str, body: bytes) -> None:
    tape = Tape(scripted.config_map("a", 1))
    await client_of(tape).of(CONFIG_MAPS).patch("a", patch)
    assert (tape.last.method, tape.last.headers["content-type"]) == ("PATCH", f"application/{content_type}")
    assert tape.last.body == body


async def test_apply_names_its_manager() -> None:
    tape = Tape(scripted.config_map("a", 1))
    item = core_v1.ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "v"})
    await client_of(tape).of(core_v1.ConfigMap).apply(item, field_manager="me", force=True, dry_run=True)
    assert tape.last.query == (("dryRun", "All"), ("fieldManager", "me"), ("force", "true"))
    assert json.loads(tape.last.body)["kind"] == "ConfigMap"


async def test_pages_follow_the_token() -> None:
    first, second = scripted.config_map("a", 1), scripted.config_map("b", 2)
    tape = Tape(scripted.listed(first, version=5, token="next"), scripted.listed(second, version=5))
    found = [page.items async for page in client_of(tape).of(CONFIG_MAPS).pages(limit=1, label_selector="x=y")]
    assert found == [[first], [second]]
    assert tape.asked[0].query == (("labelSelector", "x=y"), ("limit", "1"))
    assert tape.asked[1].query == (("labelSelector", "x=y"), ("limit", "1"), ("continue", "next"))


async def test_list_all_starts_over_when_its_pages_expire() -> None:
    first, second = scripted.config_map("a", 1), scripted.config_map("b", 6)
    tape = Tape(scripted.listed(first, version=5, token="next"), expired(), scripted.listed(first, second, version=6))
    page = await client_of(tape).of(CONFIG_MAPS).list_all(namespace="shop", limit=1)
    assert (page.items, page.resource_version) == ([first, second], "6")
    assert tape.last.query == ()
    assert tape.last.path == "/api/v1/namespaces/shop/configmaps"


async def test_pages_do_not_start_over() -> None:
    tape = Tape(scripted.listed(scripted.config_map("a", 1), version=5, token="next"), expired())
    with pytest.raises(api_errors.Expired):
        _ = [page async for page in client_of(tape).of(CONFIG_MAPS).pages(limit=1)]


async def test_delete_tells_what_is_left() -> None:
    tape = Tape({"kind": "Status", "status": "Success"}, scripted.config_map("a", 3))
    maps = client_of(tape).of(CONFIG_MAPS)
    assert await maps.delete("a", grace_period_seconds=0, uid="u") is None
    assert json.loads(tape.last.body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
    }
    assert await maps.delete("a") == scripted.config_map("a", 3)


async def test_delete_collection_of_a_server_that_answers_with_a_status() -> None:
    tape = Tape({"kind": "Status", "status": "Success"})
    gone = await client_of(tape).of(CONFIG_MAPS).delete_collection(namespace="shop", label_selector="a=b")
    assert gone.items == []
    assert tape.last.query == (("labelSelector", "a=b"),)


async def test_an_answer_that_is_no_object() -> None:
    class Broken(Tape):
        async def send(self, request: Request) -> Response:
            return Response(200, {}, b"<html>")

    maps = client_of(Broken()).of(CONFIG_MAPS)
    with pytest.raises(errors.AnswerInvalid):
        await maps.get("a")
    with pytest.raises(errors.AnswerInvalid):
        await maps.delete("a")


async def test_errors_name_what_was_asked_for() -> None:
    class Proxy(Tape):
        async def send(self, request: Request) -> Response:
            return Response(404, {}, b"404 page not found")

    with pytest.raises(api_errors.NotFound) as caught:
        await client_of(Proxy()).of(CONFIG_MAPS).get("a")
    assert str(caught.value) == "the server could not find the requested resource (get configmaps a)"


async def test_modify_repeats_on_conflict_with_what_is_true_then() -> None:
    conflict = scripted.status(409, "Conflict", "the object has been modified")
    tape = Tape(
        scripted.config_map("a", 1),
        conflict,
        scripted.config_map("a", 2, other="was here"),
        scripted.config_map("a", 3),
    )
    seen: list[str] = []

    def mutate(item: dict[str, Any]) -> dict[str, Any]:
        seen.append(item["metadata"]["resourceVersion"])
        return {**item, "data": {**item["data"], "mine": "too"}}

    clock = _Impatient()
    client = Client(tape, clock=clock, randomness=SeededRandomness(0))
    await client.of(CONFIG_MAPS).modify("a", mutate)
    assert seen == ["1", "2"]
    assert json.loads(tape.last.body)["data"] == {"other": "was here", "mine": "too"}


class _Impatient(VirtualClock):
    async def sleep(self, seconds: float) -> None: ...


async def test_modify_gives_up_in_the_end() -> None:
    class Contested(Tape):
        async def send(self, request: Request) -> Response:
            self.asked.append(request)
            if request.method == "GET":
                return Response(200, {}, json.dumps(scripted.config_map("a", 1)).encode())
            return Response(409, {}, json.dumps(scripted.status(409, "Conflict")).encode())

    tape = Contested()
    client = Client(tape, clock=_Impatient(), randomness=SeededRandomness(0))
    with pytest.raises(api_errors.Conflict):
        await client.of(CONFIG_MAPS).modify("a", lambda item: item, attempts=3)
    assert len(tape.asked) == 6


async def test_modify_with_nothing_to_change_writes_nothing() -> None:
    tape = Tape(scripted.config_map("a", 1))
    assert await client_of(tape).of(CONFIG_MAPS).modify("a", lambda _: None) == scripted.config_map("a", 1)
    assert [request.method for request in tape.asked] == ["GET"]


async def test_the_lifecycle_group_is_a_setting() -> None:
    tape = Tape({"apiVersion": "lifecycle.fairlead.dev/v1alpha1", "kind": "LifecycleEvent"})
    client = client_of(tape, Scheme(lifecycle_group="lifecycle.fairlead.dev"))
    made = await client.of(lifecycle_v1alpha1.LifecycleEvent).create(
        lifecycle_v1alpha1.LifecycleEvent(metadata=ObjectMeta(name="e"))
    )
    assert tape.last.path == "/apis/lifecycle.fairlead.dev/v1alpha1/lifecycleevents"
    assert json.loads(tape.last.body)["apiVersion"] == "lifecycle.fairlead.dev/v1alpha1"
    assert made.api_version == "lifecycle.fairlead.dev/v1alpha1"


def test_a_class_that_is_no_kind() -> None:
    with pytest.raises(LookupError, match="PodSpec is no kind that the API serves"):
        client_of(Tape({})).of(core_v1.PodSpec)


async def test_an_eviction() -> None:
    tape = Tape({"kind": "Status", "status": "Success"})
    await subresources.evict(client_of(tape), "p", namespace="shop", uid="u", grace_period_seconds=5)
    assert tape.last.path == "/api/v1/namespaces/shop/pods/p/eviction"
    assert json.loads(tape.last.body) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "shop"},
        "deleteOptions": {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 5,
            "preconditions": {"uid": "u"},
        },
    }


async def test_a_blocked_eviction_does_not_wait_unseen() -> None:
    class Busy(Tape):
        async def send(self, request: Request) -> Response:
            self.asked.append(request)
            body = scripted.status(429, "TooManyRequests", retryAfterSeconds=10)
            return Response(429, {"retry-after": "10"}, json.dumps(body).encode())

    tape = Busy()
    client = Client(tape, clock=VirtualClock(), randomness=SeededRandomness(0))
    with pytest.raises(api_errors.TooManyRequests) as caught:
        await subresources.evict(client, "p", namespace="shop")
    assert (caught.value.retry_after_seconds, len(tape.asked)) == (10, 1)


async def test_a_token() -> None:
    tape = Tape({"kind": "TokenRequest", "status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}})
    status = await subresources.request_token(
        client_of(tape), "sa", namespace="shop", audiences=("x",), expiration_seconds=600, bound_to={"kind": "Pod"}
    )
    assert status["token"] == "t"
    assert json.loads(tape.last.body)["spec"] == {
        "audiences": ["x"],
        "expirationSeconds": 600,
        "boundObjectRef": {"kind": "Pod"},
    }


async def test_typed_objects_are_written_as_they_were_but_for_the_change() -> None:
    unknown = {**scripted.config_map("a", 1), "future": [1, 2]}
    tape = Tape(unknown)
    maps = client_of(tape).of(core_v1.ConfigMap)
    await maps.modify("a", lambda item: wire.replace(item, data={"k": "v"}))
    assert json.loads(tape.last.body) == {**unknown, "data": {"k": "v"}}


def test_requests_are_plain_values() -> None:
    request = Request(method="GET", path="/x")
    assert dataclasses.replace(request, method="PUT").method == "PUT"
    assert str(request) == "GET /x"


def test_only_a_group_that_is_still_to_be_discovered_is_looked_for_later() -> None:
    client = Client(Tape({}), clock=VirtualClock(), randomness=SeededRandomness(1), retry_policy=retry.NEVER)

    def find(error: Exception) -> Any:
        raise error

    late: Api[Any] = Api(client, lambda: find(errors.NotDiscovered("not yet")))
    with pytest.raises(errors.NotDiscovered):
        _ = late.resource
    with pytest.raises(api_errors.ServiceUnavailable):
        Api(client, lambda: find(api_errors.ServiceUnavailable("another")))
