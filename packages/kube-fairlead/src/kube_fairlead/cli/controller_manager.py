"""`fairlead controller-manager`: runs Fairlead's cluster controllers. See `kube_fairlead.controllers`."""

from __future__ import annotations

import datetime as dt
import pathlib
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.cli import flag_values, manager_flags, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.api.scheme import Scheme
    from kube_fairlead.client import Client
    from kube_fairlead.election import Lock
    from kube_fairlead.manager import Controller, GroupPlan, Manager

__all__ = ["command"]

_COMPONENT = "fairlead-controller-manager"


@click.command("controller-manager")
@shared_flags.cluster
@click.option(
    "--controllers",
    metavar="NAME,...",
    default="*",
    show_default=True,
    callback=flag_values.controllers,
    help="Controllers to run: NAME, -NAME to disable one, * for the default ones. Names: event-gc, transition-gc, "
    "record-gc, stall, shutdown-observer, and claimer, which is disabled by default.",
)
@shared_flags.workers("--concurrent-event-gc-syncs", 5, "Number of LifecycleEvents that event-gc handles concurrently.")
@click.option(
    "--finished-event-ttl",
    metavar="DURATION",
    default="0s",
    show_default=True,
    callback=flag_values.duration_or_zero,
    help="How long finished LifecycleEvents are kept. Set the same value for the agents: event-gc deletes what they "
    "have not deleted ten minutes after this time.",
)
@shared_flags.period(
    "--unoffered-transition-ttl",
    "1h",
    "How long a LifecycleTransition that no driver offers is kept before transition-gc deletes it.",
)
@shared_flags.period(
    "--record-ttl", "720h", "How long a NodeLifecycleRecord keeps the result of a finished LifecycleEvent."
)
@shared_flags.period(
    "--driver-lost-timeout",
    "10m",
    "How long an event of the claimer without an SLA waits for an unreachable driver. After it, the event is set to "
    "Failed.",
)
@shared_flags.period("--stall-pending-after", "10m", "Report pending events as stalled after this time.")
@shared_flags.period("--stall-claimed-after", "1h", "Report claimed events without an SLA as stalled after this time.")
@shared_flags.period(
    "--stall-terminating-after", "10m", "Report deleted events with a finalizer as stalled after this time."
)
@shared_flags.period(
    "--shutdown-silence",
    "40s",
    "Age of the last heartbeat at which a node that terminated its pods for a shutdown counts as shut down.",
)
@shared_flags.boolean(
    "--shutdown-out-of-service-taint",
    default=False,
    text="Taint nodes that are shut down with node.kubernetes.io/out-of-service, once their cloud reports them as off. "
    "Kubernetes then deletes their pods and detaches their volumes.",
)
@click.option(
    "--claimer-registry-dir",
    type=flag_values.FOLDER,
    default=pathlib.Path("/var/lib/fairlead/plugins_registry"),
    show_default=True,
    callback=flag_values.socket_folder,
    help="Folder in which drivers register with the claimer, which claims events of nodes without an agent.",
)
@shared_flags.discovered_group
@click.option(
    "--leader-elect-groups",
    metavar="'GROUP=NAME,...;GROUP=...'",
    default="",
    help="Use one Lease for each group of controllers instead of one for all. The replicas distribute the groups among "
    "themselves.  [default: one group]",
)
@click.option(
    "--leader-elect-group-kubeconfig",
    "group_kubeconfigs",
    metavar="GROUP=FILE",
    multiple=True,
    help="Kubeconfig of one group, so that each group has its own service account. May be repeated.  [default: "
    "--kubeconfig]",
)
@manager_flags.manager_flags(lease=_COMPONENT, port=10257)
@shared_flags.feature_gates
@shared_flags.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Run Fairlead's cluster controllers, such as the garbage collection of LifecycleEvents.

    Of several replicas, the leader runs the controllers; the others wait for its Lease. SIGTERM stops the controllers
    in order and releases the Lease. SIGUSR1 does the same, and the process continues as a follower. Docs:
    leader-election.md.
    """
    try:
        manager = _manager(invocation, flags)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    manager_flags.run_manager(manager)


def _manager(invocation: Invocation, flags: dict[str, Any]) -> Manager:
    from kube_fairlead.manager import GroupDiscovery, SelectionError, select

    built = {controller.name: controller for controller in _controllers(flags)}
    try:
        names = select(flags["controllers"], known={name: one.default for name, one in built.items()})
    except SelectionError as error:
        raise click.BadParameter(str(error), param_hint="--controllers") from error
    discovery = GroupDiscovery(flags["lifecycle_api_group"] or "")
    plans = _plans(invocation, flags, [built[name] for name in names], discovery.scheme)
    identity = manager_flags.make_identity(plans[0].connect(), invocation.environment)
    return manager_flags.make_manager(flags, component=_COMPONENT, identity=identity, groups=plans, discovery=discovery)


def _plans(
    invocation: Invocation, flags: dict[str, Any], controllers: list[Controller], scheme: Scheme
) -> list[GroupPlan]:
    """The groups of controllers, each with its Lease."""
    from kube_fairlead.election import Lock
    from kube_fairlead.manager import SelectionError, parse_groups

    namespace, lease = flags["leader_elect_resource_namespace"], flags["leader_elect_resource_name"]
    kubeconfigs = _group_kubeconfigs(flags["group_kubeconfigs"])
    if not flags["leader_elect_groups"]:
        groups = {"": controllers}
    else:
        by_name = {controller.name: controller for controller in controllers}
        try:
            named = parse_groups(flags["leader_elect_groups"], running=list(by_name))
        except SelectionError as error:
            raise click.BadParameter(str(error), param_hint="--leader-elect-groups") from error
        groups = {group: [by_name[name] for name in names] for group, names in named.items()}
    if unknown := sorted(set(kubeconfigs) - set(groups)):
        raise ValueError(f"--leader-elect-group-kubeconfig: no group {', '.join(unknown)} in --leader-elect-groups")
    return [
        _plan(
            invocation,
            flags,
            Lock(namespace, f"{lease}-{group}" if group else lease),
            members,
            kubeconfigs.get(group, flags["kubeconfig"]),
            scheme,
        )
        for group, members in groups.items()
    ]


def _controllers(flags: dict[str, Any]) -> list[Controller]:
    """All controllers, in the order of help."""
    from kube_fairlead.controllers.claimer import ClaimerOptions, claimer
    from kube_fairlead.controllers.event_gc import event_gc
    from kube_fairlead.controllers.record_gc import record_gc
    from kube_fairlead.controllers.shutdown_observer import shutdown_observer
    from kube_fairlead.controllers.stall import stall
    from kube_fairlead.controllers.transition_gc import transition_gc
    from kube_fairlead.lifecycle import records
    from kube_fairlead.lifecycle.facts import Settings
    from kube_fairlead.lifecycle.garbage_collection import Retention
    from kube_fairlead.lifecycle.stalls import StallLimits

    def length(flag: str) -> dt.timedelta:
        return dt.timedelta(seconds=flags[flag])

    limits = StallLimits(
        pending=length("stall_pending_after"),
        claimed=length("stall_claimed_after"),
        terminating=length("stall_terminating_after"),
    )
    settings = Settings(keep_finished=length("finished_event_ttl"), driver_lost=length("driver_lost_timeout"))
    return [
        event_gc(Retention(keep=length("finished_event_ttl")), workers=flags["concurrent_event_gc_syncs"]),
        transition_gc(length("unoffered_transition_ttl")),
        record_gc(records.RecordRetention(entries=length("record_ttl"))),
        stall(limits),
        shutdown_observer(silence=length("shutdown_silence"), out_of_service=flags["shutdown_out_of_service_taint"]),
        claimer(ClaimerOptions(registry=flags["claimer_registry_dir"], settings=settings)),
    ]


def _plan(
    invocation: Invocation,
    flags: dict[str, Any],
    lock: Lock,
    controllers: list[Controller],
    kubeconfig: pathlib.Path | None,
    scheme: Scheme,
) -> GroupPlan:
    from kube_fairlead import client
    from kube_fairlead.manager import GroupPlan

    def connect() -> Client:
        return client.connect(
            kubeconfig_path=kubeconfig,
            context=flags["kube_context"],
            component=_COMPONENT,
            environment=invocation.environment,
            scheme=scheme,
        )

    return GroupPlan(lock=lock, controllers=tuple(controllers), connect=connect)


def _group_kubeconfigs(given: tuple[str, ...]) -> dict[str, pathlib.Path]:
    found = {}
    for text in given:
        group, separator, path = text.partition("=")
        if not separator or not path:
            raise ValueError(f"--leader-elect-group-kubeconfig: must be GROUP=FILE, got {text!r}")
        if not pathlib.Path(path).exists():
            raise ValueError(f"--leader-elect-group-kubeconfig: file {path} does not exist, got {text!r}")
        found[group.strip()] = pathlib.Path(path)
    return found
