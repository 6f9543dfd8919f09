"""Structured logging over the standard library: an event in plain words, then fields.

    log = logs.get_logger("agent.claims").bind(node="a")
    log.info("claimed", event="node-drain-a", sla_seconds=600)

Lines come as text for people or as JSON for machines. Secrets are removed from every line, also from libraries'.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime as dt
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol

from kube_fairlead.base import redaction
from kube_fairlead.base.clock import Clock

__all__ = ["HumanFormatter", "JsonFormatter", "Logger", "Stream", "configure", "context", "get_logger"]

_ROOT = "fairlead"
_PACKAGE = "kube_fairlead"
_FIELDS = "fairlead_fields"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_context: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("log_fields", default=_NOTHING)


class Stream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object:
        """Take a line or more."""
        ...

    def flush(self) -> None:
        """Hold nothing back."""
        ...


class Logger:
    """Writes events with fields. `bind` gives a logger that adds fields to every event."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, fields: Mapping[str, Any] = _NOTHING) -> None:
        self._logger = logger
        self._fields = fields

    def bind(self, **fields: Any) -> Logger:
        """The same logger with more fields."""
        return Logger(self._logger, {**self._fields, **fields})

    def debug(self, message: str, /, **fields: Any) -> None:
        """Details for debugging."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        """What happened, as it should."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        """A problem that needs attention; the component continues."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        """What failed."""
        self._write(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: Any) -> None:
        """What failed, with the traceback of the exception being handled."""
        self._write(logging.ERROR, message, fields, exc_info=True)

    def _write(self, level: int, message: str, fields: Mapping[str, Any], *, exc_info: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            merged = {**_context.get(), **self._fields, **fields}
            # Third from here is the caller: its file and line belong in the record.
            self._logger.log(level, "%s", message, extra={_FIELDS: merged}, exc_info=exc_info, stacklevel=3)


def get_logger(name: str) -> Logger:
    """The logger of one part, e.g. `agent.claims`; a full module name gives the same one.

    Every distribution's loggers are below one root: `kube_fairlead_apiserver.health` is `fairlead.apiserver.health`.
    """
    package, dot, rest = name.partition(".")
    if package == _PACKAGE:
        name = rest
    elif package.startswith(f"{_PACKAGE}_"):
        name = package.removeprefix(f"{_PACKAGE}_") + dot + rest
    return Logger(logging.getLogger(f"{_ROOT}.{name}" if name else _ROOT))


@contextlib.contextmanager
def context(**fields: Any) -> Iterator[None]:
    """Add fields to every event logged in this block, and in the tasks started in it."""
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def configure(
    *,
    output: Literal["human", "json"] = "human",
    level: int | str = logging.INFO,
    stream: Stream | None = None,
    clock: Clock | None = None,
) -> None:
    """Send all log lines of this process, ours and libraries', to one stream. Calling it again replaces it.

    Args:
        output: text for people, or one JSON object per line.
        level: the lowest level that is written; libraries below us are kept to warnings.
        stream: standard error unless given.
        clock: whose time the lines carry; the moment of logging unless given.
    """
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(clock) if output == "json" else HumanFormatter(clock))
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(_ROOT).setLevel(level.upper() if isinstance(level, str) else level)


class _Handler(logging.StreamHandler[Stream]):
    """Ours, so that `configure` can find and replace it without touching other handlers."""


class _Formatter(logging.Formatter):
    """What both forms share: the time, the fields, and that nothing secret gets out."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock

    def _time(self, record: logging.LogRecord) -> str:
        moment = self._clock.now() if self._clock is not None else dt.datetime.fromtimestamp(record.created, dt.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @staticmethod
    def _message(record: logging.LogRecord) -> str:
        return redaction.redact_text(record.getMessage())

    @staticmethod
    def _fields(record: logging.LogRecord) -> dict[str, Any]:
        fields: Mapping[str, Any] = getattr(record, _FIELDS, _NOTHING)
        return {name: redaction.redact(name, value) for name, value in fields.items()}

    def _traceback(self, record: logging.LogRecord) -> str:
        if record.exc_info and record.exc_info[0] is not None:
            return redaction.redact_text(self.formatException(record.exc_info))
        return ""


class JsonFormatter(_Formatter):
    """One JSON object per line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": self._time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
        }
        # A field may not pose as the line's own time or level.
        line.update((f"field_{name}" if name in line else name, value) for name, value in self._fields(record).items())
        if traceback := self._traceback(record):
            line["traceback"] = traceback
        return json.dumps(line, default=str, ensure_ascii=False)


class HumanFormatter(_Formatter):
    """`time LEVEL logger: message  field=value ...`, with a traceback below where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, or one and a traceback."""
        name = record.name.removeprefix(f"{_ROOT}.")
        parts = [f"{self._time(record)} {record.levelname:<7} {name}: {_one_line(self._message(record))}"]
        parts += [f"{key}={_plain(value)}" for key, value in self._fields(record).items()]
        line = " ".join(parts)
        traceback = self._traceback(record)
        return f"{line}\n{traceback}" if traceback else line


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    bare = bool(text) and text.isprintable() and not any(character in text for character in " \"'=")
    return text if bare or not isinstance(value, str) else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    # A message with a line break could pose as a log line of its own.
    return text.replace("\r", "\\r").replace("\n", "\\n")
