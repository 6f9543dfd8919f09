"""kubectl apply, from the client's side and the server's, and diff."""

from __future__ import annotations

import pytest

from tests.interop.conftest import Kubectl

pytestmark = pytest.mark.kube

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: x}}
spec:
  replicas: 2
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      containers:
      - {name: main, image: "a:1", ports: [{containerPort: 80}], env: [{name: A, value: "1"}, {name: B, value: "2"}]}
"""

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: what is wanted
            properties:
              size: {type: integer, minimum: 1, description: how big it is}
              tags: {type: array, items: {type: string}}
"""


async def test_client_side(kubectl: Kubectl) -> None:
    assert (await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)).out == "deployment.apps/d created\n"
    assert (await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)).out == "deployment.apps/d unchanged\n"
    changed = DEPLOYMENT.replace('{name: B, value: "2"}', '{name: C, value: "3"}').replace("replicas: 2", "replicas: 3")
    assert (await kubectl("apply", "-f", "-", stdin=changed)).out == "deployment.apps/d configured\n"
    made = (await kubectl("get", "deployment", "d", "-o", "json")).json
    assert made["spec"]["replicas"] == 3
    env = made["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [entry["name"] for entry in env] == ["A", "C"]
    assert "kubectl.kubernetes.io/last-applied-configuration" in made["metadata"]["annotations"]


@pytest.mark.parametrize("way", [[], ["--server-side"]])
async def test_a_list_of_objects(kubectl: Kubectl, way: list[str]) -> None:
    """kubectl checks a List by OpenAPI v2, in protobuf: v3 has no such kind."""
    item = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s"}}'
    listed = '{{"apiVersion": "v1", "kind": "List", "items": [{}, {}]}}'.format(item % "la", item % "lb")
    word = "serverside-applied" if way else "created"
    said = await kubectl("apply", *way, "-f", "-", stdin=listed)
    assert said.out == f"configmap/la {word}\nconfigmap/lb {word}\n"


async def test_client_side_leaves_alone_what_others_set(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT.replace("  replicas: 2\n", ""))
    await kubectl("scale", "deployment", "d", "--replicas=9")
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT.replace("  replicas: 2\n", "").replace("a:1", "a:2"))
    said = await kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}")
    assert said.out == "9"


async def test_server_side(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert (await kubectl(*apply, stdin=DEPLOYMENT)).out == "deployment.apps/d serverside-applied\n"
    await kubectl("scale", "deployment", "d", "--replicas=5")
    said = await kubectl(*apply, stdin=DEPLOYMENT, code=1)
    holder = 'conflict with "kubectl" with subresource "scale" using apps/v1'
    assert f"error: Apply failed with 1 conflict: {holder}: .spec.replicas" in said.err
    await kubectl(*apply, "--force-conflicts", stdin=DEPLOYMENT)
    assert (await kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}")).out == "2"
    fields = (await kubectl("get", "deployment", "d", "-o", "json", "--show-managed-fields")).json
    managers = {(entry["manager"], entry["operation"]) for entry in fields["metadata"]["managedFields"]}
    assert ("kubectl", "Apply") in managers


async def test_from_the_clients_side_to_the_servers(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    await kubectl("apply", "--server-side", "-f", "-", stdin=DEPLOYMENT.replace('{name: B, value: "2"}', ""))
    made = (await kubectl("get", "deployment", "d", "-o", "json")).json
    assert [entry["name"] for entry in made["spec"]["template"]["spec"]["containers"][0]["env"]] == ["A"]


async def test_diff(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert (await kubectl("diff", "-f", "-", stdin=DEPLOYMENT)).out == ""
    said = await kubectl("diff", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 3"), code=1)
    assert "-  replicas: 2" in said.lines
    assert "+  replicas: 3" in said.lines
    said = await kubectl("diff", "--server-side", "-f", "-", stdin=DEPLOYMENT.replace("a:1", "a:2"), code=1)
    assert any(line.startswith("+") and "image: a:2" in line for line in said.lines)


async def test_prune(kubectl: Kubectl) -> None:
    def maps(*names: str) -> str:
        return "---\n".join(
            f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: s}}}}\n" for name in names
        )

    await kubectl("apply", "-f", "-", "-l", "set=s", stdin=maps("a", "b"))
    said = await kubectl(
        "apply", "-f", "-", "-l", "set=s", "--prune", "--prune-allowlist=core/v1/ConfigMap", stdin=maps("a")
    )
    assert "configmap/b pruned" in said.lines


async def test_custom_resources(kubectl: Kubectl, namespace: str) -> None:
    group = f"{namespace}.example.com"
    assert "created" in (await kubectl("apply", "-f", "-", stdin=DEFINITION.replace("GROUP", group))).out
    await kubectl("wait", "--for=condition=Established", f"crd/widgets.{group}", "--timeout=30s")
    widget = f"apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: w}}\nspec: {{size: 3, tags: [a, b]}}\n"
    assert (await kubectl("apply", "-f", "-", stdin=widget)).out == f"widget.{group}/w created\n"
    changed = await kubectl("apply", "-f", "-", stdin=widget.replace("size: 3", "size: 4"))
    assert changed.out == f"widget.{group}/w configured\n"
    assert (await kubectl("get", "wd", "w")).lines[1].split()[:2] == ["w", "4"]
    said = await kubectl("apply", "-f", "-", stdin=widget.replace("size: 3", "size: 0"), code=1)
    assert "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1" in said.err
    said = await kubectl("apply", "-f", "-", stdin=widget.replace("size: 3", "colour: red"), code=1)
    assert 'strict decoding error: unknown field "spec.colour"' in said.err
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=widget)
    explained = await kubectl("explain", f"widgets.{group}.spec.size")
    assert "how big it is" in explained.out
    await kubectl("delete", f"crd/widgets.{group}")
