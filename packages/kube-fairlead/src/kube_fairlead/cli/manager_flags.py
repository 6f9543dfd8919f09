"""The flags of leader election and of serving health and metrics, as in Kubernetes, and the manager built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kube_fairlead.base import process
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli import flag_values, shared_flags

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.election import Timing
    from kube_fairlead.manager import DelegatedAuthorizer, GroupDiscovery, GroupPlan, Manager, ServingOptions

__all__ = [
    "allowed_paths",
    "make_authorizer",
    "make_identity",
    "make_manager",
    "manager_flags",
    "run_manager",
    "serving_flags",
    "serving_options",
    "tls_flags",
]

_F = TypeVar("_F", bound=Callable[..., Any])


_TIMING = ("lease_duration", "renew_deadline", "retry_period")


def manager_flags(*, lease: str, port: int) -> Callable[[_F], _F]:
    """The flags of leader election and serving; `lease` and `port` are the defaults of the component."""
    flags = [
        shared_flags.boolean(
            "--leader-elect", default=True, text="Run the controllers only while this replica holds the Lease."
        ),
        shared_flags.period(
            "--leader-elect-lease-duration",
            "15s",
            "How long other replicas wait after the last renewal before they acquire the Lease.",
        ),
        shared_flags.period(
            "--leader-elect-renew-deadline",
            "10s",
            "How long the leader retries a failed renewal before it stops its controllers.",
        ),
        shared_flags.period(
            "--leader-elect-retry-period", "2s", "Interval between attempts to acquire or renew the Lease."
        ),
        click.option(
            "--leader-elect-resource-lock",
            type=click.Choice(["leases"]),
            default="leases",
            show_default=True,
            help="Kind of the object that is locked.",
        ),
        click.option(
            "--leader-elect-resource-name",
            default=lease,
            show_default=True,
            callback=flag_values.subdomain if lease else flag_values.optional_subdomain,
            help="Name of the Lease.",
        ),
        click.option(
            "--leader-elect-resource-namespace",
            default="kube-system",
            show_default=True,
            callback=flag_values.label,
            help="Namespace of the Lease.",
        ),
        shared_flags.period(
            "--controller-shutdown-timeout",
            "10s",
            "How long controllers may take to stop. After it, the process exits without releasing its Lease, and the "
            "next leader waits until the Lease expires.",
        ),
        serving_flags(port=port),
        shared_flags.boolean("--permit-port-sharing", default=False, text="Set SO_REUSEPORT on the listening socket."),
    ]

    def apply(command: _F) -> _F:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return apply


def serving_flags(*, port: int = 0) -> Callable[[_F], _F]:
    """Where and how health and metrics are served; `port` is the default of the component, 0: not served."""
    flags = [
        click.option(
            "--bind-address",
            default="127.0.0.1",
            show_default=True,
            callback=flag_values.bind_address,
            help="IP address on which health and metrics are served.",
        ),
        click.option(
            "--secure-port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="HTTPS port for health and metrics; 0: not served.",
        ),
        tls_flags,
    ]

    def apply(command: _F) -> _F:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return apply


def tls_flags(command: _F) -> _F:
    """The certificate of health and metrics, and the paths that need no token."""
    flags = [
        click.option(
            "--tls-cert-file",
            type=flag_values.FILE,
            help="Certificate for health and metrics.  [default: self-signed, created at start]",
        ),
        click.option("--tls-private-key-file", type=flag_values.FILE, help="Private key of --tls-cert-file."),
        click.option(
            "--cert-dir",
            type=flag_values.FOLDER,
            help="Folder for the self-signed certificate, fairlead.crt and fairlead.key.  [default: in memory]",
        ),
        allowed_paths,
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def allowed_paths(command: _F) -> _F:
    """`--authorization-always-allow-paths`: the paths that need no token."""
    return click.option(
        "--authorization-always-allow-paths",
        default="/healthz,/readyz,/livez",
        show_default=True,
        callback=flag_values.listed,
        help="Comma-separated paths that need no token; a trailing * matches any suffix. For other paths the API "
        "server authenticates the caller's token (TokenReview) and authorizes the request (SubjectAccessReview).",
    )(command)


def make_authorizer(flags: Mapping[str, Any], connect: Callable[[], Client]) -> DelegatedAuthorizer:
    """The authorizer of requests for health and metrics, from the flag of `allowed_paths`."""
    from kube_fairlead.manager import DelegatedAuthorizer

    allowed = flags["authorization_always_allow_paths"]
    for path in allowed:
        if not path.startswith("/") and path != "*":
            raise click.UsageError(f"--authorization-always-allow-paths: {path!r} must begin with / or be *")
    return DelegatedAuthorizer(connect, always_allow=allowed)


def serving_options(flags: Mapping[str, Any], connect: Callable[[], Client]) -> ServingOptions:
    """The options of serving, from the flags.

    Args:
        flags: those of `tls_flags`, and `bind_address`, `secure_port`.
        connect: creates a client of the API server that authenticates callers.
    """
    import importlib.util

    from kube_fairlead.manager import ServingOptions

    certificate, key = flags["tls_cert_file"], flags["tls_private_key_file"]
    if bool(certificate) is not bool(key):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file: set both or neither")
    if certificate:
        flag_values.check_key_pair(certificate, key)
    elif flags["secure_port"] and importlib.util.find_spec("cryptography") is None:
        raise click.UsageError(
            "--secure-port needs a certificate: set --tls-cert-file and --tls-private-key-file, install the library "
            "that creates one (pip install 'kube-fairlead[certs]'), or disable serving (--secure-port=0)"
        )
    if flags["cert_dir"] and not certificate:
        flag_values.make_folder("--cert-dir", flags["cert_dir"])
    return ServingOptions(
        bind_address=flags["bind_address"],
        port=flags["secure_port"] or None,
        certificate_file=certificate,
        key_file=key,
        self_signed=True,
        folder=flags["cert_dir"],
        authorizer=make_authorizer(flags, connect),
        share_port=flags.get("permit_port_sharing", False),
    )


def make_identity(client: Client, environment: Environment) -> str:
    """The identity for leader election. The fence can check it if the environment has POD_NAME and POD_UID."""
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
    """A manager on the real clock, from its flags.

    Raises:
        ValueError: the flags contradict each other.
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
    """Run the manager until SIGTERM. After SIGUSR1 it releases its Leases and continues as a follower."""
    process.run(manager.run, on_signal={"SIGUSR1": manager.step_down})


def _timing(flags: Mapping[str, Any]) -> Timing:
    from kube_fairlead.election import Timing

    seconds = {f"{name}_seconds": flags[f"leader_elect_{name}"] for name in _TIMING}
    try:
        return Timing(**seconds)
    except ValueError as error:
        problem = str(error)
        for name in _TIMING:
            problem = problem.replace(f"{name}_seconds", f"--leader-elect-{name.replace('_', '-')}")
        raise click.UsageError(problem) from error
