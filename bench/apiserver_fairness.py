"""Fairness between users of the embedded API server: how much one user's flood slows another user's requests.

Two service accounts with the same rights. One sends one request after another over one connection; the other floods
the server over many. The bar is the first one's p99 during the flood as a ratio to its p99 on the idle server; rounds
of the two alternate, so that what else the machine does meets both. What fairness itself costs is the processor time
of one request of a user who is alone, as a ratio to that on a server on which it is switched off.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import tempfile
from collections.abc import Iterator

from bench.apiserver_churn import Churn, churn
from bench.apiserver_load import Endpoint, Job, Result, drive
from bench.apiserver_plane import Plane, embedded
from bench.harness import Measurement, at_most, benchmark
from fairlead.testing.control_plane import Access
from fairlead.testing.manifests import config_map
from fairlead.testing.rawhttp import RawApi

__all__: list[str] = []

ROUNDS = 5
SECONDS = 3.0
LISTED = 100
CONNECTIONS = 200
LARGE_CONNECTIONS = 20
HANDSHAKES = 50
CLIENTS = 32
BAR = at_most(3)
COST_BAR = at_most(1.1)
_PATH = "/api/v1/namespaces/default/configmaps"
_OBJECT = json.dumps(config_map("c-%d", {"settings.yaml": "key: value\n" * 40}))


@benchmark("apiserver-fairness")
def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        plane = embedded(pathlib.Path(folder) / "embedded")
        stack.callback(plane.close)
        asyncio.run(plane.start())
        quiet, loud = (_account(plane, name) for name in ("quiet", "loud"))
        yield from _costs(pathlib.Path(folder), plane, loud)
        small = _small(quiet)
        read = small["GET"]
        floods = {name: _flooding(job, loud) for name, job in small.items()}
        for mine, theirs in itertools.product(small, floods):
            yield _compare(f"{mine} beside {theirs}", small[mine], floods[theirs])
        unknown = dataclasses.replace(loud, token="unknown")
        yield _compare("GET beside bad credentials", read, _flooding(read, unknown))
        yield _compare("GET beside health checks", read, dataclasses.replace(floods["GET"], path="/readyz"))
        large = Job(quiet, "POST", f"{_PATH}?dryRun=All", _large(), clients=1, seconds=SECONDS)
        yield _compare("GET beside large bodies", read, _flooding(large, loud, LARGE_CONNECTIONS))
        yield _compare("large body beside large bodies", large, _flooding(large, loud, LARGE_CONNECTIONS))
        seconds = SECONDS + 2
        yield _compare("GET beside TLS handshakes", read, Churn(unknown, clients=HANDSHAKES, seconds=seconds))
        watches = Churn(loud, f"{_PATH}?watch=1", clients=HANDSHAKES, seconds=seconds)
        yield _compare("GET beside watches that come and go", read, watches)


def _patching(job: Job) -> Job:
    body = '{"metadata":{"annotations":{"bench":"%n"}}}'
    return dataclasses.replace(job, method="PATCH", body=body, content_type="application/merge-patch+json")


def _large() -> str:
    return json.dumps(config_map("large-%d", {f"key-{number}": "value " * 20 for number in range(4000)}))


def _flooding(job: Job, endpoint: Endpoint, connections: int = CONNECTIONS) -> Job:
    return dataclasses.replace(job, endpoint=endpoint, clients=connections, seconds=SECONDS + 2)


def _costs(folder: pathlib.Path, shared: Plane, endpoint: Endpoint) -> Iterator[Measurement]:
    """What one request of a user alone costs the server, with fairness and without, in turn."""
    plain = embedded(folder / "plain", "--enable-priority-and-fairness=false")
    try:
        asyncio.run(plain.start())
        endpoints = {plain: _account(plain, "loud"), shared: endpoint}
        for plane, account in endpoints.items():
            drive(Job(account, "POST", _PATH, _OBJECT, clients=1, requests=LISTED))
            plane.freeze()
        for name, job in _small(endpoint).items():
            spent: dict[Plane, list[float]] = {plain: [], shared: []}
            for _ in range(ROUNDS):
                for plane, account in endpoints.items():
                    with plane.alone():
                        before = plane.cpu_seconds()
                        result = _expect(
                            drive(dataclasses.replace(job, endpoint=account, clients=CLIENTS, seconds=2.0))
                        )
                        spent[plane].append((plane.cpu_seconds() - before) / result.answered * 1e6)
            without, shared_out = (statistics.median(spent[plane]) for plane in (plain, shared))
            note = f"{shared_out:,.0f} us, {without:,.0f} us with fairness off; {CLIENTS} connections of one user"
            yield Measurement(f"CPU of {name} by a user alone", shared_out / without, "x without", COST_BAR, note)
    finally:
        plain.thaw()
        plain.close()
        shared.thaw()


def _small(endpoint: Endpoint) -> dict[str, Job]:
    read = Job(endpoint, "GET", f"{_PATH}/c-%d", clients=1, span=LISTED, seconds=SECONDS)
    return {"GET": read, "PATCH": _patching(read), "LIST": dataclasses.replace(read, path=_PATH)}


def _compare(what: str, read: Job, flood: Job | Churn) -> Measurement:
    idle, busy = [], []
    answered = refused = 0
    for _ in range(ROUNDS):
        idle.append(_expect(drive(read)))
        with concurrent.futures.ThreadPoolExecutor(1, initializer=_stand_back) as beside:
            flooding = beside.submit(_flood, flood)
            _wait_begun(flooding)
            busy.append(_expect(drive(read)))
            result = flooding.result()
        answered += result[0]
        refused += result[1]
    before, during = (statistics.median(result.p99_ms for result in results) for results in (idle, busy))
    rate = statistics.median(result.per_second for result in busy)
    note = (
        f"p99 {before:.2f} ms idle, {during:.2f} ms beside {flood.clients} connections; {rate:,.0f} requests/s "
        f"meanwhile, the flood: {answered:,} answered, {refused:,} refused"
    )
    return Measurement(f"p99 of {what}", during / before, "x idle", BAR, note)


def _flood(flood: Job | Churn) -> tuple[int, int]:
    """How many were answered and refused."""
    if isinstance(flood, Churn):
        return churn(flood), 0
    result = drive(flood)
    return result.answered, sum(result.refused.values())


def _stand_back() -> None:
    """The flood stands for other machines: it takes no processor time from the server or the quiet user."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)  # of this thread, and of the process that it starts


def _wait_begun(flooding: concurrent.futures.Future[tuple[int, int]]) -> None:
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
