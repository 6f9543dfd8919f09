"""The kubeconfig file format, and how several files become one.

Upstream: k8s.io/client-go@v0.36.4/tools/clientcmd/loader.go,
    k8s.io/client-go@v0.36.4/tools/clientcmd/api/types.go,
    k8s.io/client-go@v0.36.4/tools/clientcmd/validation.go
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kube_fairlead.api.yamltext import parser
from kube_fairlead.client import errors

__all__ = [
    "Cluster",
    "Context",
    "ExecConfig",
    "ExecEnvVar",
    "Kubeconfig",
    "NamedExtension",
    "Sourced",
    "User",
    "merge",
    "parse",
]


class NamedExtension(msgspec.Struct, frozen=True):
    """Anything a tool wants to keep in the file."""

    name: str
    extension: Any = None


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """One server and how to trust it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[NamedExtension] | None = None


class ExecEnvVar(msgspec.Struct, frozen=True):
    """A variable for an exec plugin."""

    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints a credential."""

    command: str = ""
    args: list[str] | None = None
    env: list[ExecEnvVar] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """One identity. Secrets are never part of an error message."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonate: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    username: str = ""
    password: str = ""
    auth_provider: dict[str, Any] | None = None
    exec: ExecConfig | None = None


class Context(msgspec.Struct, frozen=True):
    """A cluster, a user and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: Cluster | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: Context | None = None


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


_T = TypeVar("_T")


class Sourced(Generic[_T]):
    """An entry and the file it came from: relative paths count from there."""

    __slots__ = ("path", "value")

    def __init__(self, value: _T, path: pathlib.Path) -> None:
        self.value = value
        self.path = path


class Kubeconfig:
    """One or several files as one. Entries are looked up by name."""

    def __init__(self, paths: Sequence[pathlib.Path] = ()) -> None:
        self.paths = tuple(paths)
        self.clusters: dict[str, Sourced[Cluster]] = {}
        self.users: dict[str, Sourced[User]] = {}
        self.contexts: dict[str, Sourced[Context]] = {}
        self.current_context = ""


def parse(path: pathlib.Path) -> Kubeconfig:
    """Read one file.

    Raises:
        KubeconfigError: unreadable, not YAML, or a field of the wrong type.
    """
    try:
        document = parser.read(path.read_bytes())
    except OSError as error:
        raise errors.KubeconfigError(f"cannot be read: {error.strerror or error}", path=path) from error
    except parser.YamlError as error:
        # Not in the parser's words, nor with its error behind it: both may quote a secret.
        raise errors.KubeconfigError(f"is not valid YAML{error.where and f' in {error.where}'}", path=path) from None
    if document is None:
        document = {}
    try:
        file = msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        # msgspec says "<what> - at `$.users[0].user.token`", and never the value itself.
        what, _, where = str(error).partition(" - at `$")
        raise errors.KubeconfigError(
            what[:1].lower() + what[1:], field=where.rstrip("`").lstrip("."), path=path
        ) from error
    return _by_name(file, path)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def _by_name(file: _File, path: pathlib.Path) -> Kubeconfig:
    config = Kubeconfig([path])
    for entry in _checked(file.clusters or (), "clusters", path):
        config.clusters.setdefault(entry.name, Sourced(entry.cluster or Cluster(), path))
    for user in _checked(file.users or (), "users", path):
        config.users.setdefault(user.name, Sourced(user.user or User(), path))
    for context in _checked(file.contexts or (), "contexts", path):
        config.contexts.setdefault(context.name, Sourced(context.context or Context(), path))
    config.current_context = file.current_context or ""
    return config


_N = TypeVar("_N", bound=_Named)


def _checked(entries: Iterable[_N], field: str, path: pathlib.Path) -> Iterable[_N]:
    for index, entry in enumerate(entries):
        if not entry.name:
            raise errors.KubeconfigError("must not be empty", field=f"{field}[{index}].name", path=path)
        yield entry


def merge(configs: Sequence[Kubeconfig]) -> Kubeconfig:
    """As kubectl does: the first file that has an entry, or a current context, decides it whole."""
    merged = Kubeconfig([path for config in configs for path in config.paths])
    for config in configs:
        merged.clusters = config.clusters | merged.clusters
        merged.users = config.users | merged.users
        merged.contexts = config.contexts | merged.contexts
        merged.current_context = merged.current_context or config.current_context
    return merged
