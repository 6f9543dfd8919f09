"""kubectl create, get, describe, edit, patch, label, annotate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.conftest import Kubectl

pytestmark = pytest.mark.kube

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec:
  containers: [{name: main, image: "registry.k8s.io/pause:3.10"}]
"""


async def test_create_by_command_posts_protobuf(kubectl: Kubectl) -> None:
    assert (await kubectl("create", "configmap", "a", "--from-literal=k=v")).out == "configmap/a created\n"
    assert (await kubectl("get", "configmap", "a", "-o", "jsonpath={.data.k}")).out == "v"
    for command in (
        ("create", "secret", "generic", "s", "--from-literal=k=v"),
        ("create", "serviceaccount", "robot"),
        ("create", "deployment", "d", "--image=a:1", "--replicas=2"),
        ("create", "job", "j", "--image=a:1", "--", "true"),
        ("create", "cronjob", "c", "--image=a:1", "--schedule=*/5 * * * *"),
        ("create", "service", "clusterip", "web", "--tcp=80:8080"),
        ("create", "poddisruptionbudget", "b", "--selector=app=x", "--min-available=1"),
        ("create", "role", "reader", "--verb=get,list", "--resource=pods"),
        ("create", "rolebinding", "readers", "--role=reader", "--serviceaccount=default:robot"),
        ("create", "quota", "q", "--hard=pods=5"),
    ):
        said = await kubectl(*command, code=None)
        assert said.code == 0 or "the server doesn't have a resource type" in said.err, (command, said.err)
    assert (await kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}")).out == "2"


async def test_create_twice(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "a")
    said = await kubectl("create", "configmap", "a", code=1)
    assert said.err == 'error: failed to create configmap: configmaps "a" already exists\n'


async def test_create_from_a_file(kubectl: Kubectl) -> None:
    assert (await kubectl("create", "-f", "-", stdin=POD)).out == "pod/p created\n"
    said = await kubectl("get", "pods")
    assert said.lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert said.lines[1].split()[:4] == ["p", "0/1", "Pending", "0"]


async def test_create_checks_fields(kubectl: Kubectl) -> None:
    said = await kubectl("create", "-f", "-", stdin=POD + "  colour: red\n", code=1)
    assert 'strict decoding error: unknown field "spec.colour"' in said.err
    said = await kubectl("create", "--validate=warn", "-f", "-", stdin=POD + "  colour: red\n")
    assert 'Warning: unknown field "spec.colour"' in said.err
    said = await kubectl("create", "--dry-run=server", "-f", "-", stdin=POD.replace("name: p", "name: q"))
    assert said.out == "pod/q created (server dry run)\n"


async def test_get_in_every_shape(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=POD)
    assert (await kubectl("get", "pod", "p", "-o", "name")).out == "pod/p\n"
    assert (await kubectl("get", "pod", "p", "-o", "json")).json["metadata"]["name"] == "p"
    assert "name: p" in (await kubectl("get", "pod", "p", "-o", "yaml")).out
    wide = (await kubectl("get", "pods", "-o", "wide")).lines
    assert wide[0].split()[5:7] == ["IP", "NODE"]
    columns = await kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name,A:.metadata.labels.app")
    assert [line.split() for line in columns.lines] == [["N", "A"], ["p", "x"]]
    assert (await kubectl("get", "pods", "-L", "app")).lines[1].split()[-1] == "x"
    assert (await kubectl("get", "pods", "-l", "app=y")).err.startswith("No resources found")
    assert (await kubectl("get", "pods", "--field-selector", "status.phase=Pending", "-o", "name")).out == "pod/p\n"
    assert "pod/p" in (await kubectl("get", "all")).out
    assert (await kubectl("get", "po,cm", "-o", "name")).lines[0] == "pod/p"
    sorted_names = await kubectl("get", "cm,pods", "--sort-by=.metadata.name", "-o", "name")
    assert sorted_names.lines[-1] == "pod/p"


async def test_get_what_is_not_there(kubectl: Kubectl) -> None:
    said = await kubectl("get", "pod", "none", code=1)
    assert said.err == 'Error from server (NotFound): pods "none" not found\n'
    said = await kubectl("get", "nothings", code=1)
    assert said.err == 'error: the server doesn\'t have a resource type "nothings"\n'


async def test_chunks(kubectl: Kubectl) -> None:
    for n in range(5):
        await kubectl("create", "secret", "generic", f"s{n}")
    said = await kubectl("get", "secrets", "--chunk-size=2", "-o", "name")
    assert said.lines == [f"secret/s{n}" for n in range(5)]


async def test_describe(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=POD)
    said = await kubectl("describe", "pod", "p")
    fields = dict(line.split(":", 1) for line in said.lines if ":" in line and not line.startswith(" "))
    assert fields["Name"].strip() == "p"
    assert fields["Service Account"].strip() == "default"
    assert fields["Status"].strip() == "Pending"
    assert fields["QoS Class"].strip() == "BestEffort"
    await kubectl("create", "deployment", "d", "--image=a:1")
    assert (
        "RollingUpdateStrategy:  25% max unavailable, 25% max surge" in (await kubectl("describe", "deploy", "d")).out
    )
    assert "Status:       Active" in (await kubectl("describe", "namespace", "default")).out


async def test_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    await kubectl("create", "configmap", "a", "--from-literal=k=v")
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/k: v/k: edited/' \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)
    said = await kubectl("edit", "configmap", "a", KUBE_EDITOR=str(editor))
    assert said.out == "configmap/a edited\n"
    assert (await kubectl("get", "configmap", "a", "-o", "jsonpath={.data.k}")).out == "edited"
    again = await kubectl("edit", "configmap", "a", KUBE_EDITOR="true")
    assert "no changes made" in again.err


async def test_patch(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "d", "--image=a:1")
    strategic = '{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"a:2"}]}}}}'
    assert (await kubectl("patch", "deployment", "d", "-p", strategic)).out == "deployment.apps/d patched\n"
    await kubectl("patch", "deployment", "d", "--type=merge", "-p", '{"spec":{"replicas":3}}')
    operations = '[{"op":"replace","path":"/spec/replicas","value":4}]'
    await kubectl("patch", "deployment", "d", "--type=json", "-p", operations)
    await kubectl("patch", "deployment", "d", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":5}}')
    said = await kubectl(
        "get", "deployment", "d", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}"
    )
    assert said.out == "5 a:2"
    same = await kubectl("patch", "deployment", "d", "--type=merge", "-p", '{"spec":{"replicas":5}}')
    assert same.out == "deployment.apps/d patched (no change)\n"


async def test_label_and_annotate(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "a")
    assert (await kubectl("label", "configmap", "a", "x=1")).out == "configmap/a labeled\n"
    said = await kubectl("label", "configmap", "a", "x=2", code=1)
    assert "already has a value (1), and --overwrite is false" in said.err
    await kubectl("label", "configmap", "a", "x=2", "--overwrite")
    assert (await kubectl("annotate", "configmap", "a", "note=hello")).out == "configmap/a annotated\n"
    said = await kubectl("get", "configmap", "a", "-o", "jsonpath={.metadata.labels.x} {.metadata.annotations.note}")
    assert said.out == "2 hello"
    assert (await kubectl("label", "configmap", "a", "x-")).out == "configmap/a unlabeled\n"
    await kubectl("annotate", "configmap", "a", "note-")


async def test_set_and_replace(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "d", "--image=a:1")
    assert (await kubectl("set", "image", "deployment/d", "a=a:9")).out == "deployment.apps/d image updated\n"
    await kubectl("set", "env", "deployment/d", "KEY=value")
    made = (await kubectl("get", "deployment", "d", "-o", "json")).json
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["env"]) == ("a:9", [{"name": "KEY", "value": "value"}])
    await kubectl("create", "configmap", "a", "--from-literal=k=v")
    manifest = (await kubectl("get", "configmap", "a", "-o", "yaml")).out.replace("k: v", "k: w")
    assert (await kubectl("replace", "-f", "-", stdin=manifest)).out == "configmap/a replaced\n"
    said = await kubectl("replace", "-f", "-", stdin=manifest, code=1)
    assert "the object has been modified; please apply your changes to the latest version and try again" in said.err


async def test_run_and_expose(kubectl: Kubectl) -> None:
    assert (await kubectl("run", "r", "--image=a:1", "--restart=Never", "--port=80")).out == "pod/r created\n"
    assert (await kubectl("expose", "pod", "r", "--port=80")).out == "service/r exposed\n"
    said = await kubectl("get", "service", "r", "-o", "jsonpath={.spec.selector.run} {.spec.ports[0].targetPort}")
    assert said.out == "r 80"


async def test_scale(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "d", "--image=a:1")
    assert (await kubectl("scale", "deployment", "d", "--replicas=7")).out == "deployment.apps/d scaled\n"
    assert (await kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}")).out == "7"
    said = await kubectl("scale", "deployment", "d", "--current-replicas=3", "--replicas=1", code=1)
    assert "Expected replicas to be 3, was 7" in said.err
