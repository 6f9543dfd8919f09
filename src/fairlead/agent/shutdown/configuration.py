"""The file that `fairlead agent --config` reads: the kubelet's own fields, and where things are on the node.

The kubelet's configuration file itself will do: of a file that calls itself a KubeletConfiguration only the fields that
matter here are looked at. In any other file, an unknown field is a mistake.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Final

import yaml

from fairlead.lifecycle.shutdown_config import BadShutdownConfig, ShutdownConfig, read_shutdown_config

__all__ = ["AgentConfig", "kubelet_is_configured", "read_config"]

_SHUTDOWN: Final = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority")
_RUNTIME: Final = "containerRuntimeEndpoint"
_UNIT: Final = "kubeletUnit"
_KUBELET_CONFIG: Final = "kubeletConfigFile"
_FIELDS: Final = frozenset({*_SHUTDOWN, _RUNTIME, _UNIT, _KUBELET_CONFIG, "apiVersion", "kind"})
_SCHEME: Final = "unix://"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """What the file says."""

    shutdown: ShutdownConfig = dataclasses.field(default_factory=ShutdownConfig)
    runtime_endpoint: str = "/run/containerd/containerd.sock"
    kubelet_unit: str = "kubelet.service"
    kubelet_config_file: Path = Path("/var/lib/kubelet/config.yaml")


def read_config(path: Path, *, gate_is_on: bool = True) -> AgentConfig:
    """Read the file.

    Raises:
        BadShutdownConfig: something in it is wrong; the message names the file and the field.
    """
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadShutdownConfig([f"{path}: cannot be read: {error}"]) from error
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
    endpoint = texts[_RUNTIME]
    if endpoint and not endpoint.startswith((_SCHEME, "/")):
        problems.append(
            f"{_RUNTIME} {endpoint!r} must be a unix socket, such as unix:///run/containerd/containerd.sock"
        )
    if problems:
        raise BadShutdownConfig([f"{path}: {problem}" for problem in problems])
    defaults = AgentConfig()
    return AgentConfig(
        shutdown=shutdown,
        runtime_endpoint=endpoint.removeprefix(_SCHEME) or defaults.runtime_endpoint,
        kubelet_unit=texts[_UNIT] or defaults.kubelet_unit,
        kubelet_config_file=Path(texts[_KUBELET_CONFIG]) if texts[_KUBELET_CONFIG] else defaults.kubelet_config_file,
    )


def kubelet_is_configured(path: Path) -> bool:
    """Whether a kubelet's configuration file has it end pods itself. One that cannot be read does not say so."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        return isinstance(tree, dict) and read_shutdown_config(tree).enabled
    except (OSError, UnicodeDecodeError, yaml.YAMLError, BadShutdownConfig):
        return False


def _unknown(tree: dict[Any, Any]) -> list[str]:
    if tree.get("kind") == "KubeletConfiguration":
        return []
    known = ", ".join(sorted(_FIELDS))
    return [f"unknown field {name!r}; there are {known}" for name in sorted(map(str, tree)) if name not in _FIELDS]


def _text(tree: dict[Any, Any], name: str, problems: list[str]) -> str:
    value = tree.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    problems.append(f"{name} {value!r} must be a text")
    return ""
