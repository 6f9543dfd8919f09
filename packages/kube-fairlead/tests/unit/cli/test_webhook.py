from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead_lab.testing.credentials import CertificateAuthority

NO_ENVIRONMENT = Environment({})


def test_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority, _ = CertificateAuthority.create(tmp_path).serving("webhook")
    arguments = ["webhook", "manifests", "--resource=vms.example.com", f"--ca-file={authority}", "--namespace=here"]
    assert main(arguments, environment=NO_ENVIRONMENT) == 0
    kinds = [document["kind"] for document in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service", "ValidatingWebhookConfiguration"]


def test_manifests_of_one_that_runs_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["webhook", "manifests", "--resource=vms.example.com", "--url=https://10.0.0.1/delete"]
    assert main(arguments, environment=NO_ENVIRONMENT) == 0
    kinds = [document["kind"] for document in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["webhook"], "set --tls-secret, or --tls-cert-file and --tls-private-key-file"),
        (["webhook", "manifests"], "set --resource, --evictions-of, or both"),
        (["webhook", "manifests", "--resource=pods"], "'pods' is not PLURAL.GROUP"),
        (["webhook", "manifests", "--resource=vms.example"], "'vms.example' is not PLURAL.GROUP"),
        (["webhook", "--tls-cert-file=/nowhere"], "does not exist"),
        (["webhook", "manifests", "--resource=a.b.c", "--url=https://x/delete", "--image=i"], "set one of them"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments, environment=NO_ENVIRONMENT) == 2
    assert words in capsys.readouterr().err


def test_what_records_deletions_replaces_nothing_that_install_sets_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever page is followed second: the fail-closed eviction webhook goes on with its own certificates."""
    printed = []
    own = ["webhook", "manifests", "--resource=vms.example.com", "--image=i"]
    for command in (["install"], own, [*own, "--own-certificates"]):
        assert main(command) == 0
        printed.append(list(yaml.safe_load_all(capsys.readouterr().out)))
    installed, given, made = (
        {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in documents}
        for documents in printed
    )
    assert ("Deployment", "fairlead-system", "fairlead-webhook") in installed
    assert ("Deployment", "fairlead-system", "fairlead-deletion-webhook") in given & made
    assert installed & (given | made) == set()
    # Neither writes what API servers trust into the other's registration.
    kept = [
        {arg for arg in one["spec"]["template"]["spec"]["containers"][0]["args"] if "--webhook-configuration" in arg}
        for documents in (printed[0], printed[2])
        for one in documents
        if one["kind"] == "Deployment" and one["metadata"]["name"].endswith("-webhook")
    ]
    assert kept == [
        {"--webhook-configuration=fairlead-webhook-evictions"},
        {"--webhook-configuration=fairlead-webhook"},
    ]
