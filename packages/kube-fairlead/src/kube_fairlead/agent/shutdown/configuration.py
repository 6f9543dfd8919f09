"""The file that `fairlead agent --config` reads: the kubelet's own fields, and paths on the node.

The kubelet's configuration file works too: of a file of kind KubeletConfiguration only the fields below are read. In
any other file, an unknown field is an error.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, Final

from kube_fairlead.api.yamltext import parser
from kube_fairlead.base import logs
from kube_fairlead.lifecycle.shutdown_config import BadShutdownConfig, ShutdownConfig, read_shutdown_config

__all__ = ["AgentConfig", "kubelet_is_configured", "read_config"]

_SHUTDOWN: Final = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority")
_RUNTIME: Final = "containerRuntimeEndpoint"
_UNIT: Final = "kubeletUnit"
_KUBELET_CONFIG: Final = "kubeletConfigFile"
_FIELDS: Final = frozenset({*_SHUTDOWN, _RUNTIME, _UNIT, _KUBELET_CONFIG, "apiVersion", "kind"})
_SOCKET_SCHEME: Final = "unix://"
_PIPE_SCHEME: Final = "npipe://"
_PIPES: Final = "//./pipe/"

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The contents of the file, with the defaults for Linux."""

    shutdown: ShutdownConfig = dataclasses.field(default_factory=ShutdownConfig)
    runtime_endpoint: str = "/run/containerd/containerd.sock"
    kubelet_unit: str = "kubelet.service"  # on Windows, the name of the service
    kubelet_config_file: Path = Path("/var/lib/kubelet/config.yaml")


_WINDOWS: Final = AgentConfig(
    runtime_endpoint=r"\\.\pipe\containerd-containerd",
    kubelet_unit="kubelet",
    kubelet_config_file=Path(r"C:\var\lib\kubelet\config.yaml"),
)


def read_config(path: Path, *, gate_is_on: bool = True, system: str = sys.platform) -> AgentConfig:
    """Read the file.

    Raises:
        BadShutdownConfig: a field is invalid; the message names the file and the field.
    """
    try:
        tree = parser.read(path.read_bytes())
    except parser.YamlError as error:
        raise BadShutdownConfig([f"{path}: is not valid YAML: {error}"]) from error
    except OSError as error:
        raise BadShutdownConfig([f"{path}: cannot be read: {error.strerror or error}"]) from error
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise BadShutdownConfig([f"{path}: must be a mapping of fields"])
    problems = _unknown(tree)
    texts = {name: _text(tree, name, problems) for name in (_RUNTIME, _UNIT, _KUBELET_CONFIG)}
    shutdown = ShutdownConfig()
    try:
        shutdown = read_shutdown_config(tree, gate_is_on=gate_is_on)
    except BadShutdownConfig as error:
        problems += error.problems
    endpoint = _endpoint(texts[_RUNTIME], problems, system)
    if problems:
        raise BadShutdownConfig([f"{path}: {problem}" for problem in problems])
    defaults = _WINDOWS if system == "win32" else AgentConfig()
    return AgentConfig(
        shutdown=shutdown,
        runtime_endpoint=endpoint or defaults.runtime_endpoint,
        kubelet_unit=texts[_UNIT] or defaults.kubelet_unit,
        kubelet_config_file=Path(texts[_KUBELET_CONFIG]) if texts[_KUBELET_CONFIG] else defaults.kubelet_config_file,
    )


def kubelet_is_configured(path: Path) -> bool:
    """Whether a kubelet's configuration file enables graceful node shutdown. False if it cannot be read."""
    try:
        tree = parser.read(path.read_bytes())
        return isinstance(tree, dict) and read_shutdown_config(tree).enabled
    except FileNotFoundError:
        return False
    except (OSError, parser.YamlError, BadShutdownConfig) as error:
        # The agent then terminates pods, and the kubelet may too.
        _log.warning("kubelet configuration cannot be read", path=str(path), error=str(error))
        return False


def _endpoint(text: str, problems: list[str], system: str) -> str:
    """Return the path of the runtime's socket or pipe on this system."""
    if system != "win32":
        if text and not text.startswith((_SOCKET_SCHEME, "/")):
            problems.append(
                f"{_RUNTIME} {text!r} must be a unix socket, such as unix:///run/containerd/containerd.sock"
            )
        return text.removeprefix(_SOCKET_SCHEME)
    # As the kubelet: npipe:////./pipe/name, npipe://./pipe/name and the bare path.
    pipe = "//" + text.removeprefix(_PIPE_SCHEME).replace("\\", "/").lstrip("/")
    if text and not (pipe.startswith(_PIPES) and len(pipe) > len(_PIPES)):
        problems.append(f"{_RUNTIME} {text!r} must be a named pipe, such as npipe:////./pipe/containerd-containerd")
    return pipe.replace("/", "\\") if text else ""


def _unknown(tree: dict[Any, Any]) -> list[str]:
    if tree.get("kind") == "KubeletConfiguration":
        return []
    known = ", ".join(sorted(_FIELDS))
    return [f"unknown field {name!r}; known fields: {known}" for name in sorted(map(str, tree)) if name not in _FIELDS]


def _text(tree: dict[Any, Any], name: str, problems: list[str]) -> str:
    value = tree.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    problems.append(f"{name} {value!r} must be a string")
    return ""
