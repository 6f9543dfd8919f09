"""What one call of the program knows before any command runs; commands get it with `@click.pass_obj`."""

from __future__ import annotations

import dataclasses

from kube_fairlead.base.environment import Environment

__all__ = ["Invocation"]


@dataclasses.dataclass(slots=True)
class Invocation:
    """The environment of the call, and whether failures show their traceback."""

    environment: Environment
    debug: bool = False
