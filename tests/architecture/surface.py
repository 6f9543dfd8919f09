"""The public surface of a distribution as text: the modules that users may import, their names and signatures.

`packages/<distribution>/public-surface.txt` states it. A line `[module] purpose` begins a module; people write those
lines, and `make surface` writes what is between them.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.architecture.source import DISTRIBUTIONS, ROOT

__all__ = ["read_modules", "statement_of", "surface_file", "write_surface"]

_HEADER = re.compile(r"^\[(?P<module>[\w.]+)\] (?P<purpose>\S.*)$")


def surface_file(distribution: str) -> Path:
    """Where the surface of a distribution is stated."""
    return ROOT / "packages" / distribution.replace("_", "-") / "public-surface.txt"


def read_modules(text: str) -> dict[str, str]:
    """The modules that a statement names, and what each is for."""
    found = (_HEADER.match(line) for line in text.splitlines())
    return {one["module"]: one["purpose"] for one in found if one}


def write_surface() -> None:
    """Write every distribution's statement anew from the code; its modules stay as they are."""
    for distribution in DISTRIBUTIONS:
        path = surface_file(distribution)
        path.write_text(statement_of(read_modules(path.read_text(encoding="utf-8"))), encoding="utf-8")


def statement_of(modules: dict[str, str]) -> str:
    """The statement that the code makes of these modules."""
    lines = ["# What a user may import. Everything else may change without notice. Written by `make surface`.", ""]
    for name, purpose in modules.items():
        module = importlib.import_module(name)
        lines += [f"[{name}] {purpose}"]
        for public in sorted(module.__all__):
            lines += (f"    {line}" for line in _describe(public, getattr(module, public)))
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _describe(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _describe_class(name, value)
    elif callable(value) and hasattr(value, "__name__"):
        yield f"{_kind_of(value)}{name}{_signature(value)}"
    elif isinstance(value, types.ModuleType):
        yield f"module {name}"
    else:
        yield f"{name}: {type(value).__name__}"


def _describe_class(name: str, value: type) -> Iterator[str]:
    bases = [base.__name__ for base in value.__bases__ if base is not object]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    if issubclass(value, enum.Enum):
        yield from (f"    {member.name} = {member.value!r}" for member in value)
        return
    fields = _fields(value)
    yield from (f"    {field}" for field in fields)
    if not fields and "__init__" in vars(value):
        yield f"    __init__{_signature(vars(value)['__init__'])}"
    for public, member in sorted(vars(value).items()):
        if public.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"    {public} (property)"
        elif isinstance(member, classmethod | staticmethod):
            yield f"    {type(member).__name__} {public}{_signature(member.__func__)}"
        elif inspect.isfunction(member):
            yield f"    {_kind_of(member)}{public}{_signature(member)}"


def _fields(value: type) -> list[str]:
    if issubclass(value, msgspec.Struct):
        return [f"{name}: {value.__annotations__.get(name, '(inherited)')}" for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value):
        return [f"{field.name}: {field.type}" for field in dataclasses.fields(value) if not field.name.startswith("_")]
    return []


def _kind_of(function: Any) -> str:
    return "async " if inspect.iscoroutinefunction(inspect.unwrap(function)) else ""


def _signature(function: Any) -> str:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        one.replace(annotation=_bare(one.annotation), default=_short(one.default))
        for one in signature.parameters.values()
    ]
    plain = signature.replace(parameters=parameters, return_annotation=_bare(signature.return_annotation))
    return str(plain)


def _short(default: Any) -> Any:
    """A default that a reader understands as it is, or `...`."""
    is_plain = default is inspect.Parameter.empty or isinstance(default, str | int | float | None | enum.Enum)
    return default if is_plain or default == () else _Bare("...")


class _Bare(str):
    """Text that shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _bare(annotation: Any) -> Any:
    return _Bare(annotation) if isinstance(annotation, str) else annotation
