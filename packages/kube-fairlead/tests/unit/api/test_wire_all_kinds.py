"""Any object of any kind: what it holds, known or not, survives being read, changed and written."""

from __future__ import annotations

import datetime as dt
import functools
import types
import typing
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube_fairlead.api import parts, wire
from kube_fairlead.api import time as api_time
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.scheme import Scheme

KINDS = sorted((kind.cls for kind in Scheme()), key=lambda cls: (cls.__module__, cls.__name__))

moments = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC))  # noqa: DTZ001 - hypothesis adds the zone
scalars: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=6),
    bool: st.booleans(),
    int: st.integers(-5, 5),
    float: st.floats(-5, 5),
    dt.datetime: moments.map(api_time.format_time),
    Any: st.dictionaries(
        st.text(max_size=3), st.none() | st.integers() | st.booleans() | st.text(max_size=3), max_size=2
    ),
    msgspec.Raw: st.integers(),
    types.NoneType: st.none(),
}
extras = st.dictionaries(st.from_regex("x[a-z]{0,2}-", fullmatch=True), scalars[Any] | st.text(max_size=3), max_size=1)


@functools.cache
def trees_of(hint: Any) -> st.SearchStrategy[Any]:
    """JSON as a server may send it for a type: fields absent, null or set, and others besides."""
    if hint == parts.MicroTime:
        return moments.map(api_time.format_micro_time)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of([trees_of(arm) for arm in arguments])
    if origin is tuple:
        return st.lists(trees_of(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(st.text(max_size=3), trees_of(arguments[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, parts.Part):
        return struct_trees(hint)
    return scalars[hint]


def struct_trees(cls: type[parts.Part]) -> st.SearchStrategy[dict[str, Any]]:
    known = {
        info.encode_name: trees_of(info.type)
        for info in msgspec.structs.fields(cls)
        if not (issubclass(cls, KubeObject) and info.name in {"api_version", "kind"})
    }
    fields = st.sampled_from(sorted(known)) if known else st.nothing()
    chosen = st.lists(fields, max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: known[name] for name in names})
    )
    return st.tuples(chosen, extras).map(lambda pair: pair[0] | pair[1])


@st.composite
def objects(draw: st.DrawFn, *, count: int) -> tuple[type[KubeObject], list[dict[str, Any]]]:
    """A kind, and some objects of it."""
    cls = draw(st.sampled_from(KINDS))
    empty = cls()
    head = {"apiVersion": empty.api_version, "kind": empty.kind}
    return cls, [head | draw(trees_of(cls)) for _ in range(count)]


relaxed = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=150)


@relaxed
@given(objects(count=1))
def test_untouched(case: tuple[type[KubeObject], list[dict[str, Any]]]) -> None:
    cls, (tree,) = case
    data = msgspec.json.encode(tree)
    value = wire.decode(cls, data)
    assert wire.encode(value) == data
    # Without the original bytes the known fields still survive.
    known = wire.decode(cls, wire.encode(wire.decode(cls, data, keep=False)), keep=False)
    assert known == value


@relaxed
@given(objects(count=2))
def test_changed_to_anything(case: tuple[type[KubeObject], list[dict[str, Any]]]) -> None:
    """Lay every known field of another object over this one: it reads back as that, with its own unknown fields."""
    cls, (tree, other_tree) = case
    data = msgspec.json.encode(tree)
    other = wire.from_dict(cls, other_tree)
    fields = [info.name for info in msgspec.structs.fields(cls)]
    changed = wire.replace(wire.decode(cls, data), **{name: getattr(other, name) for name in fields})
    written = wire.to_dict(changed)
    assert wire.from_dict(cls, written) == other
    for name, unknown in msgspec.json.decode(data).items():
        if name.startswith("x") and name.endswith("-"):
            assert written[name] == unknown
