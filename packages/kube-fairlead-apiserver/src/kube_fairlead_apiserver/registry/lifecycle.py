"""The lifecycle kinds as built-in kinds, with the schema and rules of their CustomResourceDefinitions.

`make crds` writes the definitions into `lifecycle.json`. They could be built from the types at every start, but
the server has no other use for those types, and loading them would be a tenth of its startup time.
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
    """Return the definitions, in the configured group."""
    found: list[dict[str, Any]] = msgspec.json.decode(pathlib.Path(__file__).with_suffix(".json").read_bytes())
    for definition in found:
        definition["spec"]["group"] = group
        definition["metadata"]["name"] = f"{definition['spec']['names']['plural']}.{group}"
    return found


def lifecycle_resources(group: str) -> list[Resource]:
    """Return the lifecycle kinds, in the configured group."""
    # Stored objects may have been written by another release.
    return [
        resource
        for definition in lifecycle_definitions(group)
        for resource in custom_resources(compile_kinds(definition), unchanged=False, built_in=True)
    ]
