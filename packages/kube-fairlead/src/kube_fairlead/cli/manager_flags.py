"""What every command that runs a manager shares: upstream's flags for election and serving, and their meaning."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kube_fairlead.base import process
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli import options, values

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.election import Timing
    from kube_fairlead.manager import DelegatedAuthorizer, GroupDiscovery, GroupPlan, Manager, ServingOptions

__all__ = [
    "allowed_paths",
    "boolean",
    "duration_or_zero",
    "gatekeeper",
    "listed",
    "make_identity",
    "make_manager",
    "manager_flags",
    "optional_socket_folder",
    "period",
    "run_manager",
    "serving_flags",
    "serving_options",
    "socket_folder",
    "tls_flags",
    "workers",
]

_F = TypeVar("_F", bound=Callable[..., Any])


_TIMING = ("lease_duration", "renew_deadline", "retry_period")


def boolean(name: str, *, default: bool, text: str) -> Callable[[_F], _F]:
    """As upstream's: `--flag`, `--flag=true` and `--flag=false`."""
    return click.option(
        name, type=click.BOOL, is_flag=False, flag_value=True, default=default, show_default=True, help=text
    )


def period(name: str, default: str, text: str) -> Callable[[_F], _F]:
    """A duration in Go's spelling; the command gets seconds."""
    return click.option(name, default=default, show_default=True, callback=options.duration, help=text)


def duration_or_zero(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    """A callback for durations in Go's spelling that may also be 0; the command gets seconds."""
    return 0.0 if value in {"0", "0s"} else options.duration(ctx, parameter, value)


def workers(name: str, default: int, text: str) -> Callable[[_F], _F]:
    """How many at once."""
    return click.option(name, type=click.IntRange(min=1), default=default, show_default=True, help=text)


def listed(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """A callback for names with commas between them."""
    del ctx, parameter
    return tuple(part.strip() for part in value.split(",") if part.strip())


def socket_folder(ctx: click.Context, parameter: click.Parameter, value: pathlib.Path) -> pathlib.Path:
    """A callback for a folder that sockets are to be in: a path that leaves no room for their names is refused."""
    from kube_fairlead.driverapi import socket_addresses

    try:
        socket_addresses.check_folder(value, flag=parameter.opts[0])
    except socket_addresses.AddressTooLong as error:
        raise click.UsageError(str(error), ctx) from error
    return value


def optional_socket_folder(
    ctx: click.Context, parameter: click.Parameter, value: pathlib.Path | None
) -> pathlib.Path | None:
    """A callback for such a folder that need not be given."""
    return None if value is None else socket_folder(ctx, parameter, value)


def manager_flags(*, lease: str, port: int) -> Callable[[_F], _F]:
    """The flags of election and serving; `lease` and `port` are this component's own."""
    flags = [
        boolean("--leader-elect", default=True, text="Run the controllers only while this replica holds the Lease."),
        period("--leader-elect-lease-duration", "15s", "How long others wait after the last renewal."),
        period("--leader-elect-renew-deadline", "10s", "How long a leader retries a renewal before it stops leading."),
        period("--leader-elect-retry-period", "2s", "How often candidates try to acquire or renew the Lease."),
        click.option(
            "--leader-elect-resource-lock",
            type=click.Choice(["leases"]),
            default="leases",
            show_default=True,
            help="The kind of the lock object.",
        ),
        click.option(
            "--leader-elect-resource-name",
            default=lease,
            show_default=True,
            callback=values.subdomain if lease else values.optional_subdomain,
            help="The name of the Lease.",
        ),
        click.option(
            "--leader-elect-resource-namespace",
            default="kube-system",
            show_default=True,
            callback=values.label,
            help="The namespace of the Lease.",
        ),
        period(
            "--controller-shutdown-timeout",
            "10s",
            "How long controllers may take to end when asked; then the process ends without releasing its Lease.",
        ),
        serving_flags(port=port),
        boolean("--permit-port-sharing", default=False, text="Set SO_REUSEPORT on the listening socket."),
    ]

    def apply(command: _F) -> _F:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return apply


def serving_flags(*, port: int = 0) -> Callable[[_F], _F]:
    """Where and how health and metrics are served, and to whom; `port` is this component's own, 0: none."""
    flags = [
        click.option(
            "--bind-address",
            default="127.0.0.1",
            show_default=True,
            callback=values.bind_address,
            help="Where health and metrics are served.",
        ),
        click.option(
            "--secure-port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="The port for health and metrics; 0: none.",
        ),
        tls_flags,
    ]

    def apply(command: _F) -> _F:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return apply


def tls_flags(command: _F) -> _F:
    """How health and metrics are served, and to whom; upstream's flags."""
    flags = [
        click.option(
            "--tls-cert-file",
            type=values.FILE,
            help="Serve health and metrics with this certificate [default: a self-signed one, made at start].",
        ),
        click.option("--tls-private-key-file", type=values.FILE, help="The private key of --tls-cert-file."),
        click.option(
            "--cert-dir",
            type=values.FOLDER,
            help="The folder for the self-signed certificate, fairlead.crt and fairlead.key [default: in memory].",
        ),
        allowed_paths,
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def allowed_paths(command: _F) -> _F:
    """To whom what is served without a token; upstream's flag."""
    return click.option(
        "--authorization-always-allow-paths",
        default="/healthz,/readyz,/livez",
        show_default=True,
        callback=listed,
        help="Paths that need no token, separated by commas; a trailing star matches any rest. For other paths the "
        "API server authenticates the caller's token (TokenReview) and authorizes the request (SubjectAccessReview).",
    )(command)


def gatekeeper(flags: Mapping[str, Any], connect: Callable[[], Client]) -> DelegatedAuthorizer:
    """Who asks the API server who calls, by the flag of `allowed_paths`."""
    from kube_fairlead.manager import DelegatedAuthorizer

    allowed = flags["authorization_always_allow_paths"]
    for path in allowed:
        if not path.startswith("/") and path != "*":
            raise click.UsageError(f"--authorization-always-allow-paths: {path!r} must begin with a slash, or be *")
    return DelegatedAuthorizer(connect, always_allow=allowed)


def serving_options(flags: Mapping[str, Any], connect: Callable[[], Client]) -> ServingOptions:
    """What is served where, and to whom.

    Args:
        flags: those of `tls_flags`, and `bind_address`, `secure_port`.
        connect: a way to the API server that is asked who calls.
    """
    import importlib.util

    from kube_fairlead.manager import ServingOptions

    certificate, key = flags["tls_cert_file"], flags["tls_private_key_file"]
    if bool(certificate) is not bool(key):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file: set both or neither")
    if certificate:
        values.check_key_pair(certificate, key)
    elif flags["secure_port"] and importlib.util.find_spec("cryptography") is None:
        raise click.UsageError(
            "--secure-port: a certificate is needed; name one (--tls-cert-file, --tls-private-key-file), have one made "
            "(pip install 'kube-fairlead[certs]'), or serve nothing (--secure-port=0)"
        )
    if flags["cert_dir"] and not certificate:
        values.make_folder("--cert-dir", flags["cert_dir"])
    return ServingOptions(
        bind_address=flags["bind_address"],
        port=flags["secure_port"] or None,
        certificate_file=certificate,
        key_file=key,
        self_signed=True,
        folder=flags["cert_dir"],
        authorizer=gatekeeper(flags, connect),
        share_port=flags.get("permit_port_sharing", False),
    )


def make_identity(client: Client, environment: Environment) -> str:
    """The name to campaign under. POD_NAME and POD_UID in the environment make it one that the fence can check."""
    from kube_fairlead.election import new_identity

    return new_identity(client, host=environment.get("POD_NAME") or "", pod_uid=environment.get("POD_UID") or "")


def make_manager(
    flags: Mapping[str, Any],
    *,
    component: str,
    identity: str,
    groups: Sequence[GroupPlan],
    discovery: GroupDiscovery | None = None,
) -> Manager:
    """A manager on the real clock, by its flags.

    Raises:
        ValueError: the flags do not fit together.
    """
    from kube_fairlead.base.clock import RealClock
    from kube_fairlead.base.metrics import PrometheusMetrics
    from kube_fairlead.base.randomness import SystemRandomness
    from kube_fairlead.manager import Manager, ManagerOptions

    return Manager(
        ManagerOptions(
            component=component,
            identity=identity,
            groups=tuple(groups),
            leader_elect=flags["leader_elect"],
            timing=_timing(flags),
            shutdown_timeout_seconds=flags["controller_shutdown_timeout"],
            serving=serving_options(flags, groups[0].connect),
            gates=flags["feature_gates"],
            discovery=discovery,
        ),
        clock=RealClock(),
        randomness=SystemRandomness(),
        metrics=PrometheusMetrics(process_metrics=True),
    )


def run_manager(manager: Manager) -> None:
    """Run it as this process: SIGTERM stops it in order, SIGUSR1 makes it let others lead and stay."""
    process.run(manager.run, on_signal={"SIGUSR1": manager.step_down})


def _timing(flags: Mapping[str, Any]) -> Timing:
    from kube_fairlead.election import Timing

    seconds = {f"{name}_seconds": flags[f"leader_elect_{name}"] for name in _TIMING}
    try:
        return Timing(**seconds)
    except ValueError as error:
        said = str(error)
        for name in _TIMING:
            said = said.replace(f"{name}_seconds", f"--leader-elect-{name.replace('_', '-')}")
        raise click.UsageError(said) from error
