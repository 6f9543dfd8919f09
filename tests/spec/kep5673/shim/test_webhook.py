"""The webhook itself, on stock Kubernetes: without it, what it is called for, what it may do, what it tells."""

from __future__ import annotations

import pytest

from tests.spec.kep5673.objects import FINALIZER
from tests.spec.kep5673.programs import Webhook
from tests.spec.kep5673.shim.keeping import Shimmed

pytestmark = pytest.mark.parametrize(
    "control_plane", [pytest.param("kube", marks=pytest.mark.kube)], indirect=True, scope="session"
)


def webhook_of(shimmed: Shimmed) -> Webhook:
    assert shimmed.webhook is not None
    return shimmed.webhook


async def test_6_without_the_webhook_deletes_work_and_nothing_is_known(shimmed: Shimmed) -> None:
    webhook = webhook_of(shimmed)
    await shimmed.kind.create("a", FINALIZER)
    await webhook.stop_process()
    try:
        (await shimmed.kind.delete("a", 300)).expect(200)
    finally:
        await webhook.start_process()
    known = await shimmed.known("a")
    assert (known.requested, known.deadline, known.forced) == (None, None, None)


async def test_plain_deletes_do_not_reach_the_webhook(shimmed: Shimmed) -> None:
    webhook = webhook_of(shimmed)
    before = [await webhook.counted(result) for result in ("recorded", "unneeded")]
    await shimmed.kind.create("a", FINALIZER)
    await shimmed.kind.delete("a")
    assert [await webhook.counted(result) for result in ("recorded", "unneeded")] == before


async def test_what_an_operator_asks_the_webhook(shimmed: Shimmed) -> None:
    webhook = webhook_of(shimmed)
    assert [await webhook.get(path) for path in ("/healthz", "/livez", "/readyz")] == ["ok"] * 3
    metrics = await webhook.get("/metrics")
    assert "fairlead_webhook_request_duration_seconds_bucket" in metrics
    assert "process_resident_memory_bytes" in metrics


async def test_it_holds_no_right_that_it_does_not_need(shimmed: Shimmed) -> None:
    role = (
        await shimmed.kind.api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/fairlead-deletion-webhook")
    ).expect(200)
    assert role["rules"] == [
        {"apiGroups": [shimmed.kind.group], "resources": ["machines"], "verbs": ["get", "patch"]},
        # It asks who may read its metrics.
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
