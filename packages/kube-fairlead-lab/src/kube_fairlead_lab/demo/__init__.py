"""`fairlead demo`: what Fairlead does, shown and checked on a control plane of its own.

A scene is one module in `scenes`: it states what it proves, uses a real API server, and fails if a check fails.
`context` starts the API server that scenes use. No component code lives here: a scene uses components as users do.
"""

from __future__ import annotations

import click

from kube_fairlead.base import process
from kube_fairlead_lab.demo import scenes

__all__ = ["command"]


@click.command("demo")
@click.option(
    "--scene",
    "names",
    multiple=True,
    type=click.Choice(list(scenes.SCENES)),
    help="Run only this scene. Can be repeated.",
)
def command(*, names: tuple[str, ...]) -> None:
    """Run every feature on a temporary control plane, check the results, and exit.

    Each scene states what it proves and checks it. The exit code is 0 only if every check passes.
    """
    from kube_fairlead_lab.demo.context import play_scenes

    process.run(lambda: play_scenes([scenes.SCENES[name] for name in names or scenes.SCENES]))
