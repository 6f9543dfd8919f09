from __future__ import annotations

import pytest

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldPath


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("fairlead.dev/drain", []),
        ("example.com/a/b", []),
        ("", ["driver: Required value"]),
        ("drain", ['driver: Invalid value: "drain": must be a domain-prefixed path (such as "acme.io/foo")']),
        ("/x", ['driver: Invalid value: "/x": must be a domain-prefixed path (such as "acme.io/foo")']),
        (
            "a.b/ ",
            [
                (
                    'driver: Invalid value: " ": Invalid path '
                    "(regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
                )
            ],
        ),
    ],
)
def test_domain_prefixed_paths(value: str, texts: list[str]) -> None:
    assert [str(error) for error in names.domain_prefixed_path(value, FieldPath("driver"))] == texts


def test_generate_name_may_end_in_a_dash() -> None:
    assert names.name_is_dns_subdomain("web-", prefix=True) == []
    assert names.name_is_dns_subdomain("web-") != []
    assert names.name_is_dns_label("a.b", prefix=True) == ["must not contain dots"]
    assert names.name_is_dns1035_label("1a") != []


def test_path_segments() -> None:
    assert names.name_is_path_segment("system:node") == []
    assert names.name_is_path_segment("..") == ["may not be '..'"]
    assert names.name_is_path_segment("..", prefix=True) == []
    assert names.name_is_path_segment("a/b%") == ["may not contain '/'", "may not contain '%'"]


def test_addresses() -> None:
    assert names.ip_address("10.9.8.7") == []
    assert names.ip_address("2001:db8::ffff") == []
    assert names.ip_address("a.b") == ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]


def test_numbers_and_short_forms() -> None:
    assert names.port_number(0) == ["must be between 1 and 65535, inclusive"]
    assert names.port_number(65535) == []
    assert names.percent("25%") == []
    assert names.percent("25") != []
    assert names.wildcard_dns1123_subdomain("*.a.b") == []
    assert names.wildcard_dns1123_subdomain("a.b") != []
