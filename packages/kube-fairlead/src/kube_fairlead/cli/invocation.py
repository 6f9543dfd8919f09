"""The context of one run of the program; commands get it by `@click.pass_obj`."""

from __future__ import annotations

import dataclasses

from kube_fairlead.base.environment import Environment

__all__ = ["Invocation"]


@dataclasses.dataclass(slots=True)
class Invocation:
    """The environment variables of the process, and whether a failure prints its traceback."""

    environment: Environment
    debug: bool = False
