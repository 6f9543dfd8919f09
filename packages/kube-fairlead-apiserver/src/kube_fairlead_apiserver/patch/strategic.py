"""Strategic merge patch: a merge patch that merges some lists by a key.

The schema determines how a field merges (`patch_strategies`, `patch_merge_key`). Directives in the patch refine it:
`$patch: replace | delete` for a map or a list item, `$retainKeys` for the members that a map may keep,
`$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>` for lists.

Kubernetes answers some malformed patches with a 500; here every malformed patch is the client's error.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/util/strategicpatch/patch.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/strategicpatch/meta.go,
    k8s.io/apimachinery@v0.36.4/third_party/forked/golang/json/fields.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/mergepatch/errors.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.patch import patch_errors
from kube_fairlead_apiserver.patch.depth_limit import ensure_depth
from kube_fairlead_apiserver.patch.goformat import go_type, go_value
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["MAX_REPEATED", "apply_strategic_merge_patch"]


MAX_REPEATED = 16  # changes of one list item: each walks the whole item

_DIRECTIVE = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"
_DROPPED: Any = object()


def apply_strategic_merge_patch(node: SchemaNode, document: Json, patch: Any) -> Json:
    """Apply the patch to the document; `node` is the schema of its kind."""
    if not isinstance(patch, dict):
        raise patch_errors.undecodable_patch(patch, "map[string]interface {}")
    ensure_depth(patch)
    return _merge_map(node, document, patch)


def _merge_map(node: SchemaNode, original: Json, patch: Json) -> Json:
    if _DIRECTIVE in patch:
        return _directed_map(patch)
    merged = dict(original)
    if _RETAIN_KEYS in patch:
        _retain_keys(merged, patch)
    ordered = _merge_ordered_lists(node, merged, patch)
    for key, value in patch.items():
        if key == _RETAIN_KEYS or key in ordered or key.startswith(_ORDER + "/"):
            continue
        if key.startswith(_DELETE_PRIMITIVES):
            _delete_primitives(merged, _field_of(key, _DELETE_PRIMITIVES), value)
        elif value is None:
            merged.pop(key, None)
        else:
            _merge_field(node, merged, key, value)
    return merged


def _merge_field(node: SchemaNode, merged: Json, key: str, value: Any) -> None:
    current = merged.get(key)
    field = node.child(key) or ANYTHING
    if isinstance(current, dict) and isinstance(value, dict) and "replace" not in field.patch_strategies:
        merged[key] = _merge_map(field, current, value)
    elif isinstance(current, list) and isinstance(value, list) and "merge" in field.patch_strategies:
        merged[key] = _merge_list(field, current, value)
    elif isinstance(current, (dict, list)) and type(current) is type(value):
        merged[key] = _as_it_is(value)
    else:
        cleaned = _cleaned(value)
        if cleaned is _DROPPED:
            merged.pop(key, None)
        else:
            merged[key] = cleaned


def _directed_map(patch: Json) -> Json:
    match patch[_DIRECTIVE]:
        case "replace":
            replaced: Json = _as_it_is(patch)
            return replaced
        case "delete":
            return {}
        case other:
            raise errors.BadRequest(f"unknown patch type: {go_value(other)} in map: {go_value(patch)}")


def _retain_keys(merged: Json, patch: Json) -> None:
    keys = patch[_RETAIN_KEYS]
    if not isinstance(keys, list):
        raise errors.BadRequest("invalid patch format of retainKeys")
    retained = {key for key in keys if isinstance(key, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith("$") and key not in retained:
            raise errors.BadRequest("invalid patch format of retainKeys")
    for key in [key for key in merged if key not in retained]:
        del merged[key]


def _field_of(key: str, directive: str) -> str:
    """Return the field that a parallel list is for: `$setElementOrder/containers` is for containers."""
    prefix, slash, field = key.partition("/")
    if prefix != directive or not slash:
        name = "primitive list" if directive == _DELETE_PRIMITIVES else "setElementOrder list"
        raise errors.BadRequest(f"invalid patch format of {name}")
    return field


def _delete_primitives(merged: Json, field: str, unwanted: Any) -> None:
    current = merged.get(field)
    if not isinstance(current, list) or not isinstance(unwanted, list):
        return
    if any(isinstance(item, (dict, list)) for item in (*current, *unwanted)):
        raise errors.BadRequest("invalid patch format of primitive list")
    gone = {_typed(item) for item in unwanted}
    merged[field] = [item for item in current if _typed(item) not in gone]


def _merge_ordered_lists(node: SchemaNode, merged: Json, patch: Json) -> set[str]:
    """Merge the lists whose order the patch sets; returns their names."""
    done: set[str] = set()
    for directive, order in patch.items():
        if not directive.startswith(_ORDER):
            continue
        name = _field_of(directive, _ORDER)
        if not isinstance(order, list):
            raise errors.BadRequest("invalid patch format of setElementOrder list")
        field = node.child(name) or ANYTHING
        current, change = merged.get(name), patch.get(name)
        for value in (current, change):
            if value is not None and not isinstance(value, list):
                raise errors.BadRequest(f"expected a []interface {{}}, but received a {go_type(value)}")
        if change is None:
            if name in patch:
                continue  # null deletes the list, so there is nothing to order
            if current is None:
                continue
            items = current
        else:
            _check_order(change, order, field.patch_merge_key)
            if current is None:
                items = _cleaned(change)
            elif "merge" in field.patch_strategies:
                items = _merge_list(field, current, change)
            else:
                items = _as_it_is(change)
            done.add(name)
        merged[name] = _arranged(items, order, current or [], field.patch_merge_key)
    return done


def _check_order(change: list[Any], order: list[Any], merge_key: str) -> None:
    """Check that the order list has all items of the change, in the same order; deletions do not count."""
    if not order or not change:
        return
    wanted = [item for item in change if not (isinstance(item, dict) and _DIRECTIVE in item)]
    positions = iter(order)
    for item in wanted:
        if not any(_key(place, merge_key) == _key(item, merge_key) for place in positions):
            raise errors.BadRequest(
                f"The order in patch list:\n{go_value(change)}\n doesn't match {_ORDER} list:\n{go_value(order)}\n"
            )


def _merge_list(field: SchemaNode, original: list[Any], change: list[Any]) -> list[Any]:
    if not original and not change:
        return original
    if len(_kinds(original) | _kinds(change)) > 1:
        raise errors.BadRequest(f"list element types are not identical: [{go_value(original)} {go_value(change)}]")
    merge_key = field.patch_merge_key
    if not isinstance((original or change)[0], dict):
        merged = _distinct([*original, *change])
        return _arranged(merged, change, original, "")
    if not merge_key:
        raise errors.BadRequest("cannot merge lists without merge key for struct")
    kept, wanted = _without_directed_items(original, change, merge_key)
    if wanted is None:
        return kept
    merged = list(kept)
    positions = _positions(kept, merge_key)
    times: dict[int, int] = {}
    for item in wanted:
        key = _rank_key(item, merge_key)
        position = positions.get(key)
        if position is None:
            positions[key] = len(merged)
            merged.append(_as_it_is(item))
        else:
            times[position] = times.get(position, 0) + 1
            if times[position] > MAX_REPEATED:
                raise errors.BadRequest(f"the patch has more than {MAX_REPEATED} changes of one item: {go_value(key)}")
            merged[position] = _merge_map(field.items or ANYTHING, merged[position], item)
    return _arranged(merged, wanted, kept, merge_key)


def _without_directed_items(
    original: list[Any], change: list[Any], merge_key: str
) -> tuple[list[Any], list[Any] | None]:
    """Apply the items that are directives. For a replaced list, the second value is None: nothing is left to merge."""
    wanted: list[Any] = []
    keys: list[Any] = []
    unwanted: set[Any] = set()
    replace = False
    for item in change:
        match item.get(_DIRECTIVE):
            case None:
                wanted.append(item)
            case "delete":
                key = _key(item, merge_key)
                keys = keys or [_rank_key(old, merge_key) for old in original]
                if not isinstance(key, (dict, list)):  # no stored item has such a key
                    unwanted.add(key)
            case "replace":
                replace = True
            case "merge":
                raise errors.BadRequest("merging lists cannot yet be specified in the patch")
            case other:
                raise errors.BadRequest(f"unknown patch type: {go_value(other)} in map: {go_value(item)}")
    if replace:
        return [_as_it_is(item) for item in wanted], None
    if not unwanted:
        return original, wanted
    return [old for old, key in zip(original, keys, strict=True) if key not in unwanted], wanted


def _arranged(items: list[Any], order: list[Any], server_order: list[Any], merge_key: str) -> list[Any]:
    """Order the items.

    Those of the client in its order, the others in the server's, interleaved as the server had them.
    """
    wanted_rank = {_rank_key(item, merge_key): rank for rank, item in reversed(list(enumerate(order)))}
    server_rank = {_rank_key(item, merge_key): rank for rank, item in reversed(list(enumerate(server_order)))}
    wanted: list[Any] = []
    others: list[Any] = []
    for item in items:
        (wanted if _rank_key(item, merge_key) in wanted_rank else others).append(item)
    wanted.sort(key=lambda item: wanted_rank[_rank_key(item, merge_key)])
    others.sort(key=lambda item: server_rank.get(_rank_key(item, merge_key), len(server_order)))
    arranged: list[Any] = []
    waiting = iter(wanted)
    following = next(waiting, _DROPPED)
    for item in others:
        rank = server_rank.get(_rank_key(item, merge_key), -1)
        while following is not _DROPPED:
            other_rank = server_rank.get(_rank_key(following, merge_key), -1)
            if 0 <= rank < other_rank:
                break
            arranged.append(following)
            following = next(waiting, _DROPPED)
        arranged.append(item)
    if following is not _DROPPED:
        arranged.append(following)
    arranged.extend(waiting)
    return arranged


def _key(item: Any, merge_key: str) -> Any:
    """Return the identity of an item: the value of its merge key, or a primitive itself."""
    if not merge_key:
        return _typed(item)
    if not isinstance(item, dict):
        raise errors.BadRequest(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
    if merge_key not in item:
        raise errors.BadRequest(f"map: {go_value(item)} does not contain declared merge key: {merge_key}")
    return _typed(item[merge_key])


def _rank_key(item: Any, merge_key: str) -> Any:
    key = _key(item, merge_key)
    try:
        hash(key)
    except TypeError:
        raise patch_errors.unprocessable("lists of lists are not supported") from None
    return key


def _typed(value: Any) -> Any:
    """Return a primitive that compares as JSON does: true is not 1."""
    return (type(value), value) if isinstance(value, (bool, float)) else value


def _positions(items: list[Any], merge_key: str) -> dict[Any, int]:
    """Return the position of the first item with each key."""
    positions: dict[Any, int] = {}
    for position, item in enumerate(items):
        positions.setdefault(_rank_key(item, merge_key), position)
    return positions


def _distinct(items: list[Any]) -> list[Any]:
    distinct: dict[Any, Any] = {}
    for item in items:
        distinct.setdefault(_rank_key(item, ""), item)
    return list(distinct.values())


def _kinds(items: list[Any]) -> set[type]:
    kinds = {type(item) for item in items}
    if list in kinds:
        raise patch_errors.unprocessable("lists of lists are not supported")
    return kinds


def _cleaned(value: Any) -> Any:
    """Return a part of the patch that merges with nothing: without its nulls and without its directives."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _DROPPED
        members = {name: _cleaned(member) for name, member in value.items() if _is_content(name, member)}
        return {name: member for name, member in members.items() if member is not _DROPPED}
    if isinstance(value, list):
        items = [_cleaned(item) for item in value]
        return [item for item in items if item is not _DROPPED]
    return value


def _as_it_is(value: Any) -> Any:
    """Return a part of the patch that replaces the original: its directives have no meaning and are removed."""
    if isinstance(value, dict):
        return {name: _as_it_is(member) for name, member in value.items() if _is_content(name, member)}
    if isinstance(value, list):
        return [_as_it_is(item) for item in value]
    return value


def _is_content(name: str, member: Any) -> bool:
    return member is not None and not name.startswith((_DIRECTIVE, _RETAIN_KEYS, _ORDER, _DELETE_PRIMITIVES))
