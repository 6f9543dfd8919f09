from __future__ import annotations

import base64
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import client_factory, credentials, errors, kubeconfig
from kube_fairlead.client.server_access import Access, Impersonation

NO_ENVIRONMENT = Environment({"HOME": "/nonexistent"})


def write(path: pathlib.Path, document: Mapping[str, Any] | str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(dict(document)))
    return path


def document(*, cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": dict(user or {})}],
    }


def load(path: pathlib.Path, context: str = "") -> Access:
    return client_factory.find_access(
        kubeconfig_path=path, context=context, environment=NO_ENVIRONMENT, clock=VirtualClock()
    )


async def credential(path: pathlib.Path) -> credentials.Credential:
    return await load(path).credentials.current()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_everything_of_a_cluster(tmp_path: pathlib.Path) -> None:
    access = load(
        write(
            tmp_path / "config",
            document(
                cluster={
                    "certificate-authority-data": encoded("PEM"),
                    "tls-server-name": "kubernetes",
                    "proxy-url": "http://proxy:3128",
                },
                user={"as": "jane", "as-uid": "7", "as-groups": ["a"], "as-user-extra": {"x": ["z"]}},
            ),
        )
    )
    assert access.server == "https://10.0.0.1:6443"
    assert access.namespace == "shop"
    assert access.certificate_authority == b"PEM"
    assert access.tls_server_name == "kubernetes"
    assert access.proxy_url == "http://proxy:3128"
    assert access.impersonation == Impersonation(user="jane", uid="7", groups=("a",), extra={"x": ("z",)})


def test_relative_paths_count_from_the_file(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "conf" / "pki" / "ca.crt", "PEM")
    path = write(tmp_path / "conf" / "config", document(cluster={"certificate-authority": "pki/ca.crt"}))
    assert load(path).certificate_authority_file == tmp_path / "conf" / "pki" / "ca.crt"


def test_data_overrides_a_file_that_need_not_exist(tmp_path: pathlib.Path) -> None:
    access = load(
        write(
            tmp_path / "config",
            document(cluster={"certificate-authority": "gone", "certificate-authority-data": encoded("PEM")}),
        )
    )
    assert (access.certificate_authority, access.certificate_authority_file) == (b"PEM", None)


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        ({}, ""),
        ({"token": "abc"}, "Bearer abc"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({"token": "abc", "tokenFile": "token"}, "Bearer from-file"),
        ({"username": "a", "password": "b"}, f"Basic {encoded('a:b')}"),
    ],
)
async def test_authorization(tmp_path: pathlib.Path, user: dict[str, str], authorization: str) -> None:
    write(tmp_path / "token", "from-file\n")
    path = write(tmp_path / "config", document(user=user))
    assert (await credential(path)).authorization == authorization


async def test_inline_certificate(tmp_path: pathlib.Path) -> None:
    user = {"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")}
    path = write(tmp_path / "config", document(user=user))
    assert (await credential(path)).certificate == credentials.Certificate(b"CERT", b"KEY")


async def test_certificate_files_with_a_token(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "tls.crt", "CERT")
    write(tmp_path / "tls.key", "KEY")
    user = {"client-certificate": "tls.crt", "client-key": "tls.key", "token": "abc"}
    path = write(tmp_path / "config", document(user=user))
    assert await credential(path) == credentials.Credential("Bearer abc", credentials.Certificate(b"CERT", b"KEY"))


def test_a_bare_host_is_http_as_for_kubectl(tmp_path: pathlib.Path) -> None:
    assert load(write(tmp_path / "config", document(cluster={"server": "localhost:8080"}))).server == (
        "http://localhost:8080"
    )


def test_the_first_of_several_files_wins(tmp_path: pathlib.Path) -> None:
    first = write(
        tmp_path / "a" / "config",
        {
            "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://first"}}],
        },
    )
    second = document(cluster={"server": "https://second", "tls-server-name": "second"}, user={"token": "t"})
    write(tmp_path / "b" / "config", second)
    environment = Environment(
        {"KUBECONFIG": f"{tmp_path}/missing:{first}:{tmp_path / 'b' / 'config'}", "HOME": str(tmp_path)}
    )
    access = client_factory.find_access(environment=environment, clock=VirtualClock())
    assert access.server == "https://first"
    assert not access.tls_server_name
    assert access.namespace == "default"


def test_the_home_folders_file_is_the_default(tmp_path: pathlib.Path) -> None:
    write(tmp_path / ".kube" / "config", document())
    environment = Environment({"HOME": str(tmp_path)})
    assert client_factory.find_access(environment=environment).server == "https://10.0.0.1:6443"
    assert kubeconfig.default_paths(environment) == [tmp_path / ".kube" / "config"]


def test_another_context_can_be_chosen(tmp_path: pathlib.Path) -> None:
    both = document()
    both["contexts"].append({"name": "prod", "context": {"cluster": "p"}})
    both["clusters"].append({"name": "p", "cluster": {"server": "https://prod/"}})
    assert load(write(tmp_path / "config", both), "prod").server == "https://prod"


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in document().items() if name != key}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (without("current-context"), "current-context: no context chosen; known contexts: dev"),
        (without("clusters"), "contexts[dev].context.cluster: there is no cluster 'c'; known clusters: none"),
        (without("users"), "contexts[dev].context.user: there is no user 'u'; known users: none"),
        (without("contexts"), "current-context: there is no context 'dev'; known contexts: none"),
        ("clusters: [", "is not valid YAML in line 2, column 1"),
        ("- a", "expected `object`, got `array`"),
        (document(cluster={"server": 5}), "clusters[0].cluster.server: expected `str`, got `int`"),
        (document(cluster={"server": ""}), "clusters[c].cluster.server: must not be empty"),
        (
            document(cluster={"server": "ftp://x"}),
            "clusters[c].cluster.server: 'ftp://x' must be a URL such as https://host:6443",
        ),
        (
            document(cluster={"server": "https://x:port"}),
            "clusters[c].cluster.server: 'https://x:port' must be a URL such as https://host:6443",
        ),
        (
            document(cluster={"certificate-authority-data": "%%%"}),
            "clusters[c].cluster.certificate-authority-data: is not valid base64",
        ),
        (
            document(cluster={"certificate-authority-data": encoded("x"), "insecure-skip-tls-verify": True}),
            "clusters[c].cluster.insecure-skip-tls-verify: must not be true when a certificate authority is given",
        ),
        (
            document(cluster={"proxy-url": "socks5://u:secret@p"}),
            "clusters[c].cluster.proxy-url: 'socks5://p' must be an http:// or https:// URL",
        ),
        (document(user={"auth-provider": {"name": "gcp"}}), "users[u].user.auth-provider: was removed"),
        (document(user={"as-groups": ["a"]}), "users[u].user.as: must be given with as-uid"),
        (
            document(user={"token": "a", "username": "b"}),
            "users[u].user.token: must not be given together with username and password",
        ),
        (
            document(user={"client-certificate-data": encoded("x")}),
            "users[u].user.client-key-data: must be given with client-certificate-data",
        ),
        (document(user={"client-key": "x"}), "users[u].user.client-certificate: must be given with client-key"),
        (document(user={"client-certificate": "x"}), "users[u].user.client-key: must be given with"),
        (document(user={"exec": {}}), "users[u].user.exec.command: must not be empty"),
        (
            document(user={"exec": {"command": "x", "apiVersion": "v1"}}),
            "users[u].user.exec.apiVersion: must be one of client.authentication.k8s.io/v1, ",
        ),
        (
            document(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
            "users[u].user.exec.interactiveMode: must be one of Never, IfAvailable, Always, not ''",
        ),
        ({"clusters": [{"name": ""}]}, "clusters[0].name: must not be empty"),
    ],
)
def test_errors_name_file_and_field(tmp_path: pathlib.Path, content: Mapping[str, Any] | str, problem: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(errors.KubeconfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"kubeconfig {path}: {problem}")
    assert "\n" not in str(caught.value)


def test_missing_files_are_named(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "config", document(cluster={"certificate-authority": "gone.crt"}))
    with pytest.raises(errors.KubeconfigError, match=r"certificate-authority: cannot read .*gone\.crt: No such file"):
        load(path)
    with pytest.raises(errors.KubeconfigError, match="missing: does not exist"):
        load(tmp_path / "missing")


def test_an_unknown_context_lists_the_known(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.KubeconfigError, match="there is no context 'x'; known contexts: dev"):
        load(write(tmp_path / "config", document()), "x")


def test_no_way_in_at_all() -> None:
    with pytest.raises(errors.KubeconfigError, match=r"/nonexistent/\.kube/config does not exist, and this is no"):
        client_factory.find_access(environment=NO_ENVIRONMENT)


def test_secrets_are_not_in_errors(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "config", document(user={"token": ["hunter2"]}))
    with pytest.raises(errors.KubeconfigError, match=r"users\[0\]\.user\.token") as caught:
        load(path)
    assert "hunter2" not in str(caught.value)
