"""JSON patch, RFC 6902, with the limits and the leniency of the Kubernetes API server.

Kubernetes is more lenient than the RFC in four ways, and clients depend on it: `replace` of an absent member adds it, a
negative array index counts from the end, the part of a pointer before its first slash is ignored, and a `test` of an
absent value against null passes. It is stricter in one: `add` cannot replace the whole document.

Upstream: gopkg.in/evanphx/json-patch.v4@v4.13.0/patch.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/patch.go,
    gopkg.in/evanphx/json-patch.v4@v4.13.0/errors.go
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.patch import patch_errors
from kube_fairlead_apiserver.patch.depth_limit import MAX_DEPTH, ensure_depth
from kube_fairlead_apiserver.patch.json_equality import same_json

__all__ = ["MAX_COPIED_BYTES", "MAX_OPERATIONS", "apply_json_patch", "unknown_operation_fields"]


MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024  # the limit for all `copy` operations of one patch together

_FIELDS = ("op", "path", "from", "value")
_INDEX = re.compile(r"[+-]?[0-9]{1,18}\Z")
_ABSENT: Any = object()


class _Inapplicable(Exception):
    """An operation cannot be applied to this document; the message says why."""


def apply_json_patch(document: Json, patch: Any) -> Any:
    """Apply all operations to the document. If one does not apply, the error is a 422. The document is unchanged."""
    operations = _decoded(patch)
    work = _Work(document)
    try:
        for operation in operations:
            work.carry_out(operation)
        if work.may_have_deepened:
            ensure_depth(work.document)
    except _Inapplicable as reason:
        raise patch_errors.unprocessable(str(reason)) from None
    except RecursionError:
        raise patch_errors.too_deep(MAX_DEPTH) from None
    return work.document


def unknown_operation_fields(patch: Any) -> list[str]:
    """Return the errors of strict field validation for a patch that decodes, in its order."""
    return [
        f'json patch unknown field "[{position}].{name}"'
        for position, operation in enumerate(_decoded(patch))
        for name in operation
        if name not in _FIELDS
    ]


def _decoded(patch: Any) -> list[Json]:
    if not isinstance(patch, list):
        raise patch_errors.undecodable_patch(patch, "[]handlers.jsonPatchOp")
    if len(patch) > MAX_OPERATIONS:
        raise patch_errors.too_many_operations(MAX_OPERATIONS, len(patch))
    for operation in patch:
        if not isinstance(operation, dict):
            raise patch_errors.undecodable_patch(operation, "handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            if operation.get(name) is not None and not isinstance(operation[name], str):
                raise patch_errors.undecodable_field(operation[name], f"jsonPatchOp.{name}")
    return patch


class _Work:
    """One patch in progress. A container is copied before its first change, and then changed in place: see `_owned`."""

    def __init__(self, document: Any) -> None:
        self.document = document
        # An added value is checked where it is added. A moved or copied value may be anything: then all is checked.
        self.may_have_deepened = False
        self._copied_bytes = 0
        # Containers made here, by id; holding them keeps an id from being used again. Nothing outside refers to
        # them, and no two places inside do, so they may be changed in place. 10,000 inserts into one list then
        # copy it once.
        self._mine: dict[int, Any] = {}

    def carry_out(self, operation: Json) -> None:
        kind = operation.get("op")
        match kind:
            case "add":
                pointer = self._pointer(operation, kind)
                self._insert(kind, pointer, _shallow_enough(operation.get("value"), pointer))
            case "remove":
                self._remove(kind, self._pointer(operation, kind))
            case "replace":
                pointer = self._pointer(operation, kind)
                self._replace(pointer, _shallow_enough(operation.get("value"), pointer))
            case "move":
                self.may_have_deepened = True
                source = self._pointer(operation, kind, "from")
                value = self._remove(kind, source)
                self._insert(kind, self._pointer(operation, kind), value)
            case "copy":
                self.may_have_deepened = True
                value = self._copy(self._pointer(operation, kind, "from"))
                self._insert(kind, self._pointer(operation, kind), value)
            case "test":
                self._test(self._pointer(operation, kind), operation.get("value"))
            case _:
                raise _Inapplicable(f"Unexpected kind: {kind or 'unknown'}")

    @staticmethod
    def _pointer(operation: Json, kind: str, name: str = "path") -> str:
        pointer = operation.get(name)
        if not isinstance(pointer, str):
            raise _Inapplicable(f"{kind} operation failed to decode {name}: missing value")
        return pointer

    def _insert(self, kind: str, pointer: str, value: Any) -> None:
        container, key = self._owned(kind, pointer)
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(key, len(container) + 1, kind, pointer), value)

    def _remove(self, kind: str, pointer: str) -> Any:
        container, key = self._owned(kind, pointer)
        if isinstance(container, list):
            return container.pop(_index(key, len(container), kind, pointer))
        if key not in container:
            raise _Inapplicable(
                f"error in {kind} for path: '{pointer}': Unable to remove nonexistent key: {key}: missing value"
            )
        return container.pop(key)

    def _replace(self, pointer: str, value: Any) -> None:
        if not pointer:
            if not isinstance(value, (dict, list)):
                raise _Inapplicable("replace operation value must be object or array")
            self.document = value
            return
        container, key = self._owned("replace", pointer)
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(key, len(container), "replace", pointer)] = value

    def _copy(self, pointer: str) -> Any:
        value = self._read("copy", pointer)
        if value is _ABSENT:
            return None
        # Text counts as well: a thousand copies of a megabyte take no memory here, but a gigabyte when they are stored.
        encoded = msgspec.json.encode(value)
        self._copied_bytes += len(encoded)
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise _Inapplicable(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied_bytes}, exceeding the limit {MAX_COPIED_BYTES}"
            )
        if not isinstance(value, (dict, list)):
            return value
        # A real copy: sharing would let a later operation on one place change the other.
        return _copied(value)

    def _test(self, pointer: str, expected: Any) -> None:
        actual = self.document if not pointer else self._read("test", pointer)
        if actual is _ABSENT:
            actual = None
        if not same_json(actual, expected):
            raise _Inapplicable(f"testing value {pointer} failed: test failed")

    def _read(self, kind: str, pointer: str) -> Any:
        tokens = _tokens(kind, pointer)
        container = self.document
        for token in tokens[:-1]:
            container = _child(container, token)
            if not isinstance(container, (dict, list)):
                raise _missing(kind, pointer)
        if isinstance(container, list):
            return container[_index(tokens[-1], len(container), kind, pointer)]
        return container.get(tokens[-1], _ABSENT)

    def _owned(self, kind: str, pointer: str) -> tuple[Any, str]:
        """Return the container that the pointer leads into, copied if necessary, and the last part of the pointer."""
        tokens = _tokens(kind, pointer)
        self.document = container = self._make_mine(self.document)
        for token in tokens[:-1]:
            child = _child(container, token)
            if not isinstance(child, (dict, list)):
                raise _missing(kind, pointer)
            child = self._make_mine(child)
            container[int(token) if isinstance(container, list) else token] = child
            container = child
        return container, tokens[-1]

    def _make_mine(self, container: Any) -> Any:
        if id(container) in self._mine:
            return container
        mine = container.copy()
        self._mine[id(mine)] = mine
        return mine


def _tokens(kind: str, pointer: str) -> list[str]:
    parts = pointer.split("/")
    if len(parts) < 2:
        raise _missing(kind, pointer)
    return [part.replace("~1", "/").replace("~0", "~") for part in parts[1:]]


def _shallow_enough(value: Any, pointer: str) -> Any:
    if isinstance(value, (dict, list)):
        ensure_depth(value, MAX_DEPTH - pointer.count("/"))
    return value


def _missing(kind: str, pointer: str) -> _Inapplicable:
    return _Inapplicable(f'{kind} operation does not apply: doc is missing path: "{pointer}": missing value')


def _child(container: Any, token: str) -> Any:
    if isinstance(container, dict):
        return container.get(token)
    if not _INDEX.match(token):
        return None
    index = int(token)
    return container[index] if -len(container) <= index < len(container) else None


def _index(token: str, size: int, kind: str, pointer: str) -> int:
    """Return a token as a position below `size`; negative ones count from the end."""
    if not _INDEX.match(token):
        raise _Inapplicable(f"error in {kind} for path: '{pointer}': value was not a proper array index: '{token}'")
    index = int(token)
    if not -size <= index < size:
        raise _Inapplicable(
            f"error in {kind} for path: '{pointer}': Unable to access invalid index: {index}: invalid index referenced"
        )
    return index + size if index < 0 else index


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
