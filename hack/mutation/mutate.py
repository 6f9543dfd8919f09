"""Change the product in one place, at random, and see who notices: first its unit tests, then the simulation.

    .venv/bin/python hack/mutation/mutate.py --seconds 1200 --seed 1

Each mutant lives in a forked child whose functions are given the changed code; no file is touched. What survives both
is printed, and is either equal in behaviour to the original or a hole in the tests.
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import dataclasses
import functools
import importlib
import inspect
import logging
import os
import pathlib
import random
import sys
import time
import types
from collections.abc import Iterator

import pytest

SOURCE = pathlib.Path("src/fairlead")
# What is changed, and the tests that must notice.
TARGETS = {
    "lifecycle": ["tests/unit/lifecycle"],
    "election": [f"tests/unit/election/test_{name}.py" for name in ("lease", "record", "candidate", "leadership")],
    "cloud/ownership.py": ["tests/unit/cloud/test_ownership.py", "tests/unit/cloud/test_decision_table.py"],
}
SIM_SEEDS = 3
KILLED_BY_TESTS, KILLED_BY_SIM, SURVIVED, BROKEN = 10, 11, 12, 13

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
    tests: tuple[str, ...]
    line: int
    what: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.what}"


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What could stand in a node's place."""
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


def mutants_of(file: pathlib.Path, tests: list[str]) -> Iterator[Mutant]:
    """Every change of a file that is inside a function."""
    tree = ast.parse(file.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(inner) for function in functions for part in function.body for inner in ast.walk(part)}
    for parent in ast.walk(tree):
        if id(parent) not in inside:
            continue
        for field, value in ast.iter_fields(parent):
            for place, child in enumerate(value if isinstance(value, list) else [value]):
                for other in changes(child) if isinstance(child, ast.expr) else ():
                    yield _mutant(file, tests, tree, (parent, field, place if isinstance(value, list) else None), other)


def _mutant(
    file: pathlib.Path, tests: list[str], tree: ast.Module, at: tuple[ast.AST, str, int | None], other: ast.AST
) -> Mutant:
    parent, field, place = at
    before = getattr(parent, field) if place is None else getattr(parent, field)[place]
    ast.copy_location(other, before)

    def put(node: ast.AST) -> None:
        if place is None:
            setattr(parent, field, node)
        else:
            getattr(parent, field)[place] = node

    put(other)
    changed = copy.deepcopy(tree)
    put(before)
    what = f"{ast.unparse(before)}  ->  {ast.unparse(other)}".replace("\n", " ")
    return Mutant(file, tuple(tests), before.lineno, what, ast.fix_missing_locations(changed))


def apply(mutant: Mutant) -> bool:
    """Give the functions of the loaded module the changed code; whether any was changed."""
    name = ".".join(mutant.file.relative_to("src").with_suffix("").parts)
    module = importlib.import_module(name)
    codes: dict[str, types.CodeType] = {}
    todo = [compile(mutant.tree, str(mutant.file), "exec")]
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
    """The functions and methods that a module defines."""
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


def judged(mutant: Mutant) -> int:
    """In the child: what becomes of a mutant."""
    if not apply(mutant):
        return BROKEN
    arguments = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "--assert=plain", "--timeout", "60"]
    ended = pytest.main([*arguments, *mutant.tests])
    if ended in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}:
        return KILLED_BY_TESTS
    if ended != pytest.ExitCode.OK:
        return BROKEN
    from fairlead.sim.running import run
    from fairlead.sim.scenario import Scenario

    logging.disable(logging.CRITICAL)
    for seed in range(1, SIM_SEEDS + 1):
        if run(seed, Scenario()).violation is not None:
            return KILLED_BY_SIM
    return SURVIVED


def forked(mutant: Mutant) -> int:
    """What becomes of a mutant, found out in a child."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    outcome = BROKEN
    try:
        outcome = judged(mutant)
    finally:
        os._exit(outcome)


def main() -> int:
    """Judge a sample of all mutants, for so long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a target: lifecycle, election or cloud/ownership.py")
    told = parser.parse_args()
    groups: dict[str, list[Mutant]] = {}
    for target, tests in TARGETS.items():
        if told.only not in {"", target}:
            continue
        place = SOURCE / target
        files = [place] if place.suffix else sorted(place.rglob("*.py"))
        groups[target] = [mutant for file in files for mutant in mutants_of(file, tests)]
    importlib.import_module("fairlead.sim.running")  # once, for all children
    chance = random.Random(told.seed)
    for mutants in groups.values():
        chance.shuffle(mutants)
    counts: collections.Counter[tuple[str, int]] = collections.Counter()
    began = time.monotonic()
    while any(groups.values()) and time.monotonic() - began < told.seconds:
        # One of each in turn, so that a short run has looked everywhere.
        for target, mutants in groups.items():
            if mutants:
                mutant = mutants.pop()
                outcome = forked(mutant)
                counts[target, outcome] += 1
                if outcome in {SURVIVED, BROKEN}:
                    print(f"{'survived' if outcome == SURVIVED else 'not tried'}: {mutant}", flush=True)
    for target, left in groups.items():
        tests, sim, survived = (counts[target, one] for one in (KILLED_BY_TESTS, KILLED_BY_SIM, SURVIVED))
        print(f"{target}: {tests} found by tests, {sim} by the simulation, {survived} survived; {len(left)} not tried")
    return 0


if __name__ == "__main__":
    sys.exit(main())
