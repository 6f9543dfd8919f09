"""Defaults of a pod's spec, in a pod or in a template.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/v1/defaults.go
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json

__all__ = ["default_pod_itself", "default_pod_spec"]


def default_pod_spec(spec: Json) -> None:
    """Set Kubernetes' defaults, so that clients read the same as from any API server."""
    spec.setdefault("restartPolicy", "Always")
    grace = spec.setdefault("terminationGracePeriodSeconds", 30)
    if isinstance(grace, int) and grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("dnsPolicy", "ClusterFirst")
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName") and not spec.get("serviceAccount"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount") and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in spec.get("containers") or ():
        _default_container(container)
    for container in spec.get("initContainers") or ():
        _default_container(container)
    for container in spec.get("ephemeralContainers") or ():
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def default_pod_itself(spec: Json) -> None:
    """The defaults of a pod that a template does not get, after `default_pod_spec`."""
    spec.setdefault("enableServiceLinks", True)
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        resources = container["resources"]
        if resources.get("limits"):
            # The default request is the limit.
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    if spec.get("hostNetwork"):
        _default_host_ports(containers)


def _default_container(container: Json) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _floats(container.get("image") or "") else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if container.get("resources") is None:
        container["resources"] = {}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name):
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and hook.get("httpGet"):
            _default_http_get(hook["httpGet"])
    for variable in container.get("env") or ():
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")


def _floats(image: str) -> bool:
    """Return whether an image's tag is `latest` or absent, so that it may change."""
    if "@" in image:
        return False
    name = image.rpartition("/")[2]
    return ":" not in name or name.endswith(":latest")


def _default_probe(probe: Json) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(field):
            probe[field] = value
    if probe.get("httpGet"):
        _default_http_get(probe["httpGet"])
    if probe.get("grpc") and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_http_get(action: Json) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_volume(volume: Json) -> None:
    sources = [key for key in volume if key != "name"]
    if not sources:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        source = volume.get(name)
        if source is not None:
            source.setdefault("defaultMode", 0o644)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    if volume.get("iscsi") is not None:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        claim.setdefault("metadata", {})
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    _default_files(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        _default_files(source.get("downwardAPI"))


def _default_files(source: Json | None) -> None:
    for item in (source or {}).get("items") or ():
        if item.get("fieldRef") is not None:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _default_host_ports(containers: list[Json]) -> None:
    """With the host's network, host ports default to the container ports."""
    for container in containers:
        for port in container.get("ports") or ():
            if not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort")
