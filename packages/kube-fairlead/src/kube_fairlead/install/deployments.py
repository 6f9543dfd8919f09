"""The workloads: agent and drain driver on every node, managers and the claimer on any. Pure."""

from __future__ import annotations

import pathlib

from kube_fairlead.api.json_object import Json
from kube_fairlead.cloud.enforcement import Manager
from kube_fairlead.install.installation import AGENT, CLAIMER, DRAIN, MANAGER, Installation, ShutdownGrace

__all__ = ["claimer_deployment", "cloud_manager", "manager_deployment", "node_daemon_sets"]


_NAME = "app.kubernetes.io/name"
_STATE = "/var/lib/fairlead"
_CONFIG = "/etc/fairlead"
_CONFIG_FILE = "agent.yaml"
_AGENT_PORT = 10259
_DRAIN_PORT = 10260
_MANAGER_PORT = 10257
_CLOUD_PORT = 10258
# The other providers read a file, the key `cloud.conf`.
_CONFIGURED_BY_ENVIRONMENT = frozenset({"hcloud"})
# The user id of images without users.
_UNPRIVILEGED = 65532
_LEAST = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def node_daemon_sets(installation: Installation) -> list[Json]:
    """The agent and the drain driver on every node, each in a pod of its own, because their accounts differ."""
    # The rights are for one group, so workloads do not discover the served one.
    group = f"--lifecycle-api-group={installation.lifecycle_group}"
    # Their serving certificates are created once per node.
    agent = ["agent", "--node-name=$(NODE_NAME)", group, _event_ttl(installation), f"--cert-dir={_STATE}/pki"]
    drain = ["driver", "drain", "--node-name=$(NODE_NAME)", "--instance=$(POD_UID)", group]
    drain.append(f"--cert-dir={_STATE}/pki-drain")
    drain_set = _on_every_node(DRAIN, installation, _container("driver", installation, drain, port=_DRAIN_PORT))
    if installation.shutdown is None:
        return [
            _on_every_node(AGENT, installation, _container("agent", installation, agent, port=_AGENT_PORT)),
            drain_set,
        ]
    # An agent that is killed during a shutdown must restart with its lock, while the kubelet is stopped.
    agent = ["hold", *agent, f"--config={_CONFIG}/{_CONFIG_FILE}"]
    agent_set = _on_every_node(AGENT, installation, _container("agent", installation, agent, port=_AGENT_PORT))
    return [
        _agent_config(installation, installation.shutdown),
        _with_machine_access(agent_set, installation.shutdown),
        drain_set,
    ]


def _event_ttl(installation: Installation) -> str:
    return f"--finished-event-ttl={installation.finished_event_ttl}"


def _agent_config(installation: Installation, shutdown: ShutdownGrace) -> Json:
    text = "".join(f"{name}: {value}\n" for name, value in shutdown.agent_config().items())
    metadata = {"name": AGENT, "namespace": installation.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_CONFIG_FILE: text}}


def _with_machine_access(agent: Json, shutdown: ShutdownGrace) -> Json:
    """Mount what the agent needs to end pods: logind and systemd over D-Bus, logind's drop-ins, the runtime."""
    pod = agent["spec"]["template"]["spec"]
    [container] = pod["containers"]
    # Whole folders: a mounted socket would be stale after its service restarts.
    runtime = str(pathlib.PurePosixPath(shutdown.runtime_endpoint.removeprefix("unix://")).parent)
    folders = {"bus": "/run/dbus", "logind": "/etc/systemd/logind.conf.d", "runtime": runtime}
    for name, path in folders.items():
        kind = "DirectoryOrCreate" if name == "logind" else "Directory"
        pod["volumes"].append({"name": name, "hostPath": {"path": path, "type": kind}})
        container["volumeMounts"].append({"name": name, "mountPath": path})
    pod["volumes"].append({"name": "config", "configMap": {"name": AGENT}})
    container["volumeMounts"].append({"name": "config", "mountPath": _CONFIG, "readOnly": True})
    # The default confinement of containers denies the machine's bus and sockets.
    container["securityContext"] = {
        **_LEAST,
        "appArmorProfile": {"type": "Unconfined"},
        "seLinuxOptions": {"type": "spc_t"},
    }
    return agent


def _on_every_node(name: str, installation: Installation, container: Json) -> Json:
    pod = {
        "serviceAccountName": name,
        "priorityClassName": "system-node-critical",
        # Agent and driver also run on nodes with problems.
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        # Sockets and state on the node belong to root.
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 30,
        "containers": [{**container, "volumeMounts": [{"name": "state", "mountPath": _STATE}]}],
        "volumes": [{"name": "state", "hostPath": {"path": _STATE, "type": "DirectoryOrCreate"}}],
    }
    return _workload("DaemonSet", name, installation.namespace, pod, {"updateStrategy": {"type": "RollingUpdate"}})


def manager_deployment(installation: Installation) -> list[Json]:
    """Two replicas, of which one leads, and a budget that keeps one of them during a drain."""
    arguments = [
        "controller-manager",
        f"--lifecycle-api-group={installation.lifecycle_group}",
        _event_ttl(installation),
        f"--leader-elect-resource-name={MANAGER}",
        f"--leader-elect-resource-namespace={installation.namespace}",
    ]
    if installation.out_of_service_taint:
        arguments.append("--shutdown-out-of-service-taint=true")
    return _manager(MANAGER, installation, arguments, _MANAGER_PORT)


def claimer_deployment(installation: Installation) -> list[Json]:
    """Two replicas, of which one leads: the claimer, with a drain driver for every node that it claims for."""
    group = f"--lifecycle-api-group={installation.lifecycle_group}"
    arguments = [
        "controller-manager",
        "--controllers=claimer",
        group,
        _event_ttl(installation),
        f"--leader-elect-resource-name={CLAIMER}",
        f"--leader-elect-resource-namespace={installation.namespace}",
    ]
    deployment, budget = _manager(CLAIMER, installation, arguments, _MANAGER_PORT)
    pod = deployment["spec"]["template"]["spec"]
    drain = ["driver", "drain", "--instance=$(POD_UID)", group]
    # A port's name is unique within a pod.
    pod["containers"].append(_container("drain", installation, drain, port=_DRAIN_PORT, port_name="drain-health"))
    # Other drivers can be added as containers that mount this volume too.
    pod["volumes"] = [{"name": "drivers", "emptyDir": {}}]
    for container in pod["containers"]:
        container["volumeMounts"] = [{"name": "drivers", "mountPath": _STATE}]
    return [deployment, budget]


def cloud_manager(installation: Installation, manager: Manager) -> list[Json]:
    """The cloud controller manager of one cloud; its configuration is the Secret of its name."""
    extra = [
        name
        for name, runs in (("node-route-controller", manager.routes), ("service-lb-controller", manager.services))
        if runs
    ]
    arguments = [
        "cloud-controller-manager",
        f"--cloud-provider={manager.provider}",
        f"--cloud-provider-platforms={','.join(sorted(manager.platforms))}",
        f"--controllers={','.join(['*', *extra])}",
        f"--leader-elect-resource-name={manager.lease or manager.name}",
        f"--leader-elect-resource-namespace={manager.namespace}",
    ]
    if manager.routes:
        arguments.append(f"--cluster-cidr={installation.cluster_cidr}")
    deployment, budget = _manager(manager.name, installation, arguments, _CLOUD_PORT)
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    if manager.provider in _CONFIGURED_BY_ENVIRONMENT:
        container["envFrom"] = [{"secretRef": {"name": manager.name}}]
    else:
        container["args"].append("--cloud-config=/etc/cloud/cloud.conf")
        container["volumeMounts"] = [{"name": "cloud", "mountPath": "/etc/cloud", "readOnly": True}]
        pod["volumes"] = [{"name": "cloud", "secret": {"secretName": manager.name}}]
    return [deployment, budget]


def _manager(name: str, installation: Installation, arguments: list[str], port: int) -> list[Json]:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {_NAME: name}},
    }
    pod: Json = {
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _UNPRIVILEGED,
            "runAsGroup": _UNPRIVILEGED,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Longer than the manager waits for its controllers to end, so that it releases its Lease itself.
        "terminationGracePeriodSeconds": 30,
        "topologySpreadConstraints": [spread],
        "tolerations": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
            # The nodes of a new cluster wait for this manager.
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists", "effect": "NoSchedule"},
        ],
        "containers": [_container("manager", installation, arguments, port=port)],
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": installation.namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {_NAME: name}}},
    }
    return [_workload("Deployment", name, installation.namespace, pod, {"replicas": 2}), budget]


def _workload(kind: str, name: str, namespace: str, pod: Json, spec: Json) -> Json:
    labels = {_NAME: name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            **spec,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _container(
    name: str, installation: Installation, arguments: list[str], *, port: int = 0, port_name: str = "health"
) -> Json:
    container: Json = {
        "name": name,
        "image": installation.image,
        "command": ["fairlead"],
        "args": [*arguments, "--logging-format=json"],
        "env": [
            _from_field("POD_NAME", "metadata.name"),
            _from_field("POD_UID", "metadata.uid"),
            _from_field("POD_IP", "status.podIP"),
            _from_field("NODE_NAME", "spec.nodeName"),
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": _LEAST,
    }
    if port:
        container["args"] += ["--bind-address=$(POD_IP)", f"--secure-port={port}"]
        container["ports"] = [{"name": port_name, "containerPort": port}]
        container["livenessProbe"] = _probe("/healthz", port_name, failures=6)
        container["readinessProbe"] = _probe("/readyz", port_name, failures=3)
    return container


def _probe(path: str, port_name: str, *, failures: int) -> Json:
    action = {"path": path, "port": port_name, "scheme": "HTTPS"}
    return {"httpGet": action, "periodSeconds": 10, "failureThreshold": failures}


def _from_field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
