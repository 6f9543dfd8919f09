"""The facts about the node's pods that their termination needs, on disk: a shutdown never waits for the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Container, Pod
from kube_fairlead.base import files, logs
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle import shutdown_status
from kube_fairlead.lifecycle.shutdown_plan import EndingPod

__all__ = ["CachedPod", "PodCache", "cached"]

_FILE: Final = "pods.json"
_STATIC_HASH: Final = "kubernetes.io/config.hash"
# Pods change in bursts; a burst is written once.
_SETTLE_SECONDS: Final = 0.2

_log = logs.get_logger(__name__)


class CachedPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One pod, without its environment and volumes, which may contain secrets."""

    uid: str  # in the API
    runtime_uid: str  # in the container runtime; it differs for a static pod
    namespace: str
    name: str
    priority: int | None = None
    grace_seconds: int | None = None
    moves: bool = False  # its controller creates a replacement on another node
    pod_ip: str = ""
    pre_stop: dict[str, dict[str, Any]] = {}  # by container

    def ending(self) -> EndingPod:
        """Return the pod as the shutdown plan needs it."""
        return EndingPod(
            uid=self.runtime_uid,
            namespace=self.namespace,
            name=self.name,
            priority=self.priority,
            grace_seconds=self.grace_seconds,
        )


def cached(pod: Pod) -> CachedPod:
    """Return what is stored of a pod."""
    hooks = {
        container.name: _with_number(wire.to_dict(container.lifecycle.pre_stop), container)
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        if container.lifecycle is not None and container.lifecycle.pre_stop is not None
    }
    static = pod.metadata.annotations.get(_STATIC_HASH, "") if shutdown_status.is_static(pod) else ""
    return CachedPod(
        uid=pod.uid,
        runtime_uid=static or pod.uid,
        namespace=pod.metadata.namespace,
        name=pod.name,
        priority=pod.spec.priority,
        grace_seconds=pod.spec.termination_grace_period_seconds,
        moves=shutdown_status.is_replaced_elsewhere(pod),
        pod_ip=pod.status.pod_ip,
        pre_stop=hooks,
    )


def _with_number(hook: dict[str, Any], container: Container) -> dict[str, Any]:
    """Replace a port name in the hook by its number, because the container runtime does not know port names."""
    request = hook.get("httpGet")
    if request is None or not isinstance(request.get("port"), str):
        return hook
    numbers = {port.name: port.container_port for port in container.ports if port.name}
    return {**hook, "httpGet": {**request, "port": numbers.get(request["port"], request["port"])}}


class PodCache:
    """The pods of one node. `run` follows the API server; until then the pods are those on disk."""

    def __init__(self, folder: Path, node_name: str) -> None:
        self.path = folder / _FILE
        self._node_name = node_name
        self._pods: dict[str, CachedPod] = {pod.runtime_uid: pod for pod in self._load()}
        self._informer: Informer[Pod] | None = None
        self._changed = asyncio.Event()

    @property
    def pods(self) -> Mapping[str, CachedPod]:
        """All pods, by their uid in the container runtime."""
        return self._pods

    @property
    def current(self) -> Mapping[str, Pod]:
        """The pods of the informer, by the same uid; empty until it has synced."""
        if self._informer is None:
            return {}
        return {cached(pod).runtime_uid: pod for pod in self._informer.store}

    async def run(self, client: Client) -> None:
        """Follow the API server and store changes. Runs until cancelled."""
        informer = Informer(client.of(Pod, keep=False), field_selector=f"spec.nodeName={self._node_name}")
        informer.add_handler(
            Handler(
                on_add=lambda _pod: self._changed.set(),
                on_update=lambda _old, _new: self._changed.set(),
                on_delete=lambda _pod: self._changed.set(),
            )
        )
        async with informer.running():
            await informer.wait_synced()
            self._informer = informer
            self._changed.set()
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._update({one.runtime_uid: one for one in (cached(pod) for pod in informer.store)})
                await client.clock.sleep(_SETTLE_SECONDS)

    def _update(self, pods: dict[str, CachedPod]) -> None:
        if pods == self._pods:
            return
        self._pods = pods
        try:
            self._save(pods.values())
        except OSError as error:
            _log.error("cannot store pod cache", path=str(self.path), error=str(error))

    def _load(self) -> list[CachedPod]:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[CachedPod])
        except FileNotFoundError:
            return []
        except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
            _log.warning("pod cache file invalid", error=str(error))
            return []

    def _save(self, pods: Iterable[CachedPod]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        ordered = sorted(pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))
        files.write_atomically(self.path, msgspec.json.encode(ordered))
