from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fairlead.base.environment import Environment
from fairlead.cli.main import main
from fairlead.testing.credentials import CertificateAuthority

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
        (["webhook"], "--tls-cert-file and --tls-private-key-file, are needed"),
        (["webhook", "manifests"], "say what it is for: --resource, --evictions-of, or both"),
        (["webhook", "manifests", "--resource=pods"], "'pods' is not PLURAL.GROUP"),
        (["webhook", "manifests", "--resource=vms.example"], "'vms.example' is not PLURAL.GROUP"),
        (["webhook", "--tls-cert-file=/nowhere"], "does not exist"),
        (["webhook", "manifests", "--resource=a.b.c", "--url=https://x/delete", "--image=i"], "name one"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments, environment=NO_ENVIRONMENT) == 2
    assert words in capsys.readouterr().err
