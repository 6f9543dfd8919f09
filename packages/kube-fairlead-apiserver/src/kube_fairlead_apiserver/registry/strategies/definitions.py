"""CustomResourceDefinitions themselves.

Their validation is imported at its first use: it needs CEL, which a server without definitions never needs.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresourcedefinition/strategy.go
"""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api.fielderrors import FieldError
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd import conditions, definition, structural
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = ["DefinitionStrategy"]

_COMPILED_BYTES = 8 * 1024


class DefinitionStrategy(Strategy):
    """apiextensions.k8s.io/v1 CustomResourceDefinition."""

    emptied_first: bool = True
    has_status: bool = True
    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """Set the default names."""
        definition.set_defaults(obj)

    def prepare_create(self, obj: Json) -> None:
        """A new definition has an empty status."""
        definition.prepare_for_create(obj)

    def prepare_update(self, obj: Json, old: Json) -> None:
        """Keep the status; add a new storage version to storedVersions."""
        definition.prepare_for_update(obj, old)

    def validate(self, obj: Json) -> list[FieldError]:
        """A new definition."""
        from kube_fairlead_apiserver.crd import validation

        return validation.validate_create(obj)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """A changed one."""
        from kube_fairlead_apiserver.crd import validation

        return validation.validate_update(obj, old)

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate the accepted names."""
        del old
        from kube_fairlead_apiserver.crd import validation

        return validation.validate_status(obj)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        """Warnings for unknown formats."""
        del old
        from kube_fairlead_apiserver.crd import validation

        return [f'unrecognized format "{name}"' for name in validation.unrecognized_formats(obj)]

    def weight(self, obj: Json) -> int:
        """Return the weight of validation.

        A pattern takes up to 100 ms to compile, a rule 1 ms and more with each default.
        """
        schemas = ((one.get("schema") or {}).get("openAPIV3Schema") for one in obj["spec"].get("versions") or ())
        return _COMPILED_BYTES * sum(structural.count_compiled(schema) for schema in schemas if schema)

    def prepare_delete(self, obj: Json, now: dt.datetime) -> None:
        """Mark it as terminating; the controller deletes its objects first."""
        conditions.mark_for_deletion(obj, now)
        # The time is set by the deletion itself, which has not been decided yet.
        obj["metadata"].pop("deletionTimestamp", None)
