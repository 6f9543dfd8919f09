"""`fairlead controller-manager`: the cluster's controllers of Fairlead, under leader election."""

from __future__ import annotations

import datetime as dt
import pathlib
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.cli import manager_flags, options, values
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.api.scheme import Scheme
    from kube_fairlead.client import Client
    from kube_fairlead.election import Lock
    from kube_fairlead.manager import Controller, GroupPlan, Manager

__all__ = ["command"]

_COMPONENT = "fairlead-controller-manager"


@click.command("controller-manager")
@click.option("--kubeconfig", type=values.FILE, help="The kubeconfig [default: the one that kubectl would use].")
@click.option("--context", "kube_context", default="", help="The context of the kubeconfig to use.")
@click.option(
    "--controllers",
    metavar="NAME,...",
    default="*",
    show_default=True,
    callback=values.controllers,
    help="Which controllers run: '*' all that do by default, 'name' that one, '-name' not that one. "
    "There are: event-gc, transition-gc, record-gc, stall, shutdown-observer, and claimer, which is off by default.",
)
@manager_flags.workers("--concurrent-event-gc-syncs", 5, "LifecycleEvents collected at once.")
@click.option(
    "--finished-event-ttl",
    metavar="DURATION",
    default="0s",
    show_default=True,
    callback=manager_flags.duration_or_zero,
    help="How long finished LifecycleEvents are kept; set it as on the agents.",
)
@manager_flags.period(
    "--unoffered-transition-ttl", "1h", "A LifecycleTransition that no driver offers is removed after this time."
)
@manager_flags.period(
    "--record-ttl", "720h", "How long a NodeLifecycleRecord keeps what a finished LifecycleEvent came to."
)
@manager_flags.period(
    "--driver-lost-timeout",
    "10m",
    "How long an event that the claimer claimed, without an SLA, waits for an unreachable driver.",
)
@manager_flags.period("--stall-pending-after", "10m", "Report pending events as stalled after this time.")
@manager_flags.period("--stall-claimed-after", "1h", "Report claimed events without an SLA as stalled after this time.")
@manager_flags.period(
    "--stall-terminating-after", "10m", "Report deleted events with a finalizer as stalled after this time."
)
@manager_flags.period(
    "--shutdown-silence", "40s", "A node whose shutdown ended its pods counts as down when its heartbeat is this old."
)
@manager_flags.boolean(
    "--shutdown-out-of-service-taint",
    default=False,
    text="Taint nodes that are down with node.kubernetes.io/out-of-service, once their cloud says that they are off.",
)
@click.option(
    "--claimer-registry-dir",
    type=values.FOLDER,
    default=pathlib.Path("/var/lib/fairlead/plugins_registry"),
    show_default=True,
    callback=manager_flags.socket_folder,
    help="Where drivers register with claimer, which claims events of nodes that have no agent.",
)
@values.discovered_group
@click.option(
    "--leader-elect-groups",
    metavar="'GROUP=NAME,...;GROUP=...'",
    default="",
    help="Several Leases instead of one, each with its controllers; replicas share them out among themselves.",
)
@click.option(
    "--leader-elect-group-kubeconfig",
    "group_kubeconfigs",
    metavar="GROUP=FILE",
    multiple=True,
    help="Another kubeconfig for one group, so that each Lease has a service account of its own.",
)
@manager_flags.manager_flags(lease=_COMPONENT, port=10257)
@options.feature_gates
@options.logging
@click.pass_obj
def command(invocation: Invocation, /, **flags: Any) -> None:
    """Run the cluster's lifecycle controllers: clean-up, stalls, shutdowns, and events of nodes without an agent.

    One of several replicas leads and works; the others follow, ready to take over. SIGTERM ends its work in order,
    then releases its Lease; SIGUSR1 does the same and stays as a follower. Docs: leader-election.md.
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
    """One Lease for all, or several."""
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
        raise ValueError(f"--leader-elect-group-kubeconfig names {', '.join(unknown)}, which is no group")
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
    """Every controller there is."""
    from kube_fairlead.controllers.claimer import ClaimerOptions, claimer
    from kube_fairlead.controllers.event_gc import event_gc
    from kube_fairlead.controllers.record_gc import record_gc
    from kube_fairlead.controllers.shutdown_observer import shutdown_observer
    from kube_fairlead.controllers.stall import stall
    from kube_fairlead.controllers.transition_gc import transition_gc
    from kube_fairlead.lifecycle import records
    from kube_fairlead.lifecycle.facts import Settings
    from kube_fairlead.lifecycle.garbage_collection import Retention
    from kube_fairlead.lifecycle.stalls import Patience

    def length(flag: str) -> dt.timedelta:
        return dt.timedelta(seconds=flags[flag])

    patience = Patience(
        pending=length("stall_pending_after"),
        claimed=length("stall_claimed_after"),
        terminating=length("stall_terminating_after"),
    )
    settings = Settings(keep_finished=length("finished_event_ttl"), driver_lost=length("driver_lost_timeout"))
    return [
        event_gc(Retention(keep=length("finished_event_ttl")), workers=flags["concurrent_event_gc_syncs"]),
        transition_gc(length("unoffered_transition_ttl")),
        record_gc(records.Keep(entries=length("record_ttl"))),
        stall(patience),
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
            raise ValueError(f"--leader-elect-group-kubeconfig {text!r} must be written GROUP=FILE")
        if not pathlib.Path(path).exists():
            raise ValueError(f"--leader-elect-group-kubeconfig {text!r}: there is no file {path}")
        found[group.strip()] = pathlib.Path(path)
    return found
