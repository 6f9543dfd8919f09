"""A version that is stored as another version: validation uses the stored version."""

from __future__ import annotations

from collections.abc import Callable

from kube_fairlead.api.fielderrors import FieldError
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.resource import Conversion
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.defaulting import copy_json

__all__ = ["ConvertedStrategy"]


class ConvertedStrategy(Strategy):
    """The strategy of the stored version, for objects of another version."""

    def __init__(self, rules: Strategy, conversion: Conversion, default: Callable[[Json], None]) -> None:
        """``default``: the version's own defaults; those of the stored version follow in `canonicalize`."""
        self._rules = rules
        self._conversion = conversion
        self._default = default
        self.tracks_generation = rules.tracks_generation
        self.has_status = rules.has_status
        self.allow_create_on_update = rules.allow_create_on_update
        self.allow_unconditional_update = rules.allow_unconditional_update
        self.returns_deleted_object = rules.returns_deleted_object
        self.default_propagation = rules.default_propagation
        self.name_rule = rules.name_rule
        self.selectable = rules.selectable

    def default(self, obj: Json) -> None:
        """Set this version's defaults, then convert to the stored version and back."""
        self._default(obj)
        self._conversion.to_stored(obj)
        self._conversion.to_served(obj)

    def canonicalize(self, obj: Json) -> None:
        """Set the stored version's defaults."""
        self._conversion.to_stored(obj)
        self._rules.default(obj)
        self._rules.canonicalize(obj)
        self._conversion.to_served(obj)

    def prepare_create(self, obj: Json) -> None:
        """As in the stored version."""
        self._conversion.to_stored(obj)
        self._rules.prepare_create(obj)
        self._conversion.to_served(obj)

    def prepare_update(self, obj: Json, old: Json) -> None:
        """As in the stored version."""
        self._conversion.to_stored(obj)
        self._rules.prepare_update(obj, self._stored(old))
        self._conversion.to_served(obj)

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """As in the stored version."""
        self._conversion.to_stored(obj)
        self._rules.prepare_status_update(obj, self._stored(old))
        self._conversion.to_served(obj)

    def validate(self, obj: Json) -> list[FieldError]:
        """With the errors of the stored version."""
        return self._rules.validate(self._stored(obj))

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """With the errors of the stored version."""
        return self._rules.validate_update(self._stored(obj), self._stored(old))

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """With the errors of the stored version."""
        return self._rules.validate_status_update(self._stored(obj), self._stored(old))

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Return whether the stored version differs."""
        return self._rules.generation_changed(self._stored(obj), self._stored(old))

    def fields(self, obj: Json) -> dict[str, str]:
        """Computed from the stored version."""
        return self._rules.fields(obj)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        """Return the warnings of the stored version."""
        return self._rules.warnings(self._stored(obj), None if old is None else self._stored(old))

    def _stored(self, obj: Json) -> Json:
        stored: Json = copy_json(obj)
        self._conversion.to_stored(stored)
        return stored
