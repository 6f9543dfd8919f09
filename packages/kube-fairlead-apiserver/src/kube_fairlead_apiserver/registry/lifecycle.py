"""The lifecycle kinds, built in: the same schema and rules that their CustomResourceDefinitions carry elsewhere.

`make crds` writes the definitions into `lifecycle.json`. They could be made from the types at every start, but those
are the client's: a server has no other use for them, and loading them would be a tenth of its start.
"""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec

from kube_fairlead_apiserver.crd.definition import compile_kinds
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.registry.strategies.custom import custom_resources

__all__ = ["lifecycle_definitions", "lifecycle_resources"]


def lifecycle_definitions(group: str) -> list[dict[str, Any]]:
    """What the definitions say, in the group they are to be served under."""
    found: list[dict[str, Any]] = msgspec.json.decode(pathlib.Path(__file__).with_suffix(".json").read_bytes())
    for definition in found:
        definition["spec"]["group"] = group
        definition["metadata"]["name"] = f"{definition['spec']['names']['plural']}.{group}"
    return found


def lifecycle_resources(group: str) -> list[Resource]:
    """LifecycleTransition and LifecycleEvent, in the group they are to be served under."""
    # What is stored may have been written by another release of this program.
    return [
        resource
        for definition in lifecycle_definitions(group)
        for resource in custom_resources(compile_kinds(definition), unchanged=False, built_in=True)
    ]
