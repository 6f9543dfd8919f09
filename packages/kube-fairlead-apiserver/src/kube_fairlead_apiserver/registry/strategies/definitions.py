"""CustomResourceDefinitions themselves.

Their validation is imported when it is first needed: it brings in CEL, which a server without any never needs.

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
        """Names that follow from others."""
        definition.set_defaults(obj)

    def prepare_create(self, obj: Json) -> None:
        """Nothing is accepted yet."""
        definition.prepare_for_create(obj)

    def prepare_update(self, obj: Json, old: Json) -> None:
        """The status stays; a new storage version is remembered."""
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
        """Accepted names are names."""
        del old
        from kube_fairlead_apiserver.crd import validation

        return validation.validate_status(obj)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        """Formats that mean nothing."""
        del old
        from kube_fairlead_apiserver.crd import validation

        return [f'unrecognized format "{name}"' for name in validation.unrecognized_formats(obj)]

    def weight(self, obj: Json) -> int:
        """A pattern takes up to a tenth of a second to compile; a rule a millisecond, and longer with each default."""
        schemas = ((one.get("schema") or {}).get("openAPIV3Schema") for one in obj["spec"].get("versions") or ())
        return _COMPILED_BYTES * sum(structural.count_compiled(schema) for schema in schemas if schema)

    def prepare_delete(self, obj: Json, now: dt.datetime) -> None:
        """Its objects go first."""
        conditions.mark_for_deletion(obj, now)
        # The time is set by the deletion itself, which has not been decided yet.
        obj["metadata"].pop("deletionTimestamp", None)
