"""`fairlead demo`: the story of Fairlead, told on a control plane of its own, checked as it is told.

A scene is one module in `scenes`: it says what it proves, does it against a real server, and fails when it is not so.
`context` brings up what scenes play on. What a component does never lives here; a scene only uses it as a user would.
"""

from __future__ import annotations

import click

from kube_fairlead.cli import process
from kube_fairlead_lab.demo import scenes

__all__ = ["command"]


@click.command("demo")
@click.option(
    "--scene",
    "names",
    multiple=True,
    type=click.Choice(list(scenes.SCENES)),
    help="Play only this scene; may be given several times.",
)
def command(*, names: tuple[str, ...]) -> None:
    """Show what Fairlead does, on a control plane of its own; ends by itself.

    Every scene states what it proves and checks it; the exit code is 0 only when all of them held.
    """
    from kube_fairlead_lab.demo.context import play_scenes

    process.run(lambda: play_scenes([scenes.SCENES[name] for name in names or scenes.SCENES]))
