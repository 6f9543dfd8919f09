from __future__ import annotations

import asyncio
import json
import pathlib
import sys
from typing import Any

import pytest
import yaml

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import client_factory, credentials, errors, execplugin

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def plugin(tmp_path: pathlib.Path, status: dict[str, Any] | None, *, version: str = V1) -> tuple[str, ...]:
    """A program that counts its runs, keeps what it was told and prints a credential."""
    answer = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    program = tmp_path / "plugin.py"
    program.write_text(
        "import os, pathlib\n"
        f"runs = pathlib.Path({str(tmp_path / 'runs')!r})\n"
        "runs.write_text(runs.read_text() + 'x' if runs.exists() else 'x')\n"
        f"pathlib.Path({str(tmp_path / 'told')!r}).write_text(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"print({answer!r}.replace('RUN', str(len(runs.read_text()))))\n"
    )
    return (sys.executable, str(program))


def runs(tmp_path: pathlib.Path) -> int:
    return len((tmp_path / "runs").read_text())


def make(
    command: tuple[str, ...], clock: VirtualClock | None = None, mode: str = "Never", hint: str = ""
) -> execplugin.ExecCredentials:
    return execplugin.ExecCredentials(
        clock or VirtualClock(),
        command=command,
        api_version=V1,
        interactive_mode=mode,
        environment={},
        install_hint=hint,
    )


async def test_a_token_is_cached(tmp_path: pathlib.Path) -> None:
    made = make(plugin(tmp_path, {"token": "t-RUN"}))
    assert (await made.current()).authorization == "Bearer t-1"
    assert (await made.current()).authorization == "Bearer t-1"
    assert runs(tmp_path) == 1
    told = json.loads((tmp_path / "told").read_text())
    assert told == {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}}


async def test_an_expired_token_is_renewed(tmp_path: pathlib.Path) -> None:
    clock = VirtualClock()
    expires = clock.now().replace(minute=10).isoformat().replace("+00:00", "Z")
    made = make(plugin(tmp_path, {"token": "t-RUN", "expirationTimestamp": expires}), clock)
    assert (await made.current()).authorization == "Bearer t-1"
    await clock.advance(599)
    assert (await made.current()).authorization == "Bearer t-1"
    await clock.advance(2)
    assert (await made.current()).authorization == "Bearer t-2"


async def test_a_refused_token_is_renewed_once_for_all(tmp_path: pathlib.Path) -> None:
    made = make(plugin(tmp_path, {"token": "t-RUN"}))
    first = await made.current()
    assert await made.refused(first)
    assert await made.refused(first)
    assert runs(tmp_path) == 2
    assert (await made.current()).authorization == "Bearer t-2"


async def test_many_who_ask_at_once_share_one_run(tmp_path: pathlib.Path) -> None:
    made = make(plugin(tmp_path, {"token": "t-RUN"}))
    async with tasks.TaskScope("test") as scope:
        asked = [scope.start(made.current(), name=str(number)) for number in range(5)]
    assert {task.result().authorization for task in asked} == {"Bearer t-1"}


async def test_a_certificate(tmp_path: pathlib.Path) -> None:
    made = make(plugin(tmp_path, {"clientCertificateData": "CERT", "clientKeyData": "KEY"}))
    assert await made.current() == credentials.Credential("", credentials.Certificate(b"CERT", b"KEY"))


@pytest.mark.parametrize(
    ("status", "version", "problem"),
    [
        (None, V1, "did not return a status field"),
        ({}, V1, "did not return a token or a certificate and key"),
        ({"clientKeyData": "KEY"}, V1, "only a certificate or only a key"),
        ({"token": "x"}, V1BETA1, f"printed apiVersion '{V1BETA1}', expected '{V1}'"),
        ({"token": 5}, V1, "did not print an ExecCredential"),
    ],
)
async def test_bad_answers(tmp_path: pathlib.Path, status: dict[str, Any] | None, version: str, problem: str) -> None:
    with pytest.raises(errors.CredentialError, match=problem):
        await make(plugin(tmp_path, status, version=version)).current()


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(errors.CredentialError, match=r"no-such-plugin was not found; get it at example\.com"):
        await make(("no-such-plugin",), hint="get it at example.com").current()


async def test_a_program_that_may_not_run(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plain").write_text("x")
    with pytest.raises(errors.CredentialError, match="may not be executed"):
        await make((str(tmp_path / "plain"),)).current()


async def test_a_program_that_fails_is_quoted() -> None:
    complaint = "import sys; print('first', file=sys.stderr); sys.exit('login expired')"
    with pytest.raises(errors.CredentialError, match="failed with exit code 1: login expired"):
        await make((sys.executable, "-c", complaint)).current()


async def test_a_program_that_must_ask_has_nobody_to_ask(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.CredentialError, match="standard input is not a terminal"):
        await make(plugin(tmp_path, {"token": "x"}), mode="Always").current()


async def test_cancelling_ends_the_program(short_path: pathlib.Path) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        started.set()
        await reader.read()
        ended.set()
        writer.close()

    address = str(short_path / "socket")
    program = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({address!r}); s.recv(1)"
    made = make((sys.executable, "-c", program))
    server = await asyncio.start_unix_server(hold, address)
    async with server:
        async with tasks.TaskScope("test") as scope:
            asking = scope.start(made.current(), name="ask")
            await started.wait()
            asking.cancel()
        assert asking.cancelled()
        await ended.wait()


async def test_from_a_kubeconfig(tmp_path: pathlib.Path) -> None:
    command, program = plugin(tmp_path, {"token": "x"}, version=V1BETA1)
    wrapper = tmp_path / "bin" / "login"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec "{command}" "{program}"\n')
    wrapper.chmod(0o755)
    (tmp_path / "ca.crt").write_text("PEM")
    config = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://x",
                    "certificate-authority": "ca.crt",
                    "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
                },
            }
        ],
        "users": [
            {
                "name": "u",
                "user": {
                    "exec": {
                        "apiVersion": V1BETA1,
                        "command": "./bin/login",
                        "env": [{"name": "A", "value": "b"}],
                        "provideClusterInfo": True,
                    }
                },
            }
        ],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    access = client_factory.find_access(
        kubeconfig_path=path, environment=Environment({"PATH": "/usr/bin:/bin"}), clock=VirtualClock()
    )
    assert (await access.credentials.current()).authorization == "Bearer x"
    told = json.loads((tmp_path / "told").read_text())
    assert told["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://x",
            "certificate-authority-data": "UEVN",
            "config": {"audience": "a"},
        },
    }
