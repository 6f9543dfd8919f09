from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.live import Live

from kube_fairlead.cli.nodes import console as consoles


def test_lines_for_a_file_are_written_when_something_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with consoles.open_console() as screen:
        screen.say("asked")
        for text in ("0/2", "0/2", "1/2", ""):
            screen.status("n", text)
        screen.warn("careful")
    assert isinstance(screen, consoles.PlainConsole)
    captured = capsys.readouterr()
    assert captured.out == "asked\nnode/n: 0/2\nnode/n: 1/2\n"
    assert captured.err == "careful\n"


def test_a_terminal_keeps_what_stays_and_writes_over_the_rest() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, color_system=None)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        screen = consoles.LiveConsole(live)
        screen.say("node/a: asked [for]")
        screen.status("a", "0/2 pods gone")
        screen.status("b", "claimed")
        live.refresh()
        shown = written.getvalue()
        assert "node/a: 0/2 pods gone\nnode/b: claimed" in shown
        screen.status("a", "")
        live.refresh()
        assert "node/a" not in written.getvalue()[len(shown) :]
    assert "node/a: asked [for]" in written.getvalue()
