"""Options that several commands share, spelt and explained once. Upstream's name and default where it has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kube_fairlead.base import gates

if TYPE_CHECKING:
    from kube_fairlead.base import logs

__all__ = ["duration", "feature_gates", "log_to", "logging", "optional_duration"]

_F = TypeVar("_F", bound=Callable[..., Any])

_CONFIGURED = f"{__name__}.configured"
_DEBUG_FROM = 4  # Kubernetes' -v=4 is "debug level verbosity"


class _Verbosity(click.IntRange):
    """A number that may be spelt `-v=4`, as Kubernetes' manifests do, and not only `-v 4`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number: Any = value.removeprefix("=") if isinstance(value, str) else value
        return super().convert(number, param, ctx)


def duration(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    """A callback for durations in Go's spelling (1m30s); the command gets seconds."""
    from kube_fairlead.api.time import parse_duration

    try:
        seconds = parse_duration(value).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    if seconds <= 0:
        raise click.BadParameter("must be positive, such as 90s or 5m", ctx, parameter)
    return seconds


def optional_duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A callback for durations that need not be given."""
    return None if value is None else duration(ctx, parameter, value)


def feature_gates(command: _F) -> _F:
    """`--feature-gates`: the command gets a `gates.FeatureGates` as `feature_gates`."""
    return click.option(
        "--feature-gates",
        metavar="NAME=true|false,...",
        default="",
        callback=_parse_gates,
        help=f"Switch features on or off. All are on by default: {', '.join(gate.name for gate in gates.GATES)}.",
    )(command)


def logging(command: _F) -> _F:
    """`--logging-format` and `-v`: sets up the log lines of this process; the command gets nothing."""
    with_format = click.option(
        "--logging-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=_remember_format,
        help="How log lines look on standard error.",
    )
    with_verbosity = click.option(
        "-v",
        "--v",
        "verbosity",
        type=_Verbosity(min=0),
        default=0,
        show_default=True,
        expose_value=False,
        callback=_configure_logs,
        help=f"How much to log; {_DEBUG_FROM} and more is for debugging.",
    )
    return with_format(with_verbosity(command))


def log_to(ctx: click.Context, stream: logs.Stream) -> None:
    """Write log lines there instead of to standard error, as `--logging-format` and `-v` say."""
    from kube_fairlead.base import logs

    logs.configure(**ctx.meta[_CONFIGURED], stream=stream)


def _parse_gates(ctx: click.Context, parameter: click.Parameter, value: str) -> gates.FeatureGates:
    try:
        return gates.FeatureGates.parse(value)
    except gates.GateError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error


def _remember_format(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    del parameter
    ctx.meta[__name__] = value
    return value


def _configure_logs(ctx: click.Context, parameter: click.Parameter, value: int) -> None:
    del parameter
    from kube_fairlead.base import logs

    ctx.meta[_CONFIGURED] = {
        "output": "json" if ctx.meta[__name__] == "json" else "human",
        "level": "DEBUG" if value >= _DEBUG_FROM else "INFO",
    }
    logs.configure(**ctx.meta[_CONFIGURED])
