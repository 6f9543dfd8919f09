"""Changes a file in one place: all such changes, and how they are applied to the loaded module. No file is written."""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import importlib
import inspect
import pathlib
import types
from collections.abc import Callable, Iterator

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: pathlib.Path
    function: str  # the outermost one around it
    line: int
    what: str
    compiled: Callable[[], types.CodeType]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.what}"


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Return the replacements of a node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            other = copy.deepcopy(node)
            other.ops = [COMPARISONS[type(operator)]()]
            yield other
        case ast.BoolOp(op=operator):
            other_op = copy.deepcopy(node)
            other_op.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield other_op
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(value=not value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(value=number + 1)
        case ast.BinOp(op=ast.Add() | ast.Sub() as operator):
            swapped = copy.deepcopy(node)
            swapped.op = ast.Sub() if isinstance(operator, ast.Add) else ast.Add()
            yield swapped
        case ast.Call(func=ast.Name(id=("min" | "max") as name)):
            called = copy.deepcopy(node)
            called.func = ast.Name(id="max" if name == "min" else "min", ctx=ast.Load())
            yield called


def mutants_of(file: pathlib.Path) -> Iterator[Mutant]:
    """Return every change inside a function of a file."""
    tree = ast.parse(file.read_text("utf-8"))
    inside = {
        id(inner): name for name, function in _functions(tree) for part in function.body for inner in ast.walk(part)
    }
    for parent in ast.walk(tree):
        if id(parent) not in inside:
            continue
        for field, value in ast.iter_fields(parent):
            for place, child in enumerate(value if isinstance(value, list) else [value]):
                for other in changes(child) if isinstance(child, ast.expr) else ():
                    at = (parent, field, place if isinstance(value, list) else None)
                    yield _mutant(file, inside[id(parent)], tree, at, other)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _mutant(
    file: pathlib.Path, function: str, tree: ast.Module, at: tuple[ast.AST, str, int | None], other: ast.AST
) -> Mutant:
    parent, field, place = at
    before = getattr(parent, field) if place is None else getattr(parent, field)[place]
    ast.copy_location(other, before)

    def put(node: ast.AST) -> None:
        if place is None:
            setattr(parent, field, node)
        else:
            getattr(parent, field)[place] = node

    def compiled() -> types.CodeType:
        put(other)
        try:
            return compile(ast.fix_missing_locations(tree), str(file), "exec")
        finally:
            put(before)

    what = f"{ast.unparse(before)}  ->  {ast.unparse(other)}".replace("\n", " ")
    return Mutant(file, function, before.lineno, what, compiled)


def apply(mutant: Mutant) -> bool:
    """Replace the code of the loaded module's functions; returns whether any was changed."""
    name = ".".join(mutant.file.relative_to("packages/kube-fairlead/src").with_suffix("").parts)
    module = importlib.import_module(name)
    codes: dict[str, types.CodeType] = {}
    todo = [mutant.compiled()]
    while todo:
        for constant in todo.pop().co_consts:
            if isinstance(constant, types.CodeType):
                codes[constant.co_qualname] = constant
                todo.append(constant)
    changed = False
    for function in functions_of(module):
        new = codes.get(function.__code__.co_qualname)
        if new is not None and new.co_freevars == function.__code__.co_freevars and new != function.__code__:
            function.__code__ = new
            changed = True
    return changed


def functions_of(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Return the functions and methods that a module defines."""
    todo = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    while todo:
        value = todo.pop()
        if inspect.isclass(value):
            todo += [one for one in vars(value).values() if not inspect.isclass(one)]
        elif isinstance(value, property):
            todo += [one for one in (value.fget, value.fset) if one is not None]
        elif isinstance(value, staticmethod | classmethod | functools.cached_property):
            todo.append(getattr(value, "__func__", None) or getattr(value, "func", None))
        elif isinstance(value, types.FunctionType):
            yield value
            if hasattr(value, "__wrapped__"):
                todo.append(value.__wrapped__)
        elif hasattr(value, "__wrapped__"):
            todo.append(value.__wrapped__)
