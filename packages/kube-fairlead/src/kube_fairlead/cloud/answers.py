"""Whether an answer is what the provider protocol promises. Pure.

The promise is the return type that the protocol's method declares (`kube_fairlead.cloud.provider`), so there is no
second list to keep: a method that is added to the protocol is checked from then on.

Invariants:
1. What passes has the promised type through and through: containers, their elements and the fields of each element.
2. Containers are copied. A provider that changes its own afterwards, or computes them when they are read, changes
   nothing that a controller holds.
3. Nothing is converted: 1 is not True, and None is not an empty answer.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from kube_fairlead.cloud.errors import ProviderFault

__all__ = ["Check", "promise_of"]

Check = Callable[[object, str], Any]
"""Takes an answer and where it was found; returns it, containers copied, or raises ProviderFault."""


@functools.cache
def promise_of(method: Callable[..., object]) -> Check:
    """The check of what a method of the protocol promises to return."""
    return _check_of(typing.get_type_hints(method)["return"])


@functools.cache
def _check_of(hint: Any) -> Check:
    """The check of one type, compiled once: answers are about thousands of machines."""
    if hint is None or hint is type(None):
        return _nothing
    if hint in {bool, int, str}:
        return _exactly(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        return _one_of(hint, arguments)
    if origin is tuple:
        return _elements(tuple, _check_of(arguments[0]))
    if origin is Sequence:
        return _elements(Sequence, _check_of(arguments[0]))
    if origin is frozenset:
        return _members(_check_of(arguments[0]))
    if origin is AbstractAsyncContextManager:
        return _exactly(AbstractAsyncContextManager)
    if origin is Mapping:
        return _entries(_check_of(arguments[0]), _check_of(arguments[1]))
    if dataclasses.is_dataclass(hint) or issubclass(hint, msgspec.Struct):
        return _fields(hint)
    raise TypeError(f"the provider protocol promises {hint!r}, for which there is no check")


def _wrong(value: object, where: str, promised: str) -> ProviderFault:
    return ProviderFault(f"{where} is {type(value).__name__}, not {promised}")


def _nothing(value: object, where: str) -> None:
    if value is not None:
        raise _wrong(value, where, "None")


def _exactly(kind: type) -> Check:
    def check(value: object, where: str) -> object:
        # A subclass of str is one; bool, which is a subclass of int, is not.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _wrong(value, where, kind.__name__)
        return value

    return check


def _one_of(hint: Any, arguments: tuple[Any, ...]) -> Check:
    checks = [_check_of(argument) for argument in arguments if argument is not type(None)]
    if len(checks) != 1 or len(arguments) != 2:
        raise TypeError(f"the provider protocol promises {hint!r}, and only X | None is checked")
    [inner] = checks
    return lambda value, where: None if value is None else inner(value, where)


def _elements(kind: Any, inner: Check) -> Check:
    def check(value: object, where: str) -> object:
        # A text is a sequence too, of letters.
        if not isinstance(value, kind) or isinstance(value, str | bytes):
            raise _wrong(value, where, kind.__name__.lower())
        return tuple(inner(element, f"{where}[{index}]") for index, element in enumerate(value))

    return check


def _members(inner: Check) -> Check:
    def check(value: object, where: str) -> object:
        if not isinstance(value, AbstractSet):
            raise _wrong(value, where, "set")
        return frozenset(inner(member, f"a member of {where}") for member in value)

    return check


def _entries(keys: Check, values: Check) -> Check:
    def check(value: object, where: str) -> object:
        if not isinstance(value, Mapping):
            raise _wrong(value, where, "mapping")
        return {keys(key, f"a key of {where}"): values(one, f"a value of {where}") for key, one in value.items()}

    return check


def _fields(kind: Any) -> Check:
    hints = typing.get_type_hints(kind)
    is_struct = issubclass(kind, msgspec.Struct)
    # A field without comparison is not the provider's answer: it is a copy of the query.
    names = kind.__struct_fields__ if is_struct else [field.name for field in dataclasses.fields(kind) if field.compare]
    checks = [(name, _check_of(hints[name])) for name in names]

    def check(value: object, where: str) -> object:
        if not isinstance(value, kind):
            raise _wrong(value, where, kind.__name__)
        for name, inner in checks:
            inner(getattr(value, name), f"{where}.{name}")
        return value

    return check
