"""Invariant 6: pods are evicted or deleted only by uid, and never against the filters of a drain.

The filters are repeated here for the simulated pods, so that a bug in the product's filters is found.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from kube_fairlead.api.reserved import DRIVER_DRAIN
from kube_fairlead.client.transport import Request
from kube_fairlead_lab.sim.commits import EVENTS, PODS, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Evictions"]

_POD_PATH: Final = re.compile(r"^/api/v1/namespaces/([^/]+)/pods/([^/]+)(/eviction)?$")
_MIRROR: Final = "kubernetes.io/config.mirror"


class Evictions:
    """Checks every eviction and deletion of a pod when it is sent."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        environment.network.on_request.append(self._sent)

    def _sent(self, party: str, request: Request) -> None:
        if request.method not in {"DELETE", "POST"} or party == "user":
            return
        found = _POD_PATH.match(request.path)
        if found is None or (request.method == "POST") != (found[3] is not None):
            return
        body: dict[str, Any] = msgspec.json.decode(request.body) if request.body else {}
        options = body.get("deleteOptions", {}) if found[3] else body
        uid = options.get("preconditions", {}).get("uid")
        key = f"{found[1]}/{found[2]}"
        if not uid:
            self._environment.violate(Violation("6", f"{party} asks to remove pod {key} without its uid"))
            return
        if party.startswith("drain-") and not found[3]:
            self._environment.violate(Violation("6", f"{party} deletes pod {key}, which bypasses budgets"))
        if party.startswith("drain-"):
            self._environment.counts["evictions"] += 1
            self._check(party.removeprefix("drain-"), key, uid)

    def _check(self, node: str, key: str, uid: str) -> None:
        pod = self._commits.of(PODS).get(key)
        if pod is None or pod["metadata"]["uid"] != uid:
            return  # the pod is gone, and the uid protects another pod with the same name
        if pod["spec"].get("nodeName") != node:
            self._environment.violate(Violation("6", f"the drain of {node} evicts {key}, which is on another node"))
        refused = _refused(pod, self._options(node))
        if refused:
            self._environment.violate(Violation("6", f"the drain of {node} evicts {key}, {refused}"))

    def _options(self, node: str) -> dict[str, str]:
        for event in self._commits.of(EVENTS).values():
            status = event.get("status", {})
            if (
                event["spec"]["bindingNode"] == node
                and status.get("driver") == DRIVER_DRAIN
                and status.get("claimStatus") == "Claimed"
            ):
                options: dict[str, str] = status.get("options", {})
                return options
        return {}


def _refused(pod: dict[str, Any], options: dict[str, str]) -> str:
    metadata = pod["metadata"]
    owner = next((one["kind"] for one in metadata.get("ownerReferences", ()) if one.get("controller")), "")
    finished = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    if _MIRROR in metadata.get("annotations", {}):
        return "which is a static pod"
    if finished:
        return ""
    if owner == "DaemonSet":
        return "which belongs to a DaemonSet"
    if not owner and options.get("force") == "false":
        return "which has no controller"
    has_data = any("emptyDir" in volume for volume in pod["spec"].get("volumes", ()))
    if has_data and options.get("delete-emptydir-data") == "false":
        return "which has local data"
    return ""
