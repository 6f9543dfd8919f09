from __future__ import annotations

import importlib
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import fairlead
from fairlead.api import errors as api_errors
from fairlead.api.gvk import GroupResource
from fairlead.base.environment import Environment
from fairlead.base.gates import GateError
from fairlead.cli import commands
from fairlead.cli.invocation import Invocation
from fairlead.cli.main import main
from fairlead.client import errors as client_errors

NO_ENVIRONMENT = Environment({})


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., object]], None]:
    """Installs a function as `fairlead probe`."""

    def install(body: Callable[..., object]) -> None:
        module = types.ModuleType("probe_command")
        module.__dict__["command"] = click.command("probe")(body)
        monkeypatch.setitem(sys.modules, "probe_command", module)
        monkeypatch.setattr(commands, "COMMANDS", (commands.Entry("probe", "probe_command", "Probe."),))

    return install


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fairlead {fairlead.__version__}\n"


def test_help_lists_the_table_without_importing_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "COMMANDS", (commands.Entry("ghost", "no_such_module", "Does not load."),))
    assert main(["--help"], environment=NO_ENVIRONMENT) == 0
    assert "ghost  Does not load." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command 'nope'"),
        (["--nope"], "No such option '--nope'"),
        (["probe", "--nope"], "No such option '--nope'"),
    ],
)
def test_bad_usage_exits_2_and_shows_usage(
    arguments: list[str],
    message: str,
    command: Callable[[Callable[..., object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(lambda: None)
    assert main(arguments, environment=NO_ENVIRONMENT) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("Usage: fairlead")


@pytest.mark.parametrize(("result", "code"), [(None, 0), (0, 0), (3, 3)])
def test_what_a_command_returns_is_the_exit_code(
    result: object, code: int, command: Callable[[Callable[..., object]], None]
) -> None:
    command(lambda: result)
    assert main(["probe"], environment=NO_ENVIRONMENT) == code


def raiser(failure: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise failure

    return body


@pytest.mark.parametrize(
    ("failure", "code", "error"),
    [
        (FileNotFoundError(2, "No such file or directory", "/etc/kube"), 1, "/etc/kube: No such file or directory"),
        (ConnectionRefusedError(111, "Connection refused"), 1, "Connection refused"),
        (TimeoutError(), 1, "timed out"),
        (client_errors.KubeconfigError("has no contexts", path=Path("/k")), 1, "kubeconfig /k: has no contexts"),
        (GateError("unrecognized feature gate: X"), 2, "unrecognized feature gate: X"),
        (click.ClickException("it\nbroke"), 1, "it broke"),
        (ExceptionGroup("tasks", [TimeoutError("no answer")]), 1, "no answer"),
        (ExceptionGroup("tasks", [OSError("a"), ExceptionGroup("b", [OSError("c")])]), 1, "a (and 1 more)"),
        (TypeError("int is no dict"), 1, "internal error: TypeError: int is no dict; --debug shows where"),
    ],
)
def test_a_failure_is_one_line(
    failure: Exception,
    code: int,
    error: str,
    command: Callable[[Callable[..., object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(raiser(failure))
    assert main(["probe"], environment=NO_ENVIRONMENT) == code
    assert capsys.readouterr().err == f"Error: {error}\n"


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (
            api_errors.not_found(GroupResource("", "nodes"), "a"),
            'Error from server (NotFound): nodes "a" not found',
        ),
        (api_errors.ApiError("strange", code=418, reason=""), "Error from server (code 418): strange"),
    ],
)
def test_what_the_server_said_reads_as_kubectl_says_it(
    failure: Exception,
    line: str,
    command: Callable[[Callable[..., object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(raiser(failure))
    assert main(["probe"], environment=NO_ENVIRONMENT) == 1
    assert capsys.readouterr().err == f"{line}\n"


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["--debug", "probe"], NO_ENVIRONMENT), (["probe"], Environment({"FAIRLEAD_DEBUG": "1"}))],
)
def test_debug_shows_the_traceback(
    arguments: list[str],
    environment: Environment,
    command: Callable[[Callable[..., object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(raiser(OSError("gone")))
    assert main(arguments, environment=environment) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_interrupted(command: Callable[[Callable[..., object]], None], capsys: pytest.CaptureFixture[str]) -> None:
    command(raiser(KeyboardInterrupt()))
    assert main(["probe"], environment=NO_ENVIRONMENT) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(("code", "expected"), [(None, 0), (4, 4), ("a word of farewell", 1)])
def test_sys_exit_is_honoured(code: object, expected: int, command: Callable[[Callable[..., object]], None]) -> None:
    command(raiser(SystemExit(code)))
    assert main(["probe"], environment=NO_ENVIRONMENT) == expected


def test_a_command_gets_the_environment(command: Callable[[Callable[..., object]], None]) -> None:
    seen: list[str | None] = []

    @click.pass_obj
    def body(invocation: Invocation) -> None:
        seen.append(invocation.environment.get("KUBECONFIG"))

    command(body)
    assert main(["probe"], environment=Environment({"KUBECONFIG": "/k"})) == 0
    assert seen == ["/k"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/usr/bin/fairlead", "Usage: fairlead "),
        ("/usr/bin/kubectl-fairlead", "Usage: kubectl fairlead "),
        ("kubectl-fairlead.exe", "Usage: kubectl fairlead "),
    ],
)
def test_usage_shows_what_was_typed(
    path: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [path])
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith(shown)


def test_help_imports_nothing_heavy() -> None:
    heavy = ["aiohttp", "asyncio", "apsw", "cryptography", "logging", "msgspec", "prometheus_client", "rich", "ssl"]
    script = (
        "import sys; from fairlead.cli.main import main; main(['--help']);"
        f"sys.exit(', '.join(name for name in {heavy!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_leaves_is_no_traceback() -> None:
    # The pipe's reading end is closed before the program writes, as it is when `head` has had enough.
    script = (
        "import os, subprocess, sys; r, w = os.pipe(); os.close(r);"
        "done = subprocess.run([sys.executable, '-m', 'fairlead.cli', '--help'], stdout=w, stderr=subprocess.PIPE);"
        "sys.stderr.buffer.write(done.stderr); sys.exit(done.returncode)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_names_are_unique() -> None:
    names = [entry.name for entry in commands.COMMANDS]
    assert len(names) == len(set(names))


def test_the_table_tells_the_truth() -> None:
    for entry in commands.COMMANDS:
        command = importlib.import_module(entry.module).command
        assert isinstance(command, click.Command), entry
        assert command.name == entry.name, entry
        assert (command.help or "").startswith(entry.summary.removesuffix(".")), entry


def test_every_command_file_is_in_the_table() -> None:
    folder = Path(commands.__file__).parent
    frame = {
        "__init__",
        "__main__",
        "commands",
        "failures",
        "invocation",
        "main",
        "managing",
        "nodes",
        "options",
        "process",
        "values",
        "windows_service",
    }
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    files = ({path.stem for path in folder.glob("*.py")} | packages) - frame
    assert files == {entry.module.rpartition(".")[2] for entry in commands.COMMANDS}
