"""Showing what happens to nodes: plain lines for a file or a pipe, a live view for a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["LiveScreen", "PlainScreen", "Screen", "screen"]


class Screen(Protocol):
    """Where to write."""

    def say(self, line: str) -> None:
        """Something that stays."""
        ...

    def warn(self, line: str) -> None:
        """Something that stays, on standard error."""
        ...

    def status(self, node: str, text: str) -> None:
        """How it stands with a node now; an empty text is the end of it."""
        ...


class PlainScreen:
    """One line for each thing that changes."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def say(self, line: str) -> None:
        """Something that stays."""
        click.echo(line)

    def warn(self, line: str) -> None:
        """Something that stays, on standard error."""
        click.echo(line, err=True)

    def status(self, node: str, text: str) -> None:
        """How it stands with a node now."""
        if text and self._last.get(node) != text:
            click.echo(f"node/{node}: {text}")
        self._last[node] = text


class LiveScreen:
    """What stays scrolls by; what changes is written over, at the bottom."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._status: dict[str, str] = {}

    def say(self, line: str) -> None:
        """Something that stays."""
        self._live.console.print(line, highlight=False, markup=False)

    def warn(self, line: str) -> None:
        """Something that stays; a terminal shows both streams in one place."""
        self._live.console.print(line, highlight=False, markup=False, style="yellow")

    def status(self, node: str, text: str) -> None:
        """How it stands with a node now."""
        from rich.text import Text

        if text:
            self._status[node] = text
        else:
            self._status.pop(node, None)
        lines = Text("\n").join(Text(f"node/{name}: {said}") for name, said in self._status.items())
        self._live.update(lines)


@contextlib.contextmanager
def screen() -> Iterator[Screen]:
    """What suits standard output."""
    if not sys.stdout.isatty():
        yield PlainScreen()
        return
    from rich.live import Live

    with Live(transient=True, refresh_per_second=8, redirect_stdout=False, redirect_stderr=False) as live:
        yield LiveScreen(live)
