"""Monitoring Requirements: is it in use, is it healthy?"""

from __future__ import annotations

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.measuring import count, series
from tests.spec.kep5673.objects import FINALIZER, Kind

GRACEFUL = "apiserver_crd_graceful_deletion_total"


async def test_deletes_with_a_grace_period_are_counted_by_kind(api: RawApi, kind: Kind) -> None:
    async def counted() -> float:
        return await count(api, GRACEFUL, group=kind.group, resource=kind.plural)

    await kind.create("free")
    for name in ("a", "b"):
        await kind.create(name, FINALIZER)
    await kind.delete("free", 30)  # no finalizer, nothing to wait for
    await kind.delete("a", 30, dryRun=["All"])
    await kind.delete("b")  # no grace period
    assert await counted() == 0
    await kind.delete("a", 30)
    assert await counted() == 1
    await kind.delete("a", 300)  # changes nothing
    assert await counted() == 1
    await kind.delete("a", 10)
    await kind.delete("b", 0)
    assert await counted() == 3
    await kind.create("c", FINALIZER)
    (await api.delete(kind.path(), {"gracePeriodSeconds": 5})).expect(200)  # shortens a, begins c, leaves b forced
    assert await counted() == 5
    labels = {tuple(sorted(found)) for found, _ in await series(api, GRACEFUL)}
    assert labels == {("group", "resource")}


async def test_requests_are_labelled_as_kubernetes_labels_them(api: RawApi, kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    await kind.delete("a", 30)
    await kind.delete("a", 10, dryRun=["All"])
    await kind.delete("nobody", 30)
    (await api.delete(kind.path(), {"gracePeriodSeconds": 5})).expect(200)
    assert await count(api, "apiserver_request_total", **one(kind, "DELETE", "resource"), code="200") == 2
    assert await count(api, "apiserver_request_total", **one(kind, "DELETE", "resource"), code="404") == 1
    assert await count(api, "apiserver_request_total", **one(kind, "DELETE", "namespace"), code="200") == 1
    assert await count(api, "apiserver_request_duration_seconds_count", **one(kind, "DELETE", "resource")) == 3
    assert await count(api, "apiserver_request_duration_seconds_count", **one(kind, "POST", "resource")) == 1
    below = await count(api, "apiserver_request_duration_seconds_bucket", **one(kind, "DELETE", "resource"), le="60.0")
    assert below == 3


def one(kind: Kind, verb: str, scope: str) -> dict[str, str]:
    """The labels of kube-apiserver's request metrics for one kind of request; shim/test_metrics.py reads them there."""
    return {
        "verb": verb,
        "dry_run": "",
        "group": kind.group,
        "version": "v1",
        "resource": kind.plural,
        "subresource": "",
        "scope": scope,
        "component": "apiserver",
    }
