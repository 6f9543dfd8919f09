from __future__ import annotations

import base64
import stat
from pathlib import Path

import yaml

from kube_fairlead_apiserver.security.kubeconfig import Kubeconfig
from kube_fairlead_apiserver.security.pki.credentials import Credentials


def test_write(tmp_path: Path) -> None:
    path = tmp_path / "admin.kubeconfig"
    Kubeconfig("https://127.0.0.1:6443", b"CA", Credentials(b"CERT", b"KEY")).write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["current-context"] == "admin@fairlead"
    assert config["contexts"] == [{"name": "admin@fairlead", "context": {"cluster": "fairlead", "user": "admin"}}]
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"CA"
    assert base64.b64decode(user["client-certificate-data"]) == b"CERT"
    assert base64.b64decode(user["client-key-data"]) == b"KEY"


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    config = Kubeconfig("https://127.0.0.1:6443", b"ca", Credentials(b"crt", b"key"))
    path = tmp_path / "admin.kubeconfig"
    config.write(path)
    before = path.stat().st_ino
    path.chmod(0o644)
    config.write(path)
    assert path.stat().st_ino == before, "a full disk does not stop a restart"
    assert path.stat().st_mode & 0o777 == 0o600
    Kubeconfig("https://127.0.0.1:7443", b"ca", Credentials(b"crt", b"key")).write(path)
    assert "7443" in path.read_text()
