"""Decodes the schema of a CRD as Go does: null is the same as absent, and every field must have its JSON type.

All later code relies on this form: a schema is an object, its properties are schemas, and so on.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/v1/types_jsonschema.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/v1/marshal.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json

__all__ = ["read_schema"]


_OF_TYPE: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("$ref", "$schema", "description", "format", "id", "pattern", "title", "type"), (str,)),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), (str,)),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "nullable", "uniqueItems"), (bool,)),
    **dict.fromkeys(("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"), (bool,)),
    "x-kubernetes-preserve-unknown-fields": (bool,),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), (int, float)),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"), (int,)),
    "externalDocs": (dict,),
}
_JSON_NAMES: dict[type, str] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
}
_SCHEMA_MAPS = ("definitions", "patternProperties", "properties")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
_RULE = {
    **dict.fromkeys(("fieldPath", "message", "messageExpression", "reason", "rule"), (str,)),
    "optionalOldSelf": (bool,),
}


def read_schema(raw: Any, path: FieldPath) -> tuple[Json, list[FieldError]]:
    """Return a copy without nulls, and the fields of the wrong JSON type.

    Values in default, enum and example are kept.
    """
    reader = _Reader()
    return reader.schema(raw, path), reader.errors


class _Reader:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def schema(self, raw: Any, path: FieldPath) -> Json:
        result: Json = {}
        for key, value in self._object(raw, path).items():
            if value is not None:
                result[key] = self._field(key, value, path.child(key))
        return result

    def _field(self, key: str, value: Any, path: FieldPath) -> Any:
        if key in _OF_TYPE:
            return self._typed(value, path, _OF_TYPE[key])
        if key in _SCHEMA_MAPS:
            return {name: self.schema(child, path.key(name)) for name, child in self._object(value, path).items()}
        if key in _SCHEMA_LISTS:
            return [self.schema(part, path.index(i)) for i, part in enumerate(self._list(value, path))]
        if key == "not":
            return self.schema(value, path)
        if key == "items":
            if isinstance(value, list):
                return [self.schema(part, path.index(i)) for i, part in enumerate(value)]
            return self.schema(value, path)
        if key in {"additionalProperties", "additionalItems"}:
            return value if isinstance(value, bool) else self.schema(value, path)
        if key == "dependencies":
            return {
                name: part if isinstance(part, list) else self.schema(part, path.key(name))
                for name, part in self._object(value, path).items()
            }
        if key in {"required", "x-kubernetes-list-map-keys"}:
            return [self._typed(name, path.index(i), (str,)) for i, name in enumerate(self._list(value, path))]
        if key == "x-kubernetes-validations":
            return [self._rule(rule, path.index(i)) for i, rule in enumerate(self._list(value, path))]
        if key == "enum":
            return self._list(value, path)
        return value

    def _rule(self, raw: Any, path: FieldPath) -> Json:
        return {
            key: self._typed(value, path.child(key), _RULE[key]) if key in _RULE else value
            for key, value in self._object(raw, path).items()
            if value is not None
        }

    def _object(self, value: Any, path: FieldPath) -> Json:
        checked: Json = self._typed({} if value is None else value, path, (dict,))
        return checked

    def _list(self, value: Any, path: FieldPath) -> list[Any]:
        checked: list[Any] = self._typed(value, path, (list,))
        return checked

    def _typed(self, value: Any, path: FieldPath, types: tuple[type, ...]) -> Any:
        if value.__class__ in types:
            return value
        wanted = _JSON_NAMES[types[-1]]
        actual = _JSON_NAMES.get(value.__class__, "null")
        self.errors.append(FieldError.type_invalid(path, actual, f"must be of type {wanted}"))
        return types[0]()
