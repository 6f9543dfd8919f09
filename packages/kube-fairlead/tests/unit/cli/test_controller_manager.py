from __future__ import annotations

from pathlib import Path

import pytest

from kube_fairlead.base.environment import Environment
from kube_fairlead.cli import controller_manager
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.main import main

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--controllers=nonsense"],
            '"nonsense" is not in the list of known controllers: event-gc, transition-gc, record-gc',
        ),
        (["--controllers=event-gc", "--leader-elect-groups=a=stall"], "group a names stall, which does not run"),
        (["--leader-elect-group-kubeconfig=a"], "must be GROUP=FILE, got"),
        (["--leader-elect-group-kubeconfig=a=/dev/null"], "no group a in --leader-elect-groups"),
        (["--leader-elect-renew-deadline=20s"], "must be greater than --leader-elect-renew-deadline"),
        (["--leader-elect-retry-period=0s"], "must be positive"),
        (["--leader-elect-resource-lock=endpoints"], "is not 'leases'"),
        (["--feature-gates=Nonsense=true"], "unrecognized feature gate: Nonsense"),
        (["--tls-cert-file=pyproject.toml"], "--tls-cert-file and --tls-private-key-file: set both or neither"),
    ],
)
def test_bad_usage(kubeconfig: str, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["controller-manager", f"--kubeconfig={kubeconfig}", *arguments], environment=Environment({})) == 2
    assert problem in " ".join(capsys.readouterr().err.split())


def manager_of(kubeconfig: str, *arguments: str, environment: dict[str, str] | None = None) -> object:
    context = controller_manager.command.make_context("controller-manager", [f"--kubeconfig={kubeconfig}", *arguments])
    return controller_manager._manager(Invocation(Environment(environment or {})), context.params)


async def test_defaults_are_upstreams(kubeconfig: str) -> None:
    manager = manager_of(kubeconfig)
    options = manager._options  # type: ignore[attr-defined]  # what the flags came to
    assert [str(group.lock) for group in options.groups] == ["kube-system/fairlead-controller-manager"]
    assert [controller.name for group in options.groups for controller in group.controllers] == [
        "event-gc",
        "transition-gc",
        "record-gc",
        "stall",
        "shutdown-observer",
    ]
    assert (options.timing.lease_duration_seconds, options.timing.renew_deadline_seconds) == (15, 10)
    assert options.shutdown_timeout_seconds == 10
    assert (options.serving.bind_address, options.serving.port) == ("127.0.0.1", 10257)
    assert options.leader_elect
    assert options.rules().release
    assert options.rules().stay


async def test_flags_reach_the_manager(kubeconfig: str) -> None:
    manager = manager_of(
        kubeconfig,
        "--leader-elect-groups=a=event-gc;b=",
        "--secure-port=0",
        "--leader-elect=false",
        "--leader-elect-resource-name=x",
        "--leader-elect-resource-namespace=y",
        "--concurrent-event-gc-syncs=7",
        "--feature-gates=GracefulLeaderTransition=false,ControllerManagerReleaseLeaderElectionLockOnExit=false",
        environment={"POD_NAME": "pod-1", "POD_UID": "u-1"},
    )
    options = manager._options  # type: ignore[attr-defined]  # what the flags came to
    assert [str(group.lock) for group in options.groups] == ["y/x-a", "y/x-b"]
    assert options.groups[0].controllers[0].workers == 7
    assert options.serving.port is None
    assert not options.leader_elect
    assert not options.rules().release
    assert not options.rules().stay
    assert options.identity.startswith("pod-1_u-1_")
