"""Mutants of the cloud controllers, budgets, and nodes that shut down during other work."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from typing import Any

import pytest

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.cloud import answers, calls, confirmation, context, node_writer, ownership
from kube_fairlead.cloud.controllers import node as node_controller
from kube_fairlead.cloud.controllers import nodelifecycle
from kube_fairlead.cloud.decisions import initialisation, lifecycle, routes, services
from kube_fairlead.controllers import claimer
from kube_fairlead.lifecycle import claims, conditions
from kube_fairlead_apiserver.subresources import eviction
from tests.sim.mutants.registry import mutant


@mutant("node deletions", seed=3)
def believes_that_what_is_left_out_is_gone(patch: pytest.MonkeyPatch) -> None:
    """The manager does not ask the cloud about the machine before it deletes the node."""

    async def all_of_them(_self: object, nodes: Iterable[Node]) -> set[str]:
        return {node.spec.provider_id for node in nodes}

    patch.setattr(context.CloudContext, "which_are_gone", all_of_them)


@mutant("node deletions")
def leaves_nodes_without_machines(patch: pytest.MonkeyPatch) -> None:
    async def none(*_args: object) -> None:
        """No node is deleted."""

    patch.setattr(nodelifecycle.NodeLifecycleController, "_delete", none)


@mutant("node deletions", "no crash")
def takes_a_providers_word_as_it_comes(patch: pytest.MonkeyPatch) -> None:
    """Every false value counts as False, without validation of the answer."""
    patch.setattr(
        answers,
        "promise_of",
        lambda method: lambda value, _where: value or {"exists": False}.get(method.__name__, value),
    )


@mutant("no crash")
def lets_a_providers_exceptions_through(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "faults_of", lambda _name: contextlib.nullcontext())


@mutant("8")
def takes_an_annotation_for_a_proof(patch: pytest.MonkeyPatch) -> None:
    """Labels, taints and routes for every node that claims to be of this cloud."""

    def owned(node: Node, platforms: Collection[str]) -> bool:
        return ownership.ownership(node, platforms) is ownership.Ownership.OWNED

    for module in (confirmation, initialisation, lifecycle, node_controller, ownership, routes, services, node_writer):
        if hasattr(module, "owned_by_id"):
            patch.setattr(module, "owned_by_id", owned)


@mutant("8")
def routes_to_nodes_that_the_cloud_does_not_know(patch: pytest.MonkeyPatch) -> None:
    """Routes without a confirmation of the cloud; the nodes themselves are not changed."""

    def owned(node: Node, platforms: Collection[str]) -> bool:
        return ownership.ownership(node, platforms) is ownership.Ownership.OWNED

    patch.setattr(routes, "owned_by_id", owned)
    patch.setattr(confirmation.Confirmations, "has", lambda _self, _node: True)


@mutant("budgets")
def evicts_past_the_budget(patch: pytest.MonkeyPatch) -> None:
    async def free(*_args: object) -> bool:
        return True

    patch.setattr(eviction, "_check_budget", free)


@mutant("budgets")
def spends_a_budget_that_is_empty(patch: pytest.MonkeyPatch) -> None:
    spend = eviction._record_disruption

    def generously(budget: dict[str, Any], name: str, now: str) -> None:
        budget["status"]["disruptionsAllowed"] = max(1, budget["status"].get("disruptionsAllowed", 0))
        spend(budget, name, now)

    patch.setattr(eviction, "_record_disruption", generously)


@mutant("10", "2", seed=4)
def believes_no_node_that_goes_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conditions, "going_down_until", lambda _node: None)


@mutant("5")
def claims_in_the_name_of_a_nodes_agent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claimer, "_CLAIMANT", claims.node_claimant("island"))
