"""What is counted of admission webhooks, under Kubernetes' names and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.test_webhooks import Hook, hook, path, register

__all__ = ["hook", "path", "register"]  # fixtures

ADMISSION = "apiserver_admission_webhook"


async def test_webhooks_are_counted(
    api: RawApi, hook: Hook, register: Any, path: str, unique_name: Callable[[str], str]
) -> None:
    name = f"{unique_name('w')}.example.com"

    async def counted(sample: str, **labels: str) -> float:
        wanted = {"name": name, **labels}
        text = (await api.get("/metrics")).text
        return sum(
            found.value
            for family in text_string_to_metric_families(text)
            for found in family.samples
            # The parser gives counters the ending that they should have had.
            if found.name.removesuffix("_total") == f"{ADMISSION}_{sample}" and wanted.items() <= found.labels.items()
        )

    created = {"type": "validating", "operation": "CREATE"}
    await register("validating", name=name, failurePolicy="Ignore")
    asked = await counted("request", **created, code="200", rejected="false")
    hook.answer = lambda _: {"allowed": False, "status": {"code": 418}}
    (await api.post(path, config_map("a"))).expect(418)
    assert await counted("request", **created, code="418", rejected="true") == 1
    assert await counted("rejection_count", **created, error_type="no_error", rejection_code="418") == 1
    hook.broken = True
    (await api.post(path, config_map("a"))).expect(201)
    assert await counted("fail_open_count", type="validating") == 1
    assert await counted("request", **created, code="500", rejected="false") == 1
    assert await counted("admission_duration_seconds_count", **created) == asked + 2
