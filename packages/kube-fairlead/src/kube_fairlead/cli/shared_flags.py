"""Flags that several commands have, each defined once, with the names and defaults of Kubernetes where it has them.

`flag_values` checks their values. `manager_flags` has the flags of leader election and serving, `nodes.node_flags`
those of the commands that act on nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kube_fairlead.base import gates
from kube_fairlead.cli import flag_values

if TYPE_CHECKING:
    from kube_fairlead.base import logs

__all__ = [
    "boolean",
    "cluster",
    "discovered_group",
    "feature_gates",
    "installed_group",
    "lifecycle_group",
    "log_to",
    "logging",
    "period",
    "workers",
]

_F = TypeVar("_F", bound=Callable[..., Any])

_CONFIGURED = f"{__name__}.configured"
_DEBUG_FROM = 4  # Kubernetes' -v=4 is "debug level verbosity"


class _Verbosity(click.IntRange):
    """A number that may be written `-v=4`, as in Kubernetes' manifests, or `-v 4`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number: Any = value.removeprefix("=") if isinstance(value, str) else value
        return super().convert(number, param, ctx)


def boolean(name: str, *, default: bool, text: str) -> Callable[[_F], _F]:
    """A flag that may be written `--flag`, `--flag=true` or `--flag=false`, as in Kubernetes."""
    return click.option(
        name, type=click.BOOL, is_flag=False, flag_value=True, default=default, show_default=True, help=text
    )


def period(name: str, default: str, text: str) -> Callable[[_F], _F]:
    """A flag with a duration in Go's notation; the command gets seconds."""
    return click.option(
        name, metavar="DURATION", default=default, show_default=True, callback=flag_values.duration, help=text
    )


def workers(name: str, default: int, text: str) -> Callable[[_F], _F]:
    """A flag with a number of concurrent workers, at least 1."""
    return click.option(name, type=click.IntRange(min=1), default=default, show_default=True, help=text)


def cluster(command: _F) -> _F:
    """`--kubeconfig` and `--context`: the API server to connect to."""
    with_context = click.option(
        "--context", "kube_context", default="", help="Context of the kubeconfig.  [default: its current context]"
    )(command)
    return click.option("--kubeconfig", type=flag_values.FILE, help="Kubeconfig file.  [default: as for kubectl]")(
        with_context
    )


def lifecycle_group(command: _F) -> _F:
    """`--lifecycle-api-group` of the API server, which serves one of the two groups."""
    from kube_fairlead.api import reserved

    return _lifecycle_group(
        "API group of LifecycleTransition and LifecycleEvent.", default=reserved.LIFECYCLE_GROUP, show_default=True
    )(command)


def discovered_group(command: _F) -> _F:
    """`--lifecycle-api-group` of a command that discovers which group the API server serves."""
    return _lifecycle_group(
        "API group of LifecycleTransition and LifecycleEvent.  [default: the one that the API server serves]"
    )(command)


def installed_group(command: _F) -> _F:
    """`--lifecycle-api-group` of the command that installs the kinds. To remove them it discovers the group."""
    from kube_fairlead.api import reserved

    return _lifecycle_group(
        f"API group of LifecycleTransition and LifecycleEvent.  [default: {reserved.LIFECYCLE_GROUP}; with "
        "--uninstall: the one that the API server serves]"
    )(command)


def _lifecycle_group(text: str, *, default: str | None = None, show_default: bool = False) -> Callable[[_F], _F]:
    from kube_fairlead.api import reserved

    return click.option(
        "--lifecycle-api-group",
        type=click.Choice([reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE]),
        default=default,
        show_default=show_default,
        help=text,
    )


def feature_gates(command: _F) -> _F:
    """`--feature-gates`: the command gets a `gates.FeatureGates` as `feature_gates`."""
    return click.option(
        "--feature-gates",
        metavar="NAME=true|false,...",
        default="",
        callback=_parse_gates,
        help=f"Enable or disable features. All are enabled by default: {', '.join(gate.name for gate in gates.GATES)}.",
    )(command)


def logging(command: _F) -> _F:
    """`--logging-format` and `-v`: configures the logs of this process; the command gets no value."""
    with_format = click.option(
        "--logging-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=_remember_format,
        help="Format of log lines, which are written to standard error.",
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
        help=f"Log level; {_DEBUG_FROM} and above adds debug messages.",
    )
    return with_format(with_verbosity(command))


def log_to(ctx: click.Context, stream: logs.Stream) -> None:
    """Write log lines to `stream` instead of standard error, with the format and level of the flags."""
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
