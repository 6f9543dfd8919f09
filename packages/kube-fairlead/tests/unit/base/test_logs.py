from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from kube_fairlead.base import logs
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import TaskScope

Configure = Callable[..., io.StringIO]
CLOCK = VirtualClock(dt.datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=dt.UTC))


@pytest.fixture
def configure() -> Iterator[Configure]:
    root, ours = logging.getLogger(), logging.getLogger("fairlead")
    before = (list(root.handlers), root.level, ours.level)

    def to_stream(output: Literal["human", "json"] = "json", level: int | str = "INFO") -> io.StringIO:
        stream = io.StringIO()
        logs.configure(output=output, level=level, stream=stream, clock=CLOCK)
        return stream

    yield to_stream
    root.handlers[:], root.level, ours.level = before


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail(message: str) -> None:
    raise ValueError(message)


def test_json(configure: Configure) -> None:
    stream = configure()
    logs.get_logger("agent.claims").bind(node="a").info("claimed", event="drain-a", sla_seconds=600, extra=None)
    assert lines(stream) == [
        {
            "time": "2026-03-01T12:00:00.250000Z",
            "level": "info",
            "logger": "fairlead.agent.claims",
            "message": "claimed",
            "node": "a",
            "event": "drain-a",
            "sla_seconds": 600,
            "extra": None,
        }
    ]


def test_human(configure: Configure) -> None:
    stream = configure("human")
    logs.get_logger("agent").warning(
        "lost the driver", driver="x/y", text='say "hi"', empty="", n=3, on=True, d={"a": 1}
    )
    assert stream.getvalue() == (
        "2026-03-01T12:00:00.250000Z WARNING agent: lost the driver "
        'driver=x/y text="say \\"hi\\"" empty="" n=3 on=true d={"a": 1}\n'
    )


def test_a_module_name_gives_the_same_logger(configure: Configure) -> None:
    stream = configure()
    logs.get_logger("kube_fairlead.agent").info("a")
    logs.get_logger("agent").info("b")
    assert {line["logger"] for line in lines(stream)} == {"fairlead.agent"}


@pytest.mark.parametrize(
    ("module", "logger"),
    [
        ("kube_fairlead", "fairlead"),
        ("kube_fairlead_apiserver.storage.store", "fairlead.apiserver.storage.store"),
        ("kube_fairlead_lab.hollow", "fairlead.lab.hollow"),
    ],
)
def test_the_loggers_of_every_distribution_are_below_one_root(module: str, logger: str, configure: Configure) -> None:
    stream = configure()
    logs.get_logger(module).info("a")
    assert [line["logger"] for line in lines(stream)] == [logger]


def test_binding_adds_and_the_call_wins(configure: Configure) -> None:
    stream = configure()
    log = logs.get_logger("x").bind(a=1, b=1)
    log.bind(b=2, c=2).info("inner", c=3)
    log.info("outer")
    inner, outer = lines(stream)
    assert (inner["a"], inner["b"], inner["c"]) == (1, 2, 3)
    assert (outer["a"], outer["b"], "c" in outer) == (1, 1, False)


async def test_context_reaches_every_logger_and_task_inside(configure: Configure) -> None:
    stream = configure()

    async def elsewhere() -> None:
        await asyncio.sleep(0)
        logs.get_logger("y").info("in a task")

    async with TaskScope("test") as scope:
        with logs.context(request="r1"), logs.context(user="u"):
            logs.get_logger("x").info("inside")
            scope.start(elsewhere(), name="elsewhere")
        logs.get_logger("x").info("outside")
    assert [(line["message"], line.get("request"), line.get("user")) for line in lines(stream)] == [
        ("inside", "r1", "u"),
        ("outside", None, None),
        ("in a task", "r1", "u"),
    ]


@pytest.mark.parametrize("output", ["human", "json"])
def test_secrets_never_get_out(configure: Configure, output: str) -> None:
    stream = configure(output)
    log = logs.get_logger("x").bind(token="s3cr3t")
    log.info(
        "sent Authorization: Bearer s3cr3t", headers={"Authorization": "Bearer s3cr3t"}, error=OSError("token=s3cr3t")
    )
    logging.getLogger("some.library").warning("password=%s", "s3cr3t")
    try:
        fail("Bearer s3cr3t")
    except ValueError:
        log.exception("failed")
    assert "s3cr3t" not in stream.getvalue()
    assert stream.getvalue().count("[redacted]") >= 6


def test_a_failure_carries_its_traceback(configure: Configure) -> None:
    stream = configure()
    try:
        fail("boom")
    except ValueError:
        logs.get_logger("x").exception("failed", n=1)
    (line,) = lines(stream)
    assert (line["level"], line["n"]) == ("error", 1)
    assert line["traceback"].startswith("Traceback")
    assert line["traceback"].endswith("ValueError: boom")


def test_levels(configure: Configure) -> None:
    stream = configure(level="warning")
    log = logs.get_logger("x")
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    assert [line["message"] for line in lines(stream)] == ["w", "e"]


def test_libraries_are_kept_to_warnings(configure: Configure) -> None:
    stream = configure(level="DEBUG")
    logging.getLogger("aiohttp.access").info("chatter")
    logging.getLogger("aiohttp.client").warning("trouble: %d", 5)
    assert [line["message"] for line in lines(stream)] == ["trouble: 5"]


@pytest.mark.parametrize("output", ["human", "json"])
def test_one_event_is_one_line(configure: Configure, output: str) -> None:
    """A text from outside cannot forge a log line."""
    stream = configure(output)
    logs.get_logger("x").info("line\nERROR forged", field="a\nb\r\nc")
    assert len(stream.getvalue().splitlines()) == 1


def test_a_field_cannot_pose_as_the_line_itself(configure: Configure) -> None:
    stream = configure()
    logs.get_logger("x").info("real", level="critical", message="fake", time="never")
    (line,) = lines(stream)
    assert (line["message"], line["level"], line["field_message"], line["field_level"]) == (
        "real",
        "info",
        "fake",
        "critical",
    )


def test_a_percent_sign_is_only_that(configure: Configure) -> None:
    stream = configure()
    logs.get_logger("x").info("100% done, %s", path="%d")
    assert lines(stream)[0]["message"] == "100% done, %s"


def test_configuring_again_replaces(configure: Configure) -> None:
    first, second = configure(), configure()
    logs.get_logger("x").info("once")
    assert (first.getvalue(), len(lines(second))) == ("", 1)


def test_the_record_points_at_the_caller(configure: Configure, caplog: pytest.LogCaptureFixture) -> None:
    configure()
    with caplog.at_level("INFO", logger="fairlead"):
        logs.get_logger("x").info("here")
    assert caplog.records[0].pathname == __file__
    assert caplog.records[0].funcName == "test_the_record_points_at_the_caller"


def test_without_a_clock_a_line_carries_the_moment_it_was_logged() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "m", None, None)
    record.created = dt.datetime(2026, 1, 2, tzinfo=dt.UTC).timestamp()
    assert json.loads(logs.JsonFormatter().format(record))["time"] == "2026-01-02T00:00:00.000000Z"
