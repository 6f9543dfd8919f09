"""Texts that several commands print: tables, ages, counts. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from kube_fairlead.lifecycle.node_overview import EventOverview, RecordedEvent

__all__ = ["aligned", "cut", "progress", "span"]

_NOTHING: Final = "-"
_CELL_WIDTH: Final = 80


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table; an empty cell is a dash."""
    shown = [[cell or _NOTHING for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown)
    return "\n".join(lines) + "\n"


def cut(text: str) -> str:
    """A text as one line that fits into a table."""
    line = " ".join(text.split())
    return line if len(line) <= _CELL_WIDTH else line[: _CELL_WIDTH - 3] + "..."


def progress(event: EventOverview | RecordedEvent) -> str:
    """How much of an event is done; empty if the driver does not report it."""
    return "" if event.total is None else f"{event.done}/{event.total} {event.unit}".rstrip()


def span(length: dt.timedelta) -> str:
    """A duration in the format of kubectl's ages: 42s, 3m5s, 2h, 5d."""
    seconds = int(length.total_seconds())
    if seconds < 0:
        return f"-{span(-length)}"
    if seconds < 120:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{seconds}s" if seconds else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"
