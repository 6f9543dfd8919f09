"""The flags of kubectl drain, with the same names, defaults and notation, and the selection of nodes.

Upstream: k8s.io/kubectl@v0.36.4/pkg/cmd/drain/drain.go
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kube_fairlead.base import tasks
from kube_fairlead.cli import flag_values, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = [
    "GoCommand",
    "access",
    "check_choice",
    "check_waiting",
    "connect",
    "connect_driver",
    "drain_flags",
    "drain_options",
    "go_boolean",
    "limits",
    "node_choice",
    "waiting",
]

_F = TypeVar("_F", bound=Callable[..., Any])

_ANNOUNCE_SECONDS = 3.0
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


class GoCommand(click.Command):
    """A command whose boolean flags are written as kubectl's: `--force` or `--force=false`, not `--force false`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Convert Go's booleans to click's notation before click parses them."""
        booleans = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and parameter.is_flag and parameter.secondary_opts
            for name in parameter.opts
        }
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*(_converted(one, booleans, ctx) for one in args[:end]), *args[end:]])


def _converted(argument: str, booleans: set[str], ctx: click.Context) -> str:
    name, equals, value = argument.partition("=")
    if not equals or name not in booleans:
        return argument
    if value not in _BOOLEANS:
        raise click.BadParameter(f"invalid boolean value {value!r}: must be true or false", ctx, param_hint=name)
    return name if _BOOLEANS[value] else f"--no-{name.removeprefix('--')}"


def go_boolean(name: str, *, default: bool, text: str) -> Callable[[_F], _F]:
    """A boolean flag of a `GoCommand`."""
    return click.option(
        f"{name}/--no-{name.removeprefix('--')}", default=default, help=f"{text}  [default: {str(default).lower()}]"
    )


def access(command: _F) -> _F:
    """`--kubeconfig`, `--context` and `--lifecycle-api-group`."""
    return shared_flags.cluster(shared_flags.discovered_group(command))


@contextlib.asynccontextmanager
async def connect(invocation: Invocation, flags: Mapping[str, Any], component: str) -> AsyncIterator[Client]:
    """A client of the API server of these flags, which has discovered the served group of the lifecycle kinds.

    It retries while the API server is not reachable, also the first request.
    """
    from kube_fairlead import client
    from kube_fairlead.client import lifecyclegroup, retry

    async with client.connect(
        kubeconfig_path=flags["kubeconfig"],
        context=flags["kube_context"],
        component=component,
        environment=invocation.environment,
        retry_policy=retry.PATIENT,
    ) as connected:
        async with _wait_announced(connected):
            found = await lifecyclegroup.discovered(connected, flags["lifecycle_api_group"] or "")
        yield found


def connect_driver(invocation: Invocation, flags: Mapping[str, Any], component: str) -> Client:
    """A client for a driver: it starts without the API server and discovers the served group by its first request."""
    from kube_fairlead import client
    from kube_fairlead.api.scheme import Scheme
    from kube_fairlead.client.lifecyclegroup import LateScheme

    return client.connect(
        kubeconfig_path=flags["kubeconfig"],
        context=flags["kube_context"],
        component=component,
        environment=invocation.environment,
        scheme=Scheme(flags["lifecycle_api_group"]) if flags["lifecycle_api_group"] else LateScheme(),
    )


@contextlib.asynccontextmanager
async def _wait_announced(connected: Client) -> AsyncIterator[None]:
    """Print that the command waits for the API server, after a few seconds without an answer."""

    async def announce() -> None:
        await connected.clock.sleep(_ANNOUNCE_SECONDS)
        click.echo("waiting for the API server to answer", err=True)

    async with tasks.TaskScope("first-request", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(announce(), name="announce")
        yield


def drain_flags(*, profile: bool = False) -> Callable[[_F], _F]:
    """The flags of kubectl drain; with `profile`, with the defaults of the drain driver."""
    flags = [
        go_boolean(
            "--force", default=profile, text="Continue even if there are pods that do not declare a controller."
        ),
        go_boolean("--ignore-daemonsets", default=profile, text="Ignore DaemonSet-managed pods."),
        go_boolean(
            "--delete-emptydir-data",
            default=profile,
            text="Continue even if there are pods using emptyDir (local data that will be deleted).",
        ),
        click.option(
            "--grace-period",
            type=int,
            default=-1,
            show_default=True,
            help="Seconds given to each pod to terminate gracefully; negative: the pod's "
            "terminationGracePeriodSeconds.",
        ),
        click.option(
            "--timeout",
            metavar="DURATION",
            default="0s",
            show_default=True,
            help="Time limit of the drain. After it, the drain fails and the node stays cordoned; 0s: no limit.",
        ),
        click.option(
            "--pod-selector", default="", help="Label selector of the pods to evict.  [default: all pods of the node]"
        ),
        go_boolean(
            "--disable-eviction",
            default=False,
            text="Delete pods instead of evicting them: this bypasses PodDisruptionBudgets, use with caution.",
        ),
        click.option(
            "--skip-wait-for-delete-timeout",
            type=int,
            default=0,
            show_default=True,
            help="Do not wait for pods whose deletionTimestamp is older than this number of seconds; 0: always wait.",
        ),
        click.option(
            "--priority-groups",
            metavar="PRIORITY,...",
            default="",
            help="Evict pods in groups of priority, lowest first; each value is the lowest priority of a group. A "
            "group is evicted when all pods of the groups before it are gone.  [default: one group]",
        ),
    ]
    return _all(flags)


def drain_options(flags: Mapping[str, Any]) -> DrainOptions:
    """The drain options, from the values of `drain_flags`."""
    from kube_fairlead.lifecycle.drain import options

    texts = {name: _text(flags[name.replace("-", "_")]) for name in options.spell(options.KUBECTL)}
    try:
        return options.parse(texts)
    except options.OptionError as error:
        raise click.UsageError(str(error).replace("option ", "--", 1)) from error


def node_choice(command: _F) -> _F:
    """NODE arguments and `--selector`."""
    return _all(
        [
            click.argument("nodes", nargs=-1, metavar="[NODE]...", callback=_node_names),
            click.option(
                "-l",
                "--selector",
                default="",
                callback=flag_values.selector,
                help="Label selector of the nodes, instead of NODE.",
            ),
        ]
    )(command)


_NODE_KINDS = frozenset({"node", "nodes", "no", "nodes.v1."})


def _node_names(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_node_name(ctx, parameter, text) for text in value)


def _node_name(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    """Parse NAME or TYPE/NAME. The names of the type and the errors are kubectl's."""
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = "node", text
    if "/" in name:
        raise click.BadParameter("arguments in resource/name form may not have more than one slash", ctx, parameter)
    if not kind or not name:
        problem = "arguments in resource/name form must have a single resource and name"
        raise click.BadParameter(problem if slash else "resource name may not be empty", ctx, parameter)
    if kind.lower() not in _NODE_KINDS:
        raise click.BadParameter(f"expected resource of type node, got {kind!r}", ctx, parameter)
    if name in {".", ".."} or "%" in name:
        raise click.BadParameter(f"invalid resource name {name!r}", ctx, parameter)
    return name


def check_choice(flags: Mapping[str, Any]) -> None:
    """Require names or a selector, and not both."""
    if flags["nodes"] and flags["selector"]:
        raise click.UsageError("cannot specify both a node name and a --selector option")
    if not flags["nodes"] and not flags["selector"]:
        raise click.UsageError("set NODE or --selector")


def limits(command: _F) -> _F:
    """`--max-unavailable` and `--per-zone`."""
    return _all(
        [
            click.option(
                "--max-unavailable",
                type=click.IntRange(min=1),
                default=1,
                show_default=True,
                help="Maximum number of the nodes that are drained at once. Nodes that are already cordoned or not "
                "Ready count. Further nodes wait.",
            ),
            click.option(
                "--per-zone",
                type=click.IntRange(min=0),
                default=0,
                show_default=True,
                help="Maximum number of the nodes of one zone (topology.kubernetes.io/zone) that are drained at "
                "once. Further nodes wait; 0: no limit.",
            ),
        ]
    )(command)


def waiting(command: _F) -> _F:
    """`--wait` and `--no-wait`."""
    return go_boolean("--wait", default=True, text="Wait for the end and print the progress.")(command)


def check_waiting(flags: Mapping[str, Any], *, nodes: int) -> None:
    """Reject --no-wait with limits: only a command that waits can delay nodes.

    Raises:
        click.UsageError: --no-wait is set, and the limits do not allow all nodes at once.
    """
    if flags["wait"] or nodes <= 1:
        return
    if flags["per_zone"]:
        raise click.UsageError("--no-wait requests all nodes at once, which --per-zone forbids; omit one of them")
    if flags["max_unavailable"] < nodes:
        raise click.UsageError(
            f"--no-wait requests all {nodes} nodes at once, and --max-unavailable allows {flags['max_unavailable']}; "
            f"omit --no-wait, or set --max-unavailable={nodes}"
        )


def _all(flags: list[Callable[[_F], _F]]) -> Callable[[_F], _F]:
    def apply(command: _F) -> _F:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return apply


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{int(value.total_seconds())}s" if isinstance(value, dt.timedelta) else str(value)
