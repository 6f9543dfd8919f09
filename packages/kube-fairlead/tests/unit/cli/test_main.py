from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import kube_fairlead
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.gates import GateError
from kube_fairlead.cli import commands
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.main import main
from kube_fairlead.client import errors as client_errors

NO_ENVIRONMENT = Environment({})


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., object]], None]:
    """Installs a function as `fairlead probe`."""

    def install(body: Callable[..., object]) -> None:
        module = types.ModuleType("probe_command")
        module.__dict__["command"] = click.command("probe")(body)
        monkeypatch.setitem(sys.modules, "probe_command", module)
        monkeypatch.setattr(commands, "COMMANDS", (commands.Entry("probe", "Probe.", "probe_command"),))

    return install


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fairlead {kube_fairlead.__version__}\n"


def test_a_command_of_a_distribution_that_is_missing_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "installed", dict)
    assert main(["apiserver", "--data-dir=x"], environment=NO_ENVIRONMENT) == 2
    said = capsys.readouterr().err
    assert "the command apiserver is in the package kube-fairlead-apiserver, which is not installed here" in said
    assert "pip install kube-fairlead-apiserver" in said
    assert main(["--help"], environment=NO_ENVIRONMENT) == 0
    assert "(pip install kube-fairlead-apiserver)" in capsys.readouterr().out


def test_a_command_of_another_distribution_is_found_by_its_entry_point(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = types.ModuleType("vendor_command")
    module.__dict__["command"] = click.command("wake")(lambda: click.echo("awake"))
    monkeypatch.setitem(sys.modules, "vendor_command", module)
    point = commands.InstalledCommand("vendor_command:command", "vendor-tools")
    monkeypatch.setattr(commands, "installed", lambda: {"wake": point})
    assert main(["wake"], environment=NO_ENVIRONMENT) == 0
    assert capsys.readouterr().out == "awake\n"
    assert main(["--help"], environment=NO_ENVIRONMENT) == 0
    assert "Added by the package vendor-tools." in capsys.readouterr().out


def test_entry_points_are_found_as_the_standard_library_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "vendor_tools-1.2.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text(
        "[console_scripts]\nwake = x:y\n\n[fairlead.commands]\n# a comment\n"
        "wake = vendor.wake:command\nsleep=vendor.sleep:it\n"
    )
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vendor-tools\nVersion: 1.2\n")
    broken = tmp_path / "broken-1.dist-info"
    broken.mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing"), *sys.path])
    known = {point.name: point.value for point in importlib.metadata.entry_points(group=commands.GROUP)}
    assert known["wake"] == "vendor.wake:command"
    (broken / "entry_points.txt").write_bytes(b"[fairlead.commands]\n\xff = x:y\n")
    assert {name: point.target for name, point in commands.installed().items()} == known
    assert commands.installed()["sleep"] == commands.InstalledCommand("vendor.sleep:it", "vendor-tools")


def test_help_lists_the_table_without_importing_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "COMMANDS", (commands.Entry("ghost", "Does not load.", "no_such_module"),))
    monkeypatch.setattr(commands, "installed", dict)
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
        (TypeError("int is no dict"), 1, "internal error: TypeError: int is no dict; --debug prints the traceback"),
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
        "import sys; from kube_fairlead.cli.main import main; main(['--help']);"
        f"sys.exit(', '.join(name for name in {heavy!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_leaves_is_no_traceback() -> None:
    # The pipe's reading end is closed before the program writes, as it is when `head` has had enough.
    script = (
        "import os, subprocess, sys; r, w = os.pipe(); os.close(r);"
        "command = [sys.executable, '-m', 'kube_fairlead.cli', '--help'];"
        "done = subprocess.run(command, stdout=w, stderr=subprocess.PIPE);"
        "sys.stderr.buffer.write(done.stderr); sys.exit(done.returncode)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_names_are_unique() -> None:
    names = [entry.name for entry in commands.COMMANDS]
    assert len(names) == len(set(names))


def test_the_table_tells_the_truth() -> None:
    points = commands.installed()
    for entry in commands.COMMANDS:
        assert bool(entry.module) != bool(entry.distribution), entry
        command = importlib.import_module(entry.module).command if entry.module else points[entry.name].load()
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
        "flag_values",
        "history_text",
        "invocation",
        "main",
        "manager_flags",
        "nodes",
        "shared_flags",
        "status_text",
        "text_tables",
        "windows_service",
    }
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    files = ({path.stem for path in folder.glob("*.py")} | packages) - frame
    assert files == {entry.module.rpartition(".")[2] for entry in commands.COMMANDS if entry.module}
