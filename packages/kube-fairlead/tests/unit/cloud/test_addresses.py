from __future__ import annotations

import pytest

from kube_fairlead.api.core_v1 import NodeAddress
from kube_fairlead.cloud.addresses import AddressMismatch, changed_addresses, node_addresses
from kube_fairlead.cloud.wellknown import ANNOTATION_PROVIDED_NODE_IP
from tests.unit.cloud.world import node


def address(kind: str, value: str) -> NodeAddress:
    return NodeAddress(type=kind, address=value)


CLOUD = (
    address("InternalIP", "10.0.0.1"),
    address("InternalIP", "10.0.0.2"),
    address("InternalIP", "fd00::2"),
    address("ExternalIP", "192.0.2.1"),
    address("Hostname", "n1.cloud"),
)


@pytest.mark.parametrize(
    ("provided", "expected"),
    [
        ("10.0.0.2", [CLOUD[1], CLOUD[3], CLOUD[4]]),
        ("192.0.2.1", [CLOUD[3], CLOUD[0], CLOUD[1], CLOUD[2], CLOUD[4]]),
        ("10.0.0.2,fd00:0::2", [CLOUD[1], CLOUD[2], CLOUD[3], CLOUD[4]]),
        ("fd00::2,10.0.0.2", [CLOUD[2], CLOUD[1], CLOUD[3], CLOUD[4]]),
    ],
)
def test_a_provided_address_comes_first_and_alone_of_its_type(provided: str, expected: list[NodeAddress]) -> None:
    made = node(annotations={ANNOTATION_PROVIDED_NODE_IP: provided})
    assert list(node_addresses(made, CLOUD)) == expected


@pytest.mark.parametrize(
    "provided", ["10.0.0.9", "", "x", "10.0.0.1,10.0.0.2", "10.0.0.1,fd00::2,192.0.2.1", "10.0.0.1,"]
)
def test_an_address_that_does_not_fit_is_refused(provided: str) -> None:
    with pytest.raises(AddressMismatch):
        node_addresses(node(annotations={ANNOTATION_PROVIDED_NODE_IP: provided}), CLOUD)


def test_changes() -> None:
    assert changed_addresses(node(), ()) is None
    assert changed_addresses(node(), CLOUD) == CLOUD
    same = {"Hostname": "n1.cloud", "ExternalIP": "192.0.2.1"}
    assert changed_addresses(node(addresses=same), (CLOUD[3], CLOUD[4])) is None
    kubelet = address("Hostname", "n1.kubelet")
    assert changed_addresses(node(addresses={"Hostname": "n1.kubelet"}), CLOUD[:1]) == (CLOUD[0], kubelet)
