"""Fairness between users of the embedded API server: how much one user's flood slows another user's requests.

Two service accounts with the same rights. One sends one request after another over one connection; the other floods
the server over many. The bar is the first one's p99 during the flood as a ratio to its p99 on the idle server; rounds
of the two alternate, so that what else the machine does meets both. A single list, or the answers to writes that became
durable together, keep the event loop busy for longer than a read takes: how much a flood of those slows reads is shown
without a bar.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import tempfile
from collections.abc import Iterator

from bench.apiserver_load import Endpoint, Job, Result, drive
from bench.apiserver_plane import Plane, embedded
from bench.harness import Bar, Measurement, at_most, benchmark
from fairlead.testing.control_plane import Access
from fairlead.testing.manifests import config_map
from fairlead.testing.rawhttp import RawApi

__all__: list[str] = []

ROUNDS = 5
SECONDS = 3.0
LISTED = 100
CONNECTIONS = 200
BAR = at_most(3)
_PATH = "/api/v1/namespaces/default/configmaps"
_OBJECT = json.dumps(config_map("c-%d", {"settings.yaml": "key: value\n" * 40}))


@benchmark("apiserver-fairness")
def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        plane = embedded(pathlib.Path(folder) / "embedded")
        stack.callback(plane.close)
        asyncio.run(plane.start())
        quiet, loud = (_account(plane, name) for name in ("quiet", "loud"))
        drive(Job(quiet, "POST", _PATH, _OBJECT, clients=1, requests=LISTED))
        read = Job(quiet, "GET", f"{_PATH}/c-%d", clients=1, span=LISTED, seconds=SECONDS)
        flood = dataclasses.replace(read, endpoint=loud, clients=CONNECTIONS, seconds=SECONDS + 2)
        unknown = dataclasses.replace(loud, token="unknown")
        yield _compare("GET beside GET", read, flood)
        yield _compare("PATCH beside PATCH", _patching(read), _patching(flood))
        yield _compare("LIST beside LIST", *(dataclasses.replace(job, path=_PATH) for job in (read, flood)))
        yield _compare("GET beside bad credentials", read, dataclasses.replace(flood, endpoint=unknown))
        yield _compare("GET beside health checks", read, dataclasses.replace(flood, path="/readyz"))
        yield _compare("GET beside LIST", read, dataclasses.replace(flood, path=_PATH), bar=None)
        yield _compare("GET beside PATCH", read, _patching(flood), bar=None)


def _patching(job: Job) -> Job:
    body = '{"metadata":{"annotations":{"bench":"%n"}}}'
    return dataclasses.replace(job, method="PATCH", body=body, content_type="application/merge-patch+json")


def _compare(what: str, read: Job, flood: Job, *, bar: Bar | None = BAR) -> Measurement:
    idle, busy = [], []
    answered = refused = 0
    for _ in range(ROUNDS):
        idle.append(_expect(drive(read)))
        with concurrent.futures.ThreadPoolExecutor(1, initializer=_stand_back) as beside:
            flooding = beside.submit(drive, flood)
            _wait_begun(flooding)
            busy.append(_expect(drive(read)))
            result = flooding.result()
        answered += result.answered
        refused += sum(result.refused.values())
    before, during = (statistics.median(result.p99_ms for result in results) for results in (idle, busy))
    rate = statistics.median(result.per_second for result in busy)
    note = (
        f"p99 {before:.2f} ms idle, {during:.2f} ms beside {CONNECTIONS} connections; {rate:,.0f} requests/s "
        f"meanwhile, the flood: {answered:,} answered, {refused:,} refused"
    )
    return Measurement(f"p99 of {what}", during / before, "x idle", bar, note)


def _stand_back() -> None:
    """The flood stands for other machines: it takes no processor time from the server or the quiet user."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)  # of this thread, and of the process that it starts


def _wait_begun(flooding: concurrent.futures.Future[Result]) -> None:
    """The flood's own handshakes are not what is measured."""
    with contextlib.suppress(concurrent.futures.TimeoutError):
        flooding.result(timeout=1.5)


def _expect(result: Result) -> Result:
    if result.refused:
        raise RuntimeError(f"the quiet user was refused {result.refused}: {result.last_refusal}")
    return result


def _account(plane: Plane, name: str) -> Endpoint:
    """A service account that may do everything and is no member of system:masters."""

    async def make() -> str:
        endpoint = plane.endpoint
        access = Access(url=endpoint.url, ca_file=pathlib.Path(endpoint.ca_file), user="admin", token=endpoint.token)
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        async with RawApi(access) as api:
            (await api.post(accounts, {"metadata": {"name": name}})).expect(201)
            binding = {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            }
            path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
            (await api.post(path, binding)).expect(201)
            token = (await api.post(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 3600}})).expect(201)
            return str(token["status"]["token"])

    return dataclasses.replace(plane.endpoint, token=asyncio.run(make()))
