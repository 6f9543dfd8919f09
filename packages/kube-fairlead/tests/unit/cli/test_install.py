"""The manifests as text. Whether a cluster takes them, and what its accounts may do, is for tests/contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kube_fairlead.agent.shutdown.configuration import AgentConfig, read_config
from kube_fairlead.agent.shutdown.logind_listener import LogindPlaces
from kube_fairlead.api import crds
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli import manager_flags
from kube_fairlead.cli.invocation import Invocation
from kube_fairlead.cli.main import main, program
from kube_fairlead.cloud.enforcement import Manager
from kube_fairlead.election.fence import FenceMode
from kube_fairlead.install import bundle
from kube_fairlead.install.installation import CLAIMER, DRAIN, MANAGER, Installation, ShutdownGrace
from kube_fairlead.install.own_node_policy import OWN_NODE

NO_ENVIRONMENT = Environment({})
Json = dict[str, Any]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Json]:
    assert main(["install", *arguments], environment=NO_ENVIRONMENT) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def names(manifests: list[Json], kind: str) -> list[str]:
    return [one["metadata"]["name"] for one in manifests if one["kind"] == kind]


def test_what_is_printed_is_the_bundle(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == bundle.manifests(Installation())
    made = bundle.manifests(Installation())
    assert names(made, "CustomResourceDefinition") == [one["metadata"]["name"] for one in crds.crds()]
    assert names(made, "DaemonSet") == ["fairlead-agent", "fairlead-drain"]
    assert names(made, "Deployment") == ["fairlead-controller-manager", "fairlead-webhook"]
    assert all(one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "fairlead" for one in made)


def test_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(
        capsys,
        "--namespace=here",
        "--image=example.com/fairlead:1",
        "--lifecycle-api-group=lifecycle.fairlead.dev",
        "--fence=off",
        "--own-node=off",
        "--requester=off",
    )
    assert names(made, "ValidatingAdmissionPolicy") == []
    assert names(made, "CustomResourceDefinition")[0] == "lifecycletransitions.lifecycle.fairlead.dev"
    assert names(made, "Namespace") == ["here", "fairlead-node-lease"]
    containers = [one for manifest in made for one in containers_of(manifest)]
    assert {one["image"] for one in containers} == {"example.com/fairlead:1"}
    concerned = [one for one in containers if one["name"] != "webhook"]
    assert all("--lifecycle-api-group=lifecycle.fairlead.dev" in one["args"] for one in concerned)
    text = yaml.safe_dump_all(made)
    assert "fairlead-system" not in text
    rest = text.replace("lifecycle.k8s.io/claimed", "").replace("lifecycle.k8s.io/v1alpha1", "")
    assert "lifecycle.k8s.io" not in rest


def test_finished_events_stay_for_an_hour_unless_said_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    def kept(*flags: str) -> set[str]:
        containers = [one for manifest in printed(capsys, "--claimer", *flags) for one in containers_of(manifest)]
        return {word for one in containers for word in one["args"] if word.startswith("--finished-event-ttl")}

    assert kept() == {"--finished-event-ttl=1h"}
    assert kept("--finished-event-ttl=0s") == {"--finished-event-ttl=0s"}


def test_the_user_who_asked_is_checked_and_recorded_if_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    checked = printed(capsys)
    assert "requester.fairlead.dev" in names(checked, "ValidatingAdmissionPolicy")
    assert names(checked, "MutatingAdmissionPolicy") == []
    assert names(printed(capsys, "--requester=record"), "MutatingAdmissionPolicy") == ["requester.fairlead.dev"]


def test_a_claimer_and_its_drain_driver(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "--claimer")
    [deployment] = [one for one in made if one["kind"] == "Deployment" and one["metadata"]["name"] == CLAIMER]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == CLAIMER
    claimer, drain = pod["containers"]
    assert {"--controllers=claimer", f"--leader-elect-resource-name={CLAIMER}"} < set(claimer["args"])
    assert drain["args"][:2] == ["driver", "drain"]
    assert not any("--node-name" in word for word in drain["args"])
    # Two ports of one pod: each has its own number and name.
    assert [one["ports"] for one in (claimer, drain)] == [
        [{"name": "health", "containerPort": 10257}],
        [{"name": "drain-health", "containerPort": 10260}],
    ]
    assert drain["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "drain-health", "scheme": "HTTPS"}
    for container in (claimer, drain):
        assert container["volumeMounts"] == [{"name": "drivers", "mountPath": "/var/lib/fairlead"}]
    assert pod["volumes"] == [{"name": "drivers", "emptyDir": {}}]
    # Whatever the driver of a node may do, this one may; the manager may do no more than before.
    assert rules_of(made, DRAIN) < rules_of(made, CLAIMER)
    assert rules_of(made, MANAGER) == rules_of(printed(capsys), MANAGER)
    fences = [one["metadata"]["name"] for one in made if one["metadata"]["name"].startswith("fence.")]
    assert f"fence.fairlead-system.{CLAIMER}.fairlead.dev" in fences
    assert not any("claimer" in str(one) for one in printed(capsys))


def test_eviction_requests_are_a_right_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert not any("evictionrequests" in str(one) for one in printed(capsys))
    made = printed(capsys, "--eviction-requests")
    assert ("evictionrequests", "create") in rules_of(made, DRAIN)
    [policy] = [one for one in made if one["metadata"]["name"] == OWN_NODE and "Binding" not in one["kind"]]
    assert "evictionrequests" in str(policy["spec"]["matchConstraints"])


def may_write_nodes(made: list[Json]) -> bool:
    [role] = [
        one for one in made if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", "fairlead-controller-manager")
    ]
    return any("nodes" in rule["resources"] and "patch" in rule["verbs"] for rule in role["rules"])


def test_a_manager_that_lets_volumes_go(capsys: pytest.CaptureFixture[str]) -> None:
    flag = "--shutdown-out-of-service-taint=true"
    made = printed(capsys, "--shutdown-out-of-service-taint")
    assert any(flag in one["args"] for manifest in made for one in containers_of(manifest))
    assert may_write_nodes(made)
    made = printed(capsys)
    assert not any(flag in one["args"] for manifest in made for one in containers_of(manifest))
    assert not may_write_nodes(made)


def rules_of(made: list[Json], name: str) -> set[tuple[str, str]]:
    [role] = [one for one in made if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", name)]
    return {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


SHUTDOWN_RIGHTS = {
    ("lifecycleevents", "create"),
    *(("pods", verb) for verb in ("get", "list", "watch", "delete")),
    ("pods/status", "patch"),
    ("endpointslices", "list"),
}


def test_agents_that_see_pods_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = printed(capsys, "--shutdown-grace-period=60s", "--shutdown-grace-period-critical-pods=20s")
    [config] = [one for one in made if one["kind"] == "ConfigMap"]
    file = tmp_path / "agent.yaml"
    file.write_text(config["data"]["agent.yaml"])
    assert read_config(file).shutdown.budget_seconds == 60
    [agent, drain] = [one["spec"]["template"]["spec"] for one in made if one["kind"] == "DaemonSet"]
    [container] = agent["containers"]
    assert "--config=/etc/fairlead/agent.yaml" in container["args"]
    mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounted == {
        "state": "/var/lib/fairlead",
        "bus": "/run/dbus",
        "logind": str(LogindPlaces().drop_ins),
        "runtime": str(Path(AgentConfig().runtime_endpoint).parent),
        "config": "/etc/fairlead",
    }
    assert [one["name"] for one in agent["volumes"]] == list(mounted)
    assert [one["name"] for one in drain["volumes"]] == ["state"]
    assert rules_of(made, "fairlead-agent") >= SHUTDOWN_RIGHTS


def test_agents_that_do_not_may_not(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys)
    assert not rules_of(made, "fairlead-agent") & SHUTDOWN_RIGHTS
    assert names(made, "ConfigMap") == []
    assert not any("--config" in argument for one in made for found in containers_of(one) for argument in found["args"])


def test_a_cloud_controller_manager_alone(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(
        capsys,
        "--lifecycle=false",
        "--ccm=static=here",
        "--ccm=static=there",
        "--ccm=aws",
        "--ccm-controllers=aws=service-lb-controller,route",
        "--cluster-cidr=10.244.0.0/16",
        "--fence=warn",
    )
    assert names(made, "CustomResourceDefinition") == []
    assert names(made, "Deployment") == [
        "cloud-controller-manager-static-here",
        "cloud-controller-manager-static-there",
        "cloud-controller-manager-aws",
    ]
    assert names(made, "ValidatingAdmissionPolicy") == [
        "follow-leases.fairlead.dev",
        "cloud-controller-manager-static-here",
        "fence.fairlead-system.cloud-controller-manager-static-here.fairlead.dev",
        "cloud-controller-manager-static-there",
        "fence.fairlead-system.cloud-controller-manager-static-there.fairlead.dev",
        "cloud-controller-manager-aws",
        "fence.fairlead-system.cloud-controller-manager-aws.fairlead.dev",
    ]
    [static, there, aws] = [one["args"] for manifest in made for one in containers_of(manifest)]
    assert "--cloud-provider-platforms=here" in static
    assert {
        "--cloud-provider-platforms=there",
        "--leader-elect-resource-name=cloud-controller-manager-static-there",
    } <= set(there)
    assert "--controllers=*" in static
    assert not any("--cluster-cidr" in one for one in static)
    assert {"--controllers=*,node-route-controller,service-lb-controller", "--cluster-cidr=10.244.0.0/16"} <= set(aws)


def test_controllers_of_the_only_cloud_need_not_say_whose_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "--lifecycle=false", "--ccm=aws", "--ccm-controllers=service")
    [arguments] = [one["args"] for manifest in made for one in containers_of(manifest)]
    assert "--controllers=*,service-lb-controller" in arguments


def test_a_fence_for_the_manager_of_a_cloud_itself(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(
        capsys,
        "--lifecycle=false",
        "--fence-cloud-manager=kube-system/ccm=gce,gce.edge",
        "--fence-cloud-manager=kube-system/route-controller=gce",
        "--ccm-policy=warn",
    )
    assert [(one["kind"], one["metadata"]["name"]) for one in made] == [
        ("ValidatingAdmissionPolicy", "cloud-fence.kube-system.ccm"),
        ("ValidatingAdmissionPolicyBinding", "cloud-fence.kube-system.ccm"),
        ("ValidatingAdmissionPolicy", "cloud-fence.kube-system.route-controller"),
        ("ValidatingAdmissionPolicyBinding", "cloud-fence.kube-system.route-controller"),
    ]
    [condition] = made[0]["spec"]["matchConditions"]
    assert condition["expression"] == 'request.userInfo.username == "system:serviceaccount:kube-system:ccm"'
    assert made[1]["spec"]["validationActions"] == ["Warn", "Audit"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--namespace=Not_One"], "'Not_One' is not a valid namespace"),
        (["--ccm=AWS"], "'AWS' is not a platform"),
        (
            ["--ccm=aws", "--ccm-controllers=routes"],
            "knows node-route-controller and service-lb-controller, not routes",
        ),
        (["--ccm=aws", "--ccm-controllers=route"], "the route controller needs --cluster-cidr"),
        (["--ccm=aws", "--ccm-controllers=route", "--cluster-cidr=x"], "Invalid value for '--cluster-cidr': 'x'"),
        (["--ccm=aws", "--ccm=hcloud", "--ccm-controllers=service"], "say whose they are, PROVIDER=service"),
        (["--ccm=aws", "--ccm-controllers=gce=service"], "there is no --ccm gce"),
        (["--ccm=static", "--ccm-controllers=service"], "static has neither routes nor load balancers"),
        (["--ccm=aws", "--ccm=aws"], "platform aws is named twice, by aws=aws and aws=aws; each has one manager"),
        (
            ["--ccm=static=lab", "--ccm=static=lab,on-prem"],
            "platform lab is named twice, by static=lab and static=lab,on",
        ),
        (["--ccm=aws", "--ccm=static=aws"], "platform aws is named twice"),
        (["--ccm=static=lab", "--ccm=static-lab"], "would both have the name static-lab"),
        (["--ccm=n=eu", "--ccm=n=us", "--ccm-controllers=n=service"], "say which n is meant, n=eu or n=us"),
        (["--ccm=n=eu", "--ccm=n=us", "--ccm-controllers=n=de=service"], "there is no --ccm n=de"),
        (["--ccm-controllers=service"], "say whose they are"),
        (["--fence-cloud-manager=ccm=gce"], "must be NAMESPACE/SERVICEACCOUNT=PLATFORM"),
        (["--fence-cloud-manager=kube-system/ccm"], "must be NAMESPACE/SERVICEACCOUNT=PLATFORM"),
        (["--fence-cloud-manager=kube-system/ccm="], "'' is not a platform"),
        (["--ccm=gce", "--fence-cloud-manager=a/b=aws,gce"], "platform gce belongs to --ccm gce"),
        (["--fence-cloud-manager=a/b=aws", "--fence-cloud-manager=a/b=gce"], "a/b is named twice"),
        (["--lifecycle-api-group=example.com"], "is not one of"),
        (["--fence=maybe"], "is not one of"),
        (["--shutdown-grace-period=soon"], "shutdownGracePeriod"),
        (["--shutdown-grace-period=0s"], "leaves pods no time"),
        (["--shutdown-grace-period=10s", "--shutdown-grace-period-critical-pods=20s"], "must be <="),
        (["--shutdown-grace-period=10s", "--container-runtime-endpoint=tcp://here"], "must be a unix socket"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", *arguments], environment=NO_ENVIRONMENT) == 2
    assert words in capsys.readouterr().err


def containers_of(manifest: Json) -> list[Json]:
    template = manifest.get("spec", {}).get("template", {})
    found: list[Json] = template.get("spec", {}).get("containers", [])
    return found


def test_every_container_runs_a_command_that_there_is(tmp_path: Path) -> None:
    cloud = Manager(provider="static", platforms=frozenset({"on-prem"}), namespace="fairlead-system")
    config = tmp_path / "cloud.conf"
    config.touch()
    context = click.Context(program, obj=Invocation(NO_ENVIRONMENT))
    plan = Installation(clouds=(cloud,), fence=FenceMode.DENY, shutdown=ShutdownGrace(grace_period="1m"))
    for manifest in bundle.manifests(plan):
        for container in containers_of(manifest):
            arguments = [
                one.replace("$(NODE_NAME)", "node-1")
                .replace("$(POD_UID)", "uid-1")
                .replace("$(POD_IP)", "10.0.0.1")
                .replace("/etc/cloud/cloud.conf", str(config))
                .replace("/etc/fairlead/agent.yaml", str(config))
                .replace("/etc/fairlead/tls", str(tmp_path / "tls"))
                for one in [*container["command"][1:], *container["args"]]
            ]
            group: click.Command = program
            inner = context
            while isinstance(group, click.Group) and not arguments[0].startswith("-"):
                name, *arguments = arguments
                found = group.get_command(inner, name)
                assert found is not None, f"{manifest['metadata']['name']} runs {name}, which is no command"
                group = found
            group.make_context(group.name, arguments, parent=context)


def test_a_cloud_controller_manager_takes_the_flags_that_it_gets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All the way to where it would begin to run: what it would refuse at its start is refused by `install`."""
    config, kubeconfig = tmp_path / "cloud.conf", tmp_path / "kubeconfig"
    config.write_text("[Global]\nRegion = r-1\n", encoding="utf-8")
    kubeconfig.write_text(
        "contexts: [{name: c, context: {cluster: k}}]\n"
        "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\ncurrent-context: c\n",
        encoding="utf-8",
    )
    started: list[object] = []
    monkeypatch.setattr(manager_flags, "run_manager", started.append)
    arguments = ["--lifecycle=false", "--ccm=aws", "--ccm=hcloud", "--ccm-controllers=aws=route,service"]
    made = printed(capsys, *arguments, "--cluster-cidr=10.244.0.0/16,fd00::/48")
    for manifest in made:
        for container in containers_of(manifest):
            flags = [one.replace("/etc/cloud/cloud.conf", str(config)) for one in container["args"]]
            environment = Environment({"HCLOUD_TOKEN": "x" * 64, "POD_NAME": "p", "POD_IP": "127.0.0.1"})
            code = main(
                [one.replace("$(POD_IP)", "127.0.0.1") for one in flags] + [f"--kubeconfig={kubeconfig}"],
                environment=environment,
            )
            assert code == 0, capsys.readouterr().err
    assert len(started) == 2
