from __future__ import annotations

import json

import pytest

from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead_apiserver.types import schemas
from kube_fairlead_apiserver.types.builtin_data import builtin_data
from kube_fairlead_apiserver.types.resources import builtin_resources

POD = GroupVersionKind("", "v1", "Pod")


@pytest.mark.parametrize(
    ("gvk", "expected"),
    [
        (POD, "api.core.v1.Pod"),
        (GroupVersionKind("apps", "v1", "DeploymentList"), "api.apps.v1.DeploymentList"),
        (GroupVersionKind("apps", "v1", "DeleteOptions"), f"{schemas.META}.DeleteOptions"),
        (GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata"), f"{schemas.META}.PartialObjectMetadata"),
        (GroupVersionKind("", "v1", "Status"), f"{schemas.META}.Status"),
        (GroupVersionKind("apps", "v1", "Status"), None),
        (GroupVersionKind("apps", "v1", "Pod"), None),
        (GroupVersionKind("example.com", "v1", "Pod"), None),
        (GroupVersionKind("", "", "Quantity"), None),
    ],
)
def test_kinds_and_their_types(gvk: GroupVersionKind, expected: str | None) -> None:
    assert schemas.type_name(gvk) == expected


def test_definitions_carry_no_prose_and_resolve() -> None:
    names = {f"{package}.{name}" for package, data in builtin_data().packages.items() for name in data.types}
    models = {schemas.REFERENCE + schemas.model_name(name) for name in names}

    def references(value: object) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(inner) for inner in value.values()))
        if isinstance(value, list):
            return set[str]().union(*(references(inner) for inner in value))
        return set()

    for name in names:
        definition = schemas.definition(name)
        assert not isinstance(definition.get("description"), str)
        assert references(definition) <= models


def test_a_definition_reads_as_openapi_v3() -> None:
    assert schemas.definition("api.core.v1.ServicePort") == {
        "type": "object",
        "required": ["port"],
        "properties": {
            "appProtocol": {"type": "string"},
            "name": {"type": "string"},
            "nodePort": {"type": "integer", "format": "int32"},
            "port": {"type": "integer", "format": "int32", "default": 0},
            "protocol": {"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]},
            "targetPort": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
        },
    }
    metadata = schemas.definition("api.core.v1.Pod")["properties"]["metadata"]
    assert metadata == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
        "default": {},
    }


def test_embedded_structs_are_flattened() -> None:
    definition = schemas.definition("api.core.v1.Volume")
    assert definition["required"] == ["name"]
    assert {"name", "emptyDir", "hostPath", "csi"} <= definition["properties"].keys()
    selector = schemas.definition("api.core.v1.ConfigMapKeySelector")
    assert selector["x-kubernetes-map-type"] == "atomic"
    assert set(selector["properties"]) == {"key", "name", "optional"}


def test_every_kind_compiles_and_shares_what_kinds_share() -> None:
    for resource in builtin_resources():
        node = schemas.node(resource.gvk)
        assert node is not None
        assert node.type == "object"
    pod = schemas.node(POD)
    template = schemas.node(GroupVersionKind("", "v1", "PodTemplate"))
    assert pod is not None
    assert template is not None
    assert (
        pod.properties["spec"].properties["containers"]
        is (template.properties["template"].properties["spec"].properties["containers"])
    )
    assert schemas.node(GroupVersionKind("example.com", "v1", "Pod")) is None


def test_the_tree_knows_lists_patches_and_special_types() -> None:
    pod = schemas.node(POD)
    assert pod is not None
    containers = pod.properties["spec"].properties["containers"]
    assert containers.list_type == "map"
    assert containers.list_map_keys == ("name",)
    assert containers.patch_strategies == {"merge"}
    assert containers.items is not None
    ports = containers.items.properties["ports"].items
    assert ports is not None
    assert ports.properties["protocol"].default == "TCP"
    probe = containers.items.properties["livenessProbe"].properties["httpGet"].properties["port"]
    assert probe.int_or_string
    volumes = pod.properties["spec"].properties["volumes"]
    assert volumes.patch_strategies == {"merge", "retainKeys"}


def test_definitions_are_the_callers_own() -> None:
    first = schemas.definition("api.core.v1.Pod")
    text = json.dumps(first)
    first["properties"].clear()
    assert json.dumps(schemas.definition("api.core.v1.Pod")) == text


def test_fields_in_which_an_empty_value_says_nothing() -> None:
    config_map = schemas.node(GroupVersionKind("", "v1", "ConfigMap"))
    pod = schemas.node(GroupVersionKind("", "v1", "Pod"))
    role = schemas.node(GroupVersionKind("rbac.authorization.k8s.io", "v1", "Role"))
    assert config_map is not None
    assert pod is not None
    assert role is not None
    assert {"data", "binaryData"} <= config_map.omitted
    assert "immutable" not in config_map.omitted, "a pointer: false is not nothing"
    spec = pod.properties["spec"]
    assert {"nodeName", "hostNetwork", "tolerations", "nodeSelector"} <= spec.omitted
    assert not {"containers", "securityContext", "terminationGracePeriodSeconds"} & spec.omitted
    volumes = spec.properties["volumes"].items
    assert volumes is not None
    assert not volumes.omitted, "what it takes over from an embedded struct are pointers"
    assert "rules" not in role.omitted, "it is always written"
