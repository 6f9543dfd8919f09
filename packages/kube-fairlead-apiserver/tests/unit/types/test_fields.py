from __future__ import annotations

import msgspec
import pytest

from kube_fairlead_apiserver.types.builtin_data import builtin_data
from kube_fairlead_apiserver.types.fields import Field, TypeRef, describe, parse_type


def field(type_name: str, name: str) -> Field:
    fields = describe(type_name).fields
    assert fields is not None
    return next(found for found in fields if found.name == name)


def test_every_type_can_be_read() -> None:
    for package, data in builtin_data().packages.items():
        for name in data.types:
            info = describe(f"{package}.{name}")
            assert info.fields is not None or info.name == f"{package}.{name}"


def test_every_type_that_a_field_names_exists() -> None:
    def walk(reference: TypeRef) -> None:
        if reference.item is not None:
            walk(reference.item)
        elif reference.form == "message":
            describe(reference.name)

    for package, data in builtin_data().packages.items():
        for name in data.types:
            for found in describe(f"{package}.{name}").fields or ():
                walk(found.type)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("string", TypeRef("scalar", "string")),
        ("*int32", TypeRef("scalar", "int32", pointer=True)),
        ("[]EnvVar", TypeRef("list", item=TypeRef("message", "here.EnvVar"))),
        ("{}a.b.Quantity", TypeRef("map", item=TypeRef("message", "a.b.Quantity"))),
        ("{}<>string", TypeRef("map", item=TypeRef("wrapped", item=TypeRef("scalar", "string")))),
    ],
)
def test_type_expressions(text: str, expected: TypeRef) -> None:
    assert parse_type("here", text) == expected


def test_a_list_of_a_container_is_keyed_and_merged() -> None:
    ports = field("api.core.v1.Container", "ports")
    assert ports.number == 6
    assert ports.list_type == "map"
    assert ports.list_map_keys == ("containerPort", "protocol")
    assert (ports.patch_strategy, ports.patch_merge_key) == ("merge", "containerPort")
    assert ports.omit_empty
    assert not ports.required


def test_defaults_enums_and_presence() -> None:
    protocol = field("api.core.v1.ServicePort", "protocol")
    assert protocol.default == "TCP"
    assert protocol.enum == ("SCTP", "TCP", "UDP")
    name = field("api.core.v1.Container", "name")
    assert name.required
    assert not name.omit_empty
    assert name.default == ""
    assert field("api.core.v1.Container", "image").default is msgspec.UNSET
    assert field("api.apps.v1.DeploymentSpec", "replicas").type.pointer
    usages = field("api.certificates.v1.CertificateSigningRequestSpec", "usages")
    assert "client auth" in usages.item_enum


def test_embedded_structs_have_a_number_and_no_name() -> None:
    fields = describe("api.core.v1.Volume").fields or ()
    (embedded,) = [found for found in fields if found.embedded]
    assert embedded.number == 2
    assert embedded.type.name == "api.core.v1.VolumeSource"
