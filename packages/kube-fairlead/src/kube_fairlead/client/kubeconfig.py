"""From kubeconfig files to an Access: which files, which context, which certificates and credentials.

Upstream: k8s.io/client-go@v0.36.4/tools/clientcmd/client_config.go,
    k8s.io/client-go@v0.36.4/tools/clientcmd/loader.go,
    k8s.io/client-go@v0.36.4/rest/url_utils.go
"""

from __future__ import annotations

import base64
import binascii
import os
import pathlib
import urllib.parse
from collections.abc import Sequence
from typing import TypeVar

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import credentials, errors, execplugin, kubeconfigfile
from kube_fairlead.client.kubeconfigfile import Cluster, Kubeconfig, Sourced, User
from kube_fairlead.client.server_access import Access, Impersonation

__all__ = ["access_for", "default_paths", "read"]

_T = TypeVar("_T")

_PROXY_SCHEMES = frozenset({"http", "https"})


def default_paths(environment: Environment) -> list[pathlib.Path]:
    """Where kubectl looks: every file in KUBECONFIG, else ~/.kube/config."""
    named = environment.get("KUBECONFIG")
    if named is None:
        return [environment.home() / ".kube" / "config"]
    return [pathlib.Path(part) for part in named.split(os.pathsep) if part]


def read(paths: Sequence[pathlib.Path]) -> Kubeconfig:
    """Read and merge the files that exist.

    Raises:
        KubeconfigError: one of them is broken.
    """
    return kubeconfigfile.merge([kubeconfigfile.parse(path) for path in paths if path.exists()])


def access_for(
    config: Kubeconfig,
    *,
    context: str = "",
    environment: Environment,
    clock: Clock,
) -> Access:
    """What one context says, checked.

    Raises:
        KubeconfigError: the context, its cluster or its user is missing or contradicts itself.
    """
    name = context or config.current_context
    any_path = config.paths[0] if config.paths else None
    if not name:
        raise errors.KubeconfigError(
            f"no context chosen; known contexts: {_known(config.contexts)}", field="current-context", path=any_path
        )
    if name not in config.contexts:
        field = "contexts" if context else "current-context"
        raise errors.KubeconfigError(
            f"there is no context {name!r}; known contexts: {_known(config.contexts)}", field=field, path=any_path
        )
    chosen = config.contexts[name]
    field = f"contexts[{name}].context"
    cluster = _referred(config.clusters, chosen.value.cluster, "cluster", field, chosen.path)
    user = (
        _referred(config.users, chosen.value.user, "user", field, chosen.path)
        if chosen.value.user
        else Sourced(User(), chosen.path)
    )
    cluster_entry = _Entry(f"clusters[{chosen.value.cluster}].cluster", cluster.path)
    user_entry = _Entry(f"users[{chosen.value.user}].user", user.path)
    return Access(
        server=_server(cluster.value, cluster_entry),
        namespace=chosen.value.namespace or "default",
        certificate_authority=_authority_data(cluster.value, cluster_entry),
        certificate_authority_file=_authority_file(cluster.value, cluster_entry),
        tls_server_name=cluster.value.tls_server_name,
        insecure_skip_tls_verify=cluster.value.insecure_skip_tls_verify,
        proxy_url=_proxy(cluster.value, cluster_entry),
        credentials=_credentials(user.value, user_entry, cluster, environment, clock),
        impersonation=_impersonation(user.value, user_entry),
    )


class _Entry:
    """Where a value stands, for error messages and relative paths."""

    def __init__(self, field: str, path: pathlib.Path) -> None:
        self.field = field
        self.path = path

    def error(self, field: str, problem: str) -> errors.KubeconfigError:
        return errors.KubeconfigError(problem, field=f"{self.field}.{field}", path=self.path)

    def resolve(self, name: str) -> pathlib.Path:
        """Relative paths count from the folder of the file that names them."""
        return self.path.parent / name

    def existing(self, field: str, name: str) -> pathlib.Path:
        path = self.resolve(name)
        try:
            with path.open("rb"):
                return path
        except OSError as error:
            raise self.error(field, f"cannot read {path}: {error.strerror or error}") from error

    def decoded(self, field: str, data: str) -> bytes:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as error:
            raise self.error(field, "is not valid base64") from error


def _referred(entries: dict[str, Sourced[_T]], name: str, what: str, field: str, path: pathlib.Path) -> Sourced[_T]:
    if not name:
        raise errors.KubeconfigError("must not be empty", field=f"{field}.{what}", path=path)
    if name not in entries:
        raise errors.KubeconfigError(
            f"there is no {what} {name!r}; known {what}s: {_known(entries)}", field=f"{field}.{what}", path=path
        )
    return entries[name]


def _known(entries: dict[str, Sourced[_T]]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _server(cluster: Cluster, entry: _Entry) -> str:
    if not cluster.server:
        raise entry.error("server", "must not be empty")
    # As client-go does: a bare host is HTTP, which is what a server on localhost without TLS is reached by.
    server = cluster.server if "://" in cluster.server else f"http://{cluster.server}"
    parsed = urllib.parse.urlsplit(server)
    try:
        valid = parsed.scheme in {"http", "https"} and parsed.hostname and (parsed.port is None or parsed.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise entry.error("server", f"{cluster.server!r} must be a URL such as https://host:6443")
    return server.rstrip("/")


def _authority_data(cluster: Cluster, entry: _Entry) -> bytes | None:
    if not cluster.certificate_authority_data:
        return None
    return entry.decoded("certificate-authority-data", cluster.certificate_authority_data)


def _authority_file(cluster: Cluster, entry: _Entry) -> pathlib.Path | None:
    has_authority = cluster.certificate_authority or cluster.certificate_authority_data
    if cluster.insecure_skip_tls_verify and has_authority:
        raise entry.error("insecure-skip-tls-verify", "must not be true when a certificate authority is given")
    # Data given as well overrides the file, which then need not exist.
    if not cluster.certificate_authority or cluster.certificate_authority_data:
        return None
    return entry.existing("certificate-authority", cluster.certificate_authority)


def _proxy(cluster: Cluster, entry: _Entry) -> str:
    if not cluster.proxy_url:
        return ""
    parsed = urllib.parse.urlsplit(cluster.proxy_url)
    if parsed.scheme not in _PROXY_SCHEMES or not parsed.hostname:
        raise entry.error("proxy-url", f"{_without_password(parsed)!r} must be an http:// or https:// URL")
    return cluster.proxy_url


def _without_password(url: urllib.parse.SplitResult) -> str:
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()


def _impersonation(user: User, entry: _Entry) -> Impersonation | None:
    if user.impersonate:
        return Impersonation(
            user=user.impersonate,
            uid=user.as_uid,
            groups=tuple(user.as_groups or ()),
            extra={key: tuple(values) for key, values in (user.as_user_extra or {}).items()},
        )
    if user.as_uid or user.as_groups or user.as_user_extra:
        raise entry.error("as", "must be given with as-uid, as-groups or as-user-extra")
    return None


def _credentials(
    user: User, entry: _Entry, cluster: Sourced[Cluster], environment: Environment, clock: Clock
) -> credentials.Credentials:
    if user.auth_provider is not None:
        raise entry.error("auth-provider", "was removed from Kubernetes in 1.26; use exec instead")
    basic = bool(user.username or user.password)
    if basic and (user.token or user.token_file):
        raise entry.error("token", "must not be given together with username and password")
    fixed = credentials.Credential(authorization=_authorization(user), certificate=_certificate_data(user, entry))
    token_file = entry.existing("tokenFile", user.token_file) if user.token_file else None
    certificate_file, key_file = _certificate_files(user, entry, has_data=fixed.certificate is not None)
    if token_file or certificate_file:
        return credentials.FileCredentials(
            clock, token_file=token_file, certificate_file=certificate_file, key_file=key_file, fallback=fixed
        )
    if fixed != credentials.Credential() or user.exec is None:
        return credentials.StaticCredentials(fixed)
    return execplugin.from_config(
        user.exec, cluster, field=f"{entry.field}.exec", path=entry.path, environment=environment, clock=clock
    )


def _authorization(user: User) -> str:
    if user.token:
        return credentials.bearer(user.token)
    if user.username or user.password:
        return credentials.basic(user.username, user.password)
    return ""


def _certificate_data(user: User, entry: _Entry) -> credentials.Certificate | None:
    if not user.client_certificate_data:
        return None
    if not user.client_key_data and not user.client_key:
        raise entry.error("client-key-data", "must be given with client-certificate-data")
    key = (
        entry.decoded("client-key-data", user.client_key_data)
        if user.client_key_data
        else entry.existing("client-key", user.client_key).read_bytes()
    )
    return credentials.Certificate(entry.decoded("client-certificate-data", user.client_certificate_data), key)


def _certificate_files(user: User, entry: _Entry, *, has_data: bool) -> tuple[pathlib.Path | None, pathlib.Path | None]:
    if has_data:
        return None, None
    if not user.client_certificate:
        if user.client_key or user.client_key_data:
            raise entry.error("client-certificate", "must be given with client-key")
        return None, None
    if not user.client_key:
        problem = "must be given with client-certificate"
        raise entry.error("client-key", problem)
    return (
        entry.existing("client-certificate", user.client_certificate),
        entry.existing("client-key", user.client_key),
    )
