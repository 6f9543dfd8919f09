"""Tasks are started by `base.tasks` only, and cancellation is never swallowed."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import Source, assert_clean, dotted_names, fairlead_modules, snippet

STARTS_A_TASK = frozenset({"create_task", "ensure_future"})
# These start an unnamed task for every coroutine they are given.
BANNED_NAMES = frozenset({"asyncio.TaskGroup", "asyncio.as_completed", "asyncio.gather"})


def stray_tasks(source: Source) -> list[str]:
    if source.name in {"kube_fairlead.base.tasks", "kube_fairlead_lab.sim.loop"}:  # an event loop is what makes tasks
        return []
    findings = [
        source.finding(node.lineno, f"{name}: use base.tasks, which names and owns its tasks")
        for node, name in dotted_names(source.tree)
        if name in BANNED_NAMES
    ]
    findings += [
        source.finding(node.lineno, "starts a task without base.tasks")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in STARTS_A_TASK
    ]
    return findings


def swallowed_cancellation(source: Source) -> list[str]:
    findings = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and _catches_cancellation(node.type):
            if not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
                findings.append(source.finding(node.lineno, "catches cancellation and does not raise"))
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] == "suppress"
            and any(_catches_cancellation(argument) for argument in node.args)
        ):
            findings.append(source.finding(node.lineno, "suppresses cancellation"))
    return findings


def _catches_cancellation(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_catches_cancellation(one) for one in caught.elts)
    return ast.unparse(caught).rpartition(".")[2] in {"BaseException", "CancelledError"}


def test_tasks_are_named_and_owned() -> None:
    assert_clean(fairlead_modules(), stray_tasks)


def test_cancellation_is_never_swallowed() -> None:
    assert_clean(fairlead_modules(), swallowed_cancellation)


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nasyncio.create_task(f())",
        "from asyncio import create_task\ncreate_task(f())",
        "import asyncio\nasyncio.ensure_future(f())",
        "loop.create_task(f())",
        "import asyncio\nasyncio.get_running_loop().create_task(f(), name='x')",
        "import asyncio\nasync def f():\n    async with asyncio.TaskGroup() as group: pass",
        "import asyncio\nasync def f():\n    await asyncio.gather(a(), b())",
    ],
)
def test_stray_tasks_are_found(text: str) -> None:
    assert stray_tasks(snippet(text))


def test_base_tasks_may_start_them() -> None:
    assert stray_tasks(snippet("import asyncio\nasyncio.create_task(f())", "kube_fairlead.base.tasks")) == []
    assert stray_tasks(snippet("scope.start(f(), name='x')")) == []


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    f()\nexcept:\n    pass",
        "try:\n    f()\nexcept BaseException:\n    log()",
        "import asyncio\ntry:\n    f()\nexcept asyncio.CancelledError:\n    pass",
        "import asyncio\ntry:\n    f()\nexcept (OSError, asyncio.CancelledError):\n    return_code = 1",
        "import asyncio, contextlib\nwith contextlib.suppress(asyncio.CancelledError):\n    f()",
    ],
)
def test_swallowed_cancellation_is_found(text: str) -> None:
    assert swallowed_cancellation(snippet(text))


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    f()\nexcept Exception:\n    log()",
        "import asyncio\ntry:\n    f()\nexcept asyncio.CancelledError:\n    tidy()\n    raise",
        "import contextlib\nwith contextlib.suppress(OSError):\n    f()",
    ],
)
def test_honest_handlers_pass(text: str) -> None:
    assert swallowed_cancellation(snippet(text)) == []
