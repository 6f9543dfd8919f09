"""Estimates the cost of one call, for each function: cel-go's operators and Kubernetes' libraries.

Upstream: github.com/google/cel-go@v0.26.0/checker/cost.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/library/cost.go
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kube_fairlead_apiserver.cel import declarations, nodes
from kube_fairlead_apiserver.cel.types import Kind
from kube_fairlead_apiserver.crd.estimates import COST_MAX, UNKNOWN, Estimator, Size, add, multiply, scale
from kube_fairlead_apiserver.crd.sizes import DeclType

__all__ = ["call_cost", "estimate"]

# The cost of a call beside its arguments, and the size of its result if that is known.
Estimate = tuple[int, Size | None]
Function = Callable[[Estimator, nodes.Call, declarations.Overload], Estimate | None]

_TRAVERSAL = 0.1
_PATTERN = 0.25
_CREATE_LIST = 10
_FORMAT_BYTES_MAX = 64
_FORMAT_PATTERN_BYTES_MAX = 128
_ADDRESS = 16  # bytes of an IPv6 address
_TEXTUAL = frozenset({"string", "bytes"})
_CONSTANT_EQUALITY = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})


def estimate(root: nodes.Expr, declared: DeclType) -> int:
    """Return the maximum cost of an expression over values of the declared type."""
    return Estimator(declared, call_cost).cost(root)


def call_cost(
    sizes: Estimator, node: nodes.Call, overload: declarations.Overload, arguments: Sequence[int]
) -> tuple[int, Size | None]:
    """Return the cost of a call with this overload and its arguments, without its receiver, and its result size."""
    if node.function == "_?_:_":
        sizes.note_entries(node, node.args[1], node.args[2])
        either = sizes.size_or_unknown(node.args[1]).union(sizes.size_or_unknown(node.args[2]))
        return add(arguments[0], max(arguments[1], arguments[2])), either
    judge = _FUNCTIONS.get(node.function)
    found = None if judge is None else judge(sizes, node, overload)
    cost, size = found or (1, None)
    return add(cost, sum(arguments)), size


def _is_text(overload: declarations.Overload) -> bool:
    return overload.parameters[0].name in _TEXTUAL


def _addition(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    is_list = overload.parameters[0].kind is Kind.LIST
    if not is_list and not _is_text(overload):
        return None
    size = sizes.size_or_unknown(node.args[0]).plus(sizes.size_or_unknown(node.args[1]))
    sizes.note_entries(node, node.args[0], node.args[1])
    return (1, size) if is_list else (scale(size.most, _TRAVERSAL), size)


def _comparison(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    return _equality(sizes, node, overload) if _is_text(overload) else None


def _equality(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate:
    del overload
    left, right = node.args
    if node.function == "_==_" and left.type == right.type:
        if left.type.name in _CONSTANT_EQUALITY:
            return 1, None
        if left.type.name == "kubernetes.NamedFormat":
            return scale(_FORMAT_BYTES_MAX, _TRAVERSAL), None
        if left.type.name == "kubernetes.URL":
            size = sizes.size(right)
            return scale(1 if size is None else size.most, _TRAVERSAL), None
    shorter = min(sizes.size_or_unknown(left).most, sizes.size_or_unknown(right).most)
    return scale(shorter, _TRAVERSAL), None


def _membership(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    if overload.parameters[1].kind is not Kind.LIST:
        return None
    return sizes.size_or_unknown(node.args[1]).most, None


def _affix(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate:
    del overload
    return scale(sizes.size_or_unknown(node.args[0]).most, _TRAVERSAL), None


def _containing(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    del overload
    if node.target is None:
        return None
    text = scale(sizes.size_or_unknown(node.target).most, _TRAVERSAL)
    part = scale(sizes.size_or_unknown(node.args[0]).most, _TRAVERSAL)
    return multiply(text, part), None


def _pattern_cost(sizes: Estimator, node: nodes.Call, target: nodes.Expr) -> int:
    text = scale(add(sizes.size_or_unknown(target).most, 1), _TRAVERSAL)
    return multiply(text, scale(sizes.size_or_unknown(node.args[0]).most, _PATTERN))


def _matching(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    del overload
    return None if node.target is None else (_pattern_cost(sizes, node, node.target), None)


def _finding(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    del overload
    if node.target is None:
        return None
    return _pattern_cost(sizes, node, node.target), Size(0, sizes.size_or_unknown(node.target).most)


def _formatting(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    del overload
    return None if node.target is None else (scale(sizes.size_or_unknown(node.target).most, _TRAVERSAL), None)


def _conversion(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    source = overload.parameters[0].name
    size = sizes.size_or_unknown(node.args[0])
    if node.function == "bytes" and source == "string":
        return scale(size.most, _TRAVERSAL), Size(size.least, multiply(size.most, 4))
    if node.function == "string" and source == "bytes":
        return scale(size.most, _TRAVERSAL), Size(size.least // 4, size.most)
    return None


def _quoting(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate:
    del overload
    size = sizes.size_or_unknown(node.args[0])
    return scale(size.most, _TRAVERSAL), Size(add(size.least, 2), add(multiply(size.most, 2), 2))


def _element_size(sizes: Estimator, node: nodes.Expr) -> Size:
    path = sizes.path(node)
    return (sizes.size_at((*path, "@items")) if path else None) or UNKNOWN


def _walking(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    """Cost of reading every element once, and every character of elements that are text."""
    del overload
    if node.target is None:
        return None
    size = sizes.size_or_unknown(node.target)
    if not node.target.type.parameters:
        return scale(size.most, _TRAVERSAL), None
    each = 1
    if node.target.type.parameters[0].name in _TEXTUAL:
        each = add(1, scale(_element_size(sizes, node.target).most, _TRAVERSAL))
    return multiply(size.most, each), None


def _reading(factor: float, *, keeps_size: bool = False) -> Function:
    def cost(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
        if node.function == "ip" and overload.member:
            return 1, None
        if not node.args:
            return None
        size = sizes.size_or_unknown(node.args[0])
        return scale(size.most, factor), size if keeps_size else None

    return cost


def _rewriting(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    del overload
    if node.target is None:
        return None
    size = sizes.size_or_unknown(node.target)
    return scale(size.most, _TRAVERSAL), size


def _replacing(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    del overload
    if node.target is None or len(node.args) < 2:
        return None
    text, old, new = (sizes.size_or_unknown(each) for each in (node.target, *node.args[:2]))
    if old.least == 0:  # an empty text matches around every character
        most = add(multiply(add(text.most, 1), new.most), text.most)
    elif new.most <= old.least:
        most = text.most
    else:
        most = multiply(math.ceil(float(text.most) / float(old.least)), new.most)
    if old.most == 0:
        least = add(multiply(add(text.least, 1), new.least), text.least)
    elif old.most <= new.least:
        least = text.least
    else:
        least = multiply(math.ceil(float(text.least) / float(old.most)), new.least)
    return scale(text.most, 2 * _TRAVERSAL), Size(least, min(most, COST_MAX))


def _splitting(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    del overload
    if node.target is None:
        return None
    size = sizes.size_or_unknown(node.target)
    limit = _integer(node.args[1]) if len(node.args) > 1 else None
    return scale(size.most, 2 * _TRAVERSAL), Size(0, size.most if limit is None else limit % 2**64)


def _joining(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    del overload
    if node.target is None:
        return None
    count = sizes.size_or_unknown(node.target)
    size = Size(0, 0)
    if node.target.type.parameters:
        size = count.times(_element_size(sizes, node.target))
    if node.args:
        gaps = Size(max(0, count.least - 1), max(0, count.most - 1))
        size = size.plus(sizes.size_or_unknown(node.args[0]).times(gaps))
    return scale(size.most, _TRAVERSAL), size


def _addresses(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate:
    cost = scale(2 * _ADDRESS, _TRAVERSAL)
    if node.function == "containsCIDR":
        cost += scale(_ADDRESS, _TRAVERSAL) + 1
    if overload.parameters[-1].name == "string":
        cost = add(cost, scale(sizes.size_or_unknown(node.args[0]).most, _TRAVERSAL))
    return cost, None


def _validating(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate:
    del overload
    text = scale(sizes.size_or_unknown(node.args[0]).most, _TRAVERSAL)
    return scale(text, _FORMAT_PATTERN_BYTES_MAX * _PATTERN), None


def _sets(factor: float) -> Function:
    def cost(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate:
        del overload
        pairs = sizes.size_or_unknown(node.args[0]).times(sizes.size_or_unknown(node.args[1]))
        return add(scale(pairs.most, factor), 1), None

    return cost


def _integer(node: nodes.Expr) -> int | None:
    value = node.value if isinstance(node, nodes.Literal) else None
    return value if type(value) is int else None


def _at_least_zero(node: nodes.Expr, otherwise: int) -> int:
    value = _integer(node)
    return otherwise if value is None or value < 0 else value


def _listing(size: Size, factor: float) -> Estimate:
    return add(scale(size.most, factor) if factor else 0, 1 + _CREATE_LIST), size


def _lists(sizes: Estimator, node: nodes.Call, overload: declarations.Overload) -> Estimate | None:
    """Functions whose result is as large as their input; some of them compare all elements with each other."""
    if node.function == "lists.range":
        count = _at_least_zero(node.args[0], COST_MAX)
        return _listing(Size(count, count), 1)
    if node.target is None:
        return None
    size = sizes.size_or_unknown(node.target)
    match node.function:
        case "slice":
            count = (_at_least_zero(node.args[1], size.most) - _at_least_zero(node.args[0], 0)) % 2**64
            return _listing(Size(count, count), 1)
        case "flatten":
            return _listing(size, _at_least_zero(node.args[0], COST_MAX) if node.args else 1)
        case "reverse":
            return _listing(size, 1)
        case "distinct":
            return _listing(size.times(size), 2)
    keys = size if node.function == "sort" else sizes.size_or_unknown(node.args[0])
    element = overload.parameters[-1].parameters[0] if overload.parameters[-1].parameters else None
    is_text = element is not None and element.name in _TEXTUAL
    return _listing(keys.times(keys), 2 + _TRAVERSAL if is_text else 2)


_FUNCTIONS: dict[str, Function] = {
    "_+_": _addition,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _comparison),
    **dict.fromkeys(("_==_", "_!=_"), _equality),
    "@in": _membership,
    **dict.fromkeys(("startsWith", "endsWith"), _affix),
    "contains": _containing,
    "matches": _matching,
    **dict.fromkeys(("find", "findAll"), _finding),
    "format": _formatting,
    **dict.fromkeys(("bytes", "string"), _conversion),
    "strings.quote": _quoting,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walking),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _reading(_TRAVERSAL, keeps_size=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _reading(_TRAVERSAL)),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _reading(_TRAVERSAL)),
    "ip.isCanonical": _reading(2 * _TRAVERSAL),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _rewriting),
    "replace": _replacing,
    "split": _splitting,
    "join": _joining,
    **dict.fromkeys(("containsIP", "containsCIDR"), _addresses),
    "validate": _validating,
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    "sets.equivalent": _sets(2),
    **dict.fromkeys(("slice", "flatten", "lists.range", "reverse", "distinct", "sort"), _lists),
    "@sortByAssociatedKeys": _lists,
}
