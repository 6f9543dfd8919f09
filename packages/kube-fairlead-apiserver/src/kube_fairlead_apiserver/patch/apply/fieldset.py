"""Sets of fields, kept as the FieldsV1 JSON they are on the wire.

A set is a tree of dicts. Each key is a path element (see `elements`). A leaf `{}` is a member. A dict with keys is a
member only if it has the key `.`; its other keys lead to members below. The empty dict at the root is the empty set.

    {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}    holds .metadata.labels and .metadata.labels.app

Invariants: (1) no node without members, (2) `.` never stands alone (that is a leaf), (3) elements are canonical,
(4) a set is never changed once made, so sets share their parts. `parse` establishes them, all operations keep them.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/fieldpath/set.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/fieldpath/serialize.go
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.patch.apply import elements
from kube_fairlead_apiserver.patch.apply.elements import SELF, MalformedFieldsError
from kube_fairlead_apiserver.patch.depth_limit import ensure_depth

__all__ = [
    "FieldSet",
    "difference",
    "has",
    "intersection",
    "is_subset",
    "parse",
    "paths",
    "recursive_difference",
    "union",
    "union_all",
]

FieldSet = Json


def parse(fields: Any) -> FieldSet:
    """Read FieldsV1 from a client. Unknown kinds of path elements are dropped: they may come from a newer version."""
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise MalformedFieldsError("fieldsV1 must be an object")
    ensure_depth(fields)
    children, _ = _parsed(fields)
    return children


def _parsed(fields: Any) -> tuple[FieldSet, bool]:
    children: FieldSet = {}
    member = False
    if not isinstance(fields, dict):
        return children, True
    for key, below in fields.items():
        if key == SELF:
            member = True
            continue
        element = elements.canonical(key)
        if element is None:
            continue
        grandchildren, child_is_member = _parsed(below)
        if grandchildren and child_is_member:
            grandchildren = {SELF: {}, **grandchildren}
        children[element] = grandchildren
    return children, member or not children


def _is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of either set."""
    if not left:
        return right
    if not right:
        return left
    result: FieldSet | None = None
    for element, below in right.items():
        mine = left.get(element)
        joined = below if mine is None else _joined(mine, below)
        if joined is not mine:
            result = dict(left) if result is None else result
            result[element] = joined
    return left if result is None else result


def _joined(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return left if not right else right if SELF in right else {SELF: {}, **right}
    if not right:
        return left if SELF in left else {SELF: {}, **left}
    return union(left, right)


def union_all(sets: Sequence[FieldSet]) -> FieldSet:
    """Return the fields of any of the sets.

    They are joined in pairs, so each is read a few times, however many there are.
    """
    if not sets:
        return {}
    while len(sets) > 1:
        pairs = [union(*sets[start : start + 2]) for start in range(0, len(sets) - 1, 2)]
        sets = [*pairs, sets[-1]] if len(sets) % 2 else pairs
    return sets[0]


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of `left` that are not in `right`. A field below a removed one stays."""
    result: FieldSet | None = None
    for element in _elements_of_both(left, right):
        mine = left[element]
        rest = _reduced(mine, right[element])
        if rest is not mine:
            result = dict(left) if result is None else result
            if rest is None:
                del result[element]
            else:
                result[element] = rest
    return left if result is None else result


def _elements_of_both(left: FieldSet, right: FieldSet) -> list[str]:
    """Return the elements of both sets. Many managers own few fields each, so the cost is that of the smaller set."""
    few, many = (left, right) if len(left) < len(right) else (right, left)
    return [element for element in few if element in many]


def _reduced(left: FieldSet, right: FieldSet) -> FieldSet | None:
    if not left:
        return None if _is_member(right) else left
    if not right:
        if SELF not in left:
            return left
        return {element: below for element, below in left.items() if element != SELF}
    rest = difference(left, right)  # at this level `.` is an element like any other: a leaf against a leaf
    if not rest:
        return None
    return {} if len(rest) == 1 and SELF in rest else rest


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of `left` that are neither in `right` nor below a field of `right`."""
    result: FieldSet | None = None
    for element in _elements_of_both(left, right):
        mine, below = left[element], right[element]
        if _is_member(below):
            rest: FieldSet | None = None
        elif not mine:
            rest = mine
        else:
            rest = recursive_difference(mine, below)
            if not rest:
                rest = None
            elif len(rest) == 1 and SELF in rest:
                rest = {}
        if rest is not mine:
            result = dict(left) if result is None else result
            if rest is None:
                del result[element]
            else:
                result[element] = rest
    return left if result is None else result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of both sets."""
    if len(right) < len(left):
        left, right = right, left
    result: FieldSet = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            continue
        member = _is_member(below) and _is_member(other)
        common = intersection(below, other) if below and other else {}
        common.pop(SELF, None)
        if common:
            result[element] = {SELF: {}, **common} if member else common
        elif member:
            result[element] = {}
    return result


def is_subset(left: FieldSet, right: FieldSet) -> bool:
    """Return whether every field of `left` is in `right`."""
    for element, below in left.items():
        other = right.get(element)
        if other is None or (_is_member(below) and not _is_member(other)):
            return False
        if below and not is_subset({key: value for key, value in below.items() if key != SELF}, other):
            return False
    return True


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Return whether the field at the path is in the set."""
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return bool(path) and node is not None and _is_member(node)


def paths(fields: FieldSet) -> Iterator[tuple[str, ...]]:
    """Yield every field of the set: at each level the members first, then the fields below, in Kubernetes' order."""
    return _paths(fields, ())


def _paths(fields: FieldSet, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    ordered = sorted(element for element in fields if element != SELF)
    for element in ordered:
        if _is_member(fields[element]):
            yield (*prefix, element)
    for element in ordered:
        if fields[element]:
            yield from _paths(fields[element], (*prefix, element))
