"""Reading what an API server counts."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kube_fairlead_lab.testing.rawhttp import RawApi

__all__ = ["count", "series"]


async def series(api: RawApi, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
    """Every sample of that name with these labels."""
    text = (await api.get("/metrics")).text
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


async def count(api: RawApi, name: str, **labels: str) -> float:
    """The sum of them; nothing counted is 0."""
    return sum(value for _, value in await series(api, name, **labels))
