"""The objects that a binding gives to its policy as `params`.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/generic/policy_dispatcher.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/generic/policy_source.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_fairlead.api import selectors
from kube_fairlead.api.gvk import GroupVersion
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.selection import Selection

if TYPE_CHECKING:
    from kube_fairlead_apiserver.admission.policies.compilation import Policy, PolicyBinding

__all__ = ["Parameters", "PolicyUnusable"]

_KEPT = 256


class PolicyUnusable(Exception):
    """The policy cannot be evaluated: it is incomplete, or its parameters do not exist."""


class Parameters:
    """Reads the current parameters: a change applies to the next write."""

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        # Decoded parameters by place; valid while the stored entry is the same.
        self._decoded: dict[tuple[str, str], tuple[Entry, Json]] = {}

    def resource(self, policy: Policy) -> Resource | None:
        """Return the resource of a policy's paramKind; None for a policy without one."""
        if policy.param_kind is None:
            return None
        api_version, kind = policy.param_kind
        found = self._objects.catalog.of_kind(api_version, kind)
        if found is None:
            group_version = GroupVersion.parse(api_version)
            shown = f"{group_version.group}/{group_version.version}, Kind={kind}"
            raise PolicyUnusable(f"failed to find resource referenced by paramKind: '{shown}'")
        return found

    def collect(self, resource: Resource | None, binding: PolicyBinding, namespace: str) -> list[Json | None]:
        """Return the parameters to evaluate the policy with, one evaluation for each.

        None for a policy without parameters.
        """
        reference = binding.param_ref
        if resource is None or reference is None:
            return [None]
        where = _namespace(resource, reference, namespace)
        if reference.get("name"):
            found = self._get(resource, where, reference["name"])
            chosen = [] if found is None else [found]
        else:
            try:
                labels = selectors.label_selector_from(reference.get("selector"))
            except selectors.SelectorError as error:
                raise PolicyUnusable(str(error)) from error
            chosen = list(self._objects.list(resource, Selection(namespace=where, labels=labels)))
        if not chosen and reference.get("parameterNotFoundAction") == "Deny":
            raise PolicyUnusable("no params found for policy binding with `Deny` parameterNotFoundAction")
        return list(chosen)

    def _get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        key = resource.key(namespace, name)
        entry = self._objects.entry(resource.table, key)
        place = (f"{resource.api_version}/{resource.plural}", key)
        if entry is None:
            self._decoded.pop(place, None)
            return None
        known = self._decoded.get(place)
        if known is None or known[0] is not entry:
            if len(self._decoded) >= _KEPT:
                self._decoded.clear()
            known = self._decoded[place] = (entry, resource.decode(entry))
        return known[1]


def _namespace(resource: Resource, reference: Json, request_namespace: str) -> str:
    asked = reference.get("namespace") or ""
    if not resource.namespaced:
        if asked:
            raise PolicyUnusable("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not asked and not request_namespace:
        raise PolicyUnusable("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    return asked or request_namespace
