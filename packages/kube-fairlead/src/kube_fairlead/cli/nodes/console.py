"""Prints progress: plain lines for a file or a pipe, a live view for a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["Console", "LiveConsole", "PlainConsole", "open_console"]


class Console(Protocol):
    """Prints progress."""

    def say(self, line: str) -> None:
        """Print a line."""
        ...

    def warn(self, line: str) -> None:
        """Print a line on standard error."""
        ...

    def status(self, node: str, text: str) -> None:
        """Show the current state of a node; an empty text removes it."""
        ...


class PlainConsole:
    """One line for each change."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def say(self, line: str) -> None:
        """Print a line."""
        click.echo(line)

    def warn(self, line: str) -> None:
        """Print a line on standard error."""
        click.echo(line, err=True)

    def status(self, node: str, text: str) -> None:
        """Show the current state of a node."""
        if text and self._last.get(node) != text:
            click.echo(f"node/{node}: {text}")
        self._last[node] = text


class LiveConsole:
    """Lines scroll; the current states of nodes are redrawn below them."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._status: dict[str, str] = {}

    def say(self, line: str) -> None:
        """Print a line."""
        self._live.console.print(line, highlight=False, markup=False)

    def warn(self, line: str) -> None:
        """Print a line in another colour; a terminal shows both streams in one place."""
        self._live.console.print(line, highlight=False, markup=False, style="yellow")

    def status(self, node: str, text: str) -> None:
        """Show the current state of a node."""
        from rich.text import Text

        if text:
            self._status[node] = text
        else:
            self._status.pop(node, None)
        lines = Text("\n").join(Text(f"node/{name}: {state}") for name, state in self._status.items())
        self._live.update(lines)


@contextlib.contextmanager
def open_console() -> Iterator[Console]:
    """A live view if standard output is a terminal, else plain lines."""
    if not sys.stdout.isatty():
        yield PlainConsole()
        return
    from rich.live import Live

    with Live(transient=True, refresh_per_second=8, redirect_stdout=False, redirect_stderr=False) as live:
        yield LiveConsole(live)
