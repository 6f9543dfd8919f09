"""Only `base` reads the clock, randomness or the environment, and only `base` waits for real time."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.imports import imported
from tests.architecture.source import Source, assert_clean, dotted_names, fairlead_modules, snippet

BANNED_MODULES = frozenset({"random", "secrets", "time", "uuid"})
BANNED_NAMES = {
    "asyncio.timeout": "wait with base.clock",
    "asyncio.timeout_at": "wait with base.clock",
    "asyncio.wait_for": "wait with base.clock",
    "datetime.date.today": "ask a base.clock",
    "datetime.datetime.now": "ask a base.clock",
    "datetime.datetime.today": "ask a base.clock",
    "datetime.datetime.utcnow": "ask a base.clock",
    "os.environ": "ask a base.environment",
    "os.environb": "ask a base.environment",
    "os.getenv": "ask a base.environment",
    "os.getenvb": "ask a base.environment",
    "os.getrandom": "ask a base.randomness",
    "os.path.expanduser": "ask a base.environment for home()",
    "os.path.expandvars": "ask a base.environment",
    "os.putenv": "pass an environment to the child instead",
    "os.urandom": "ask a base.randomness",
    "pathlib.Path.home": "ask a base.environment for home()",
}
# Methods that no other object we use has: whoever calls them reads the loop's clock, or the home folder.
BANNED_METHODS = {
    "call_at": "wait with base.clock",
    "call_later": "wait with base.clock",
    "expanduser": "ask a base.environment for home()",
}
LOOP_GETTERS = frozenset({"get_event_loop", "get_running_loop", "new_event_loop"})


# The simulation is the outside world: time in it is its own event loop's, which reads no clock.
OWN_TIME = "sim"
ABOUT_TIME = ("wait with base.clock", "ask a base.clock")


def readings(source: Source) -> list[str]:
    if source.name.startswith("kube_fairlead.base."):
        return []
    findings = _readings(source)
    return [one for one in findings if source.package != OWN_TIME or not one.endswith(ABOUT_TIME)]


def _readings(source: Source) -> list[str]:
    findings = [
        source.finding(line, f"imports {module.split('.')[0]}; only base may")
        for line, module in imported(source)
        if module.split(".")[0] in BANNED_MODULES
    ]
    for node, name in dotted_names(source.tree):
        if name in BANNED_NAMES:
            findings.append(source.finding(node.lineno, f"{name}: {BANNED_NAMES[name]}"))
    full_names = {id(node): name for node, name in dotted_names(source.tree)}
    for call in (node for node in ast.walk(source.tree) if isinstance(node, ast.Call)):
        if full_names.get(id(call.func)) == "asyncio.sleep" and not _is_zero(call):
            findings.append(source.finding(call.lineno, "asyncio.sleep: wait with base.clock"))
        if full_names.get(id(call.func)) == "asyncio.wait" and any(word.arg == "timeout" for word in call.keywords):
            findings.append(source.finding(call.lineno, "asyncio.wait with timeout: wait with base.clock"))
        if isinstance(call.func, ast.Attribute):
            if call.func.attr in BANNED_METHODS:
                why = BANNED_METHODS[call.func.attr]
                findings.append(source.finding(call.lineno, f".{call.func.attr}(): {why}"))
            if call.func.attr == "time" and _is_loop(call.func.value):
                findings.append(source.finding(call.lineno, "the event loop's clock: ask a base.clock"))
    return findings


def _is_zero(call: ast.Call) -> bool:
    # sleep(0) waits for no time: it lets other tasks run.
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def _is_loop(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in LOOP_GETTERS
    return ast.unparse(value).rpartition(".")[2].strip("_") in {"loop", "event_loop"}


def test_only_base_reads_the_outside_world() -> None:
    assert_clean(fairlead_modules(), readings)


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import time as t",
        "from time import monotonic",
        "def f():\n    import random",
        "from uuid import uuid4",
        "import secrets",
        "import datetime\ndatetime.datetime.now()",
        "import datetime as dt\ndt.datetime.now(dt.UTC)",
        "from datetime import datetime\ndatetime.utcnow()",
        "from datetime import datetime as moment\nnow = moment.now",
        "from datetime import date\ndate.today()",
        "import os\nos.environ['HOME']",
        "import os\nos.environ.get('HOME')",
        "from os import environ\nenviron.get('HOME')",
        "from os import getenv\ngetenv('HOME')",
        "import os as system\nsystem.getenv('HOME')",
        "import os\nos.urandom(8)",
        "import os.path\nos.path.expanduser('~')",
        "from pathlib import Path\nPath.home()",
        "import pathlib\npathlib.Path('~').expanduser()",
        "import asyncio\nasyncio.get_event_loop().time()",
        "import asyncio\nasyncio.get_running_loop().time()",
        "loop.time()",
        "self._loop.time()",
        "loop.call_later(1, print)",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        "from asyncio import sleep\nasync def f():\n    await sleep(delay)",
        "import asyncio\nasync def f():\n    await asyncio.wait_for(x, 1)",
        "import asyncio\nasync def f():\n    await asyncio.wait(x, timeout=1)",
        "import asyncio\nasync def f():\n    async with asyncio.timeout(1): pass",
    ],
)
def test_it_bites(text: str) -> None:
    assert readings(snippet(text))


@pytest.mark.parametrize(
    "text",
    [
        "import datetime\ndef f(now: datetime.datetime) -> datetime.timedelta: return now - now",
        "import datetime as dt\ndt.datetime.fromisoformat('2026-01-01')",
        "from datetime import datetime\ndatetime.strptime('2026', '%Y')",
        "import os\nos.fspath('x')\nos.path.join('a', 'b')",
        "clock.now()\nself._clock.monotonic()\nself.time()\nevent.time()",
        "from kube_fairlead.api import time\ntime.format_time(x)",
        "from kube_fairlead.base import environment\nenvironment.get('HOME')",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    await asyncio.wait(x)",
        "async def f(self):\n    await self._clock.sleep(3)\n    async with self._clock.timeout(1): pass",
    ],
)
def test_it_lets_pass(text: str) -> None:
    assert readings(snippet(text)) == []


def test_base_may() -> None:
    assert readings(snippet("import time\nimport os\nos.environ", "kube_fairlead.base.clock")) == []
