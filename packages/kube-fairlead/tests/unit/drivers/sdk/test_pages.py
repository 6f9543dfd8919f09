"""Probes and metrics of a driver: what its flags mean, and what the pages say."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import socket

import aiohttp
import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.driverapi.errors import DriverGone
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead_lab.testing.ports import ReservedPort
from tests.unit.driverapi.scripted import WORK
from tests.unit.drivers.sdk.test_service import Counting

FOREVER = dataclasses.replace(WORK, deadline=None)


class Unwell(Counting):
    @property
    def healthy(self) -> bool:
        return False


async def ask(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"https://127.0.0.1:{port}{path}", ssl=False) as got:
        return got.status, await got.text()


@pytest.mark.parametrize(("driver", "code"), [(Counting(), 200), (Unwell(), 500)])
async def test_a_driver_that_is_not_well_is_not_ready_but_lives(
    short_path: pathlib.Path, driver: sdk.Driver, code: int
) -> None:
    port = ReservedPort()
    port.release()
    options = sdk.Options(registry=short_path / "registry", pages=sdk.pages(port.number, always_allow=["*"]))
    async with sdk.serving(driver, options, metrics=PrometheusMetrics()):
        assert (await ask(port.number, "/livez"))[0] == (await ask(port.number, "/healthz"))[0] == 200
        assert (await ask(port.number, "/readyz"))[0] == code
        assert (
            'fairlead_driver_calls_running{driver="example.com/reboot",step="end"} 0.0'
            in (await ask(port.number, "/metrics"))[1]
        )


class Ending(Counting):
    """Ends as it is asked to."""

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        if work.event_uid == "refused":
            raise sdk.Refused("no")
        if work.event_uid == "gone":
            raise DriverGone("the API server is away")
        if work.event_uid == "cancelled":
            await asyncio.Event().wait()


async def test_calls_are_counted_by_how_they_end() -> None:
    metrics = PrometheusMetrics()
    service = Service(Ending(), RealClock(), metrics)
    for uid, error in (("done", None), ("refused", sdk.Refused), ("gone", DriverGone)):
        work = dataclasses.replace(FOREVER, event_uid=uid)
        if error is None:
            await service.end(work, lambda _: None)
        else:
            with pytest.raises(error):
                await service.end(work, lambda _: None)
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        cancelled = dataclasses.replace(FOREVER, event_uid="cancelled")
        task = scope.start(service.end(cancelled, lambda _: None), name="end")
        await asyncio.sleep(0)
        labels = 'driver="example.com/reboot"'
        assert f'fairlead_driver_calls_running{{{labels},step="end"}} 1.0' in metrics.exposition().decode()
        await tasks.cancel_and_wait(task)
    said = metrics.exposition().decode()
    assert f'fairlead_driver_calls_running{{{labels},step="end"}} 0.0' in said
    for result, count in (("done", 1.0), ("failed", 1.0), ("interrupted", 2.0)):
        assert f'fairlead_driver_calls_total{{{labels},result="{result}",step="end"}} {count}' in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--secure-port=70000"], "argument --secure-port: must be a number from 0 to 65535, got '70000'"),
        (["--secure-port=x"], "argument --secure-port: must be a number from 0 to 65535, got 'x'"),
        (
            ["--secure-port=10260", "--tls-cert-file=a"],
            "--tls-cert-file and --tls-private-key-file: set both or neither",
        ),
        (
            ["--secure-port=10260", "--tls-cert-file=a", "--tls-private-key-file=b"],
            "--tls-cert-file a, --tls-private-key-file b: not a certificate and its key: ",
        ),
        (
            ["--secure-port=10260", "--cert-dir=/dev/null/x"],
            "--cert-dir: /dev/null/x cannot be created: Not a directory",
        ),
        (
            ["--authorization-always-allow-paths=metrics"],
            "argument --authorization-always-allow-paths: 'metrics' must begin with a slash, or be *",
        ),
    ],
)
def test_flags_that_cannot_work_are_refused(
    flags: list[str], said: str, short_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        sdk.main(Counting(), [f"--registry-dir={short_path / 'registry'}", *flags])
    assert ended.value.code == 2
    assert f"error: {said}" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(short_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        flags = [f"--secure-port={other.getsockname()[1]}", "--authorization-always-allow-paths=*"]
        with pytest.raises(SystemExit) as ended:
            sdk.main(Counting(), [f"--registry-dir={short_path / 'registry'}", *flags])
    assert ended.value.code == 1
    assert "another process does; give another --secure-port" in capsys.readouterr().err
