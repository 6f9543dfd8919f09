"""Request budgets per user, on real sockets: handlers are held back by a webhook, so nothing depends on time.

Only on the embedded server: kube-apiserver has priority and fairness, whose limits are set by objects of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.http.unidentified import UNIDENTIFIED
from kube_fairlead_lab.testing import EmbeddedControlPlane, EmbeddedOptions
from kube_fairlead_lab.testing.control_plane import Access
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi
from tests.contract.test_webhooks import CONFIG_MAPS, REGISTRATION, Hook, hook

__all__ = ["hook"]  # a fixture

PATH = "/api/v1/namespaces/default/configmaps"
# Of four seats one user gets two, of sixteen places eight.
RUN, WAIT = 2, 8


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedControlPlane]:
    options = EmbeddedOptions(flags=["--max-mutating-requests-inflight=4", "--request-queue-timeout=10m"])
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path, options))


@pytest.fixture
async def admin(plane: EmbeddedControlPlane) -> AsyncIterator[RawApi]:
    """The administrator, who has let alice and bob do everything."""
    async with RawApi(plane.access()) as api:
        binding = {
            "metadata": {"name": "users"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [
                {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"} for name in ("alice", "bob")
            ],
        }
        (await api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)).expect(201)
        yield api


@pytest.fixture
async def held(admin: RawApi, hook: Hook) -> AsyncIterator[Hook]:
    """Whoever creates a ConfigMap with the label `slow` waits until the test opens the webhook."""
    entry = {
        "name": "test.example.com",
        "clientConfig": {"url": hook.url, "caBundle": hook.bundle},
        "rules": [CONFIG_MAPS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchLabels": {"slow": "true"}},
        "timeoutSeconds": 30,
    }
    path = f"{REGISTRATION}/validatingwebhookconfigurations"
    (await admin.post(path, {"metadata": {"name": "slow"}, "webhooks": [entry]})).expect(201)
    hook.open.clear()
    yield hook
    hook.open.set()


async def metric(api: RawApi, name: str, **labels: str) -> float:
    return total(await api.get("/metrics"), name, **labels)


def total(answer: Answer, name: str, **labels: str) -> float:
    return sum(
        sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def until(api: RawApi, name: str, wanted: float, **labels: str) -> None:
    """Wait until a metric has a value; nothing else announces that a request waits."""
    full = {"priority_level": "mutating", **labels}
    await api.poll("/metrics", lambda answer: total(answer, name, **full) == wanted)


def slow(name: str) -> dict[str, object]:
    return config_map(name, labels={"slow": "true"})


class Flood:
    """Slow creates of one user, each on a connection of its own, and their answers as they come."""

    def __init__(self, scope: TaskScope, api: RawApi) -> None:
        self._scope = scope
        self._api = api
        self.tasks: list[asyncio.Task[Answer]] = []

    def grow(self, number: int) -> None:
        for _ in range(number):
            body = slow(f"flood-{len(self.tasks)}")
            self.tasks.append(self._scope.start(self._api.post(PATH, body), name="create"))


QUEUED = "apiserver_flowcontrol_current_inqueue_requests"
RUNNING = "apiserver_flowcontrol_current_executing_requests"
REJECTED = "apiserver_flowcontrol_rejected_requests_total"


@pytest.fixture
async def flood(plane: EmbeddedControlPlane, admin: RawApi, held: Hook) -> AsyncIterator[Flood]:
    """Alice holds all seats and all places that one user may hold."""
    async with RawApi(plane.access("alice"), timeout_seconds=60) as alice, TaskScope("test") as scope:
        made = Flood(scope, alice)
        made.grow(RUN)
        await until(admin, RUNNING, RUN)
        made.grow(WAIT)
        await until(admin, QUEUED, WAIT)
        await held.wait_asked(RUN)  # a request has its seat before it is at the webhook
        assert len(held.reviews) == RUN
        try:
            yield made
        finally:
            held.open.set()


async def test_another_user_gets_through(plane: EmbeddedControlPlane, flood: Flood) -> None:
    async with RawApi(plane.access("bob")) as bob:
        (await bob.post(PATH, config_map("quick"))).expect(201)
        (await bob.get(f"{PATH}/quick")).expect(200)
    async with RawApi(plane.access("alice")) as alice:
        (await alice.get(f"{PATH}/quick")).expect(200)  # her own reads have a budget of their own
    assert not any(task.done() for task in flood.tasks)


async def test_past_the_queue(plane: EmbeddedControlPlane, admin: RawApi, held: Hook, flood: Flood) -> None:
    async with RawApi(plane.access("alice")) as alice:
        answer = await alice.post(PATH, config_map("too-many"))
    status = answer.expect(429)
    assert answer.headers["Retry-After"] == "1"
    assert (status["kind"], status["reason"], status["details"]) == (
        "Status",
        "TooManyRequests",
        {"retryAfterSeconds": 1},
    )
    assert status["message"] == "Too many requests, please try again later."
    assert await metric(admin, REJECTED, priority_level="mutating", reason="queue-full") == 1
    held.open.set()
    for task in flood.tasks:
        (await task).expect(201)
    assert len(held.reviews) == RUN + WAIT
    await until(admin, RUNNING, 0)
    await until(admin, "fairlead_apiserver_inflight_bytes", 0)


async def test_who_is_exempt(plane: EmbeddedControlPlane, admin: RawApi, held: Hook, flood: Flood) -> None:
    """Administrators are started though they are as slow, and health is told to callers without credentials."""
    async with TaskScope("test") as scope:
        pending = [scope.start(admin.post(PATH, slow(f"admin-{number}")), name="create") for number in range(20)]
        await admin.poll("/readyz", lambda _: len(held.reviews) == RUN + len(pending))
        access = plane.access()
        async with RawApi(Access(url=access.url, ca_file=access.ca_file, user="")) as anyone:
            assert (await anyone.get("/readyz")).text == "ok"
        assert not any(task.done() for task in flood.tasks)
        held.open.set()
        for task in pending:
            (await task).expect(201)


async def connect(access: Access) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cafile=str(access.ca_file))
    assert access.certificate_file is not None
    context.load_cert_chain(access.certificate_file, access.key_file)
    host, _, port = access.url.removeprefix("https://").partition(":")
    return await asyncio.open_connection(host, int(port), ssl=context)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError, ssl.SSLError):
        await writer.wait_closed()


async def test_a_client_that_hangs_up_in_the_queue_leaves_its_place(
    plane: EmbeddedControlPlane, admin: RawApi, held: Hook, flood: Flood
) -> None:
    del flood
    _, writer = await connect(plane.access("bob"))
    body = b'{"metadata":{"name":"gone","labels":{"slow":"true"}}}'
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    # Two users hold two and one of the four seats: bob's second request waits.
    _, first = await connect(plane.access("bob"))
    first.write(request)
    await until(admin, RUNNING, RUN + 1)
    writer.write(request)
    await until(admin, QUEUED, WAIT + 1)
    await hang_up(writer)
    await until(admin, QUEUED, WAIT)
    await hang_up(first)
    assert len(held.reviews) == RUN + 1


async def test_a_large_body_is_not_read_before_its_turn(
    plane: EmbeddedControlPlane, admin: RawApi, flood: Flood
) -> None:
    """The client waits for `100 Continue` with its body, and is refused without having sent it."""
    reader, writer = await connect(plane.access("alice"))
    del flood
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    writer.write(f"{head}Content-Length: 3000000\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 429 ")
    await hang_up(writer)
    before = await metric(admin, "fairlead_apiserver_inflight_bytes", priority_level="mutating")
    assert before < 3_000_000


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process, and the server that it starts, may open more files than many systems let them at first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * UNIDENTIFIED)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_connections_that_say_nothing_make_room(many_files: None, plane: EmbeddedControlPlane) -> None:
    """More of them than one address may have wait; a client that comes after them is slowed, not refused."""
    host, _, port = plane.access().url.removeprefix("https://").partition(":")
    async with contextlib.AsyncExitStack() as stack:
        silent = []
        for _ in range(UNIDENTIFIED // 2 + 20):
            reader, writer = await asyncio.open_connection(host, int(port))
            stack.push_async_callback(hang_up, writer)
            silent.append(reader)
        async with RawApi(plane.access("bob"), timeout_seconds=60) as bob:
            assert (await bob.get("/readyz")).text == "ok"
        with contextlib.suppress(ConnectionError):
            assert await silent[0].read() == b"", "the oldest one was cut off"
        assert not silent[-1].at_eof()
