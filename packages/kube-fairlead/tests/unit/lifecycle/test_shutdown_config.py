from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.lifecycle.shutdown_config import BadShutdownConfig, Period, read_shutdown_config


@pytest.mark.parametrize(
    ("settings", "periods"),
    [
        ({}, []),
        ({"shutdownGracePeriod": "0s", "shutdownGracePeriodCriticalPods": "0s"}, []),
        ({"shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "10s"}, [(0, 20), (2000000000, 10)]),
        ({"shutdownGracePeriod": "30s"}, [(0, 30), (2000000000, 0)]),
        ({"shutdownGracePeriod": "5s", "shutdownGracePeriodCriticalPods": "5s"}, [(0, 0), (2000000000, 5)]),
        ({"shutdownGracePeriod": "30.9s", "shutdownGracePeriodCriticalPods": "10.5s"}, [(0, 20), (2000000000, 10)]),
        (
            {
                "shutdownGracePeriodByPodPriority": [
                    {"priority": 100000, "shutdownGracePeriodSeconds": 10},
                    {"priority": -5, "shutdownGracePeriodSeconds": 60},
                    {"shutdownGracePeriodSeconds": 20},
                ],
                "somethingElse": 1,
            },
            [(-5, 60), (0, 20), (100000, 10)],
        ),
        ({"shutdownGracePeriodByPodPriority": [], "shutdownGracePeriod": "1s"}, [(0, 1), (2000000000, 0)]),
    ],
)
def test_the_fields_are_read_as_the_kubelet_reads_them(
    settings: dict[str, Any], periods: list[tuple[int, int]]
) -> None:
    config = read_shutdown_config(settings)
    assert config.periods == tuple(Period(*one) for one in periods)
    assert config.enabled is bool(periods)
    assert config.budget_seconds == sum(seconds for _, seconds in periods)


def a_list(*entries: Any) -> dict[str, Any]:
    return {"shutdownGracePeriodByPodPriority": list(entries)}


def entry(priority: Any, seconds: Any) -> dict[str, Any]:
    return {"priority": priority, "shutdownGracePeriodSeconds": seconds}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"shutdownGracePeriod": "10s", "shutdownGracePeriodCriticalPods": "20s"},
            "invalid configuration: shutdownGracePeriodCriticalPods 20s must be <= shutdownGracePeriod 10s",
        ),
        (
            {"shutdownGracePeriod": "500ms"},
            "invalid configuration: shutdownGracePeriod 500ms must be either zero or otherwise >= 1 sec",
        ),
        (
            {"shutdownGracePeriod": "-1s", "shutdownGracePeriodCriticalPods": "-1s"},
            "invalid configuration: shutdownGracePeriod -1s must be either zero or otherwise >= 1 sec",
        ),
        (
            {"shutdownGracePeriod": "2s", "shutdownGracePeriodCriticalPods": "1ms"},
            "invalid configuration: shutdownGracePeriodCriticalPods 1ms must be either zero or otherwise >= 1 sec",
        ),
        ({"shutdownGracePeriod": 30}, "invalid configuration: shutdownGracePeriod 30 must be a duration"),
        ({"shutdownGracePeriod": "soon"}, "invalid configuration: shutdownGracePeriod 'soon' must be a duration"),
        ({"shutdownGracePeriod": "48h"}, "invalid configuration: shutdownGracePeriod 48h0m0s must be <= 24h"),
        (
            {"shutdownGracePeriod": "30s", **a_list(entry(0, 10))},
            "invalid configuration: Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at",
        ),
        (a_list(entry(0, 10), entry(0, 20)), "shutdownGracePeriodByPodPriority[1].priority 0 is a duplicate"),
        (a_list(entry(0, -1)), "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds -1 must be an integer"),
        (a_list(entry(0, 1.5)), "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds 1.5 must be"),
        (a_list(entry(0, True)), "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds True must be"),
        (a_list(entry(1 << 31, 1)), "shutdownGracePeriodByPodPriority[0].priority 2147483648 must be a 32-bit"),
        (a_list(entry("high", 1)), "shutdownGracePeriodByPodPriority[0].priority 'high' must be a 32-bit integer"),
        (a_list(7), "shutdownGracePeriodByPodPriority[0] must have priority and shutdownGracePeriodSeconds"),
        (a_list({"seconds": 3}), "shutdownGracePeriodByPodPriority[0].seconds is unknown"),
        (a_list(entry(0, 86400), entry(1, 86400)), "shutdownGracePeriodByPodPriority adds up to 172800 seconds"),
        ({"shutdownGracePeriodByPodPriority": "all"}, "shutdownGracePeriodByPodPriority must be a list"),
    ],
)
def test_what_is_wrong_is_refused_by_name(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadShutdownConfig) as refused:
        read_shutdown_config(settings)
    assert problem in str(refused.value)


@pytest.mark.parametrize("settings", [{"shutdownGracePeriod": "30s"}, a_list(entry(0, 10))])
def test_with_the_gate_off_settings_are_refused_and_silence_is_fine(settings: dict[str, Any]) -> None:
    with pytest.raises(BadShutdownConfig, match="requires feature gate GracefulNodeShutdown"):
        read_shutdown_config(settings, gate_is_on=False)
    assert not read_shutdown_config({}, gate_is_on=False).enabled
