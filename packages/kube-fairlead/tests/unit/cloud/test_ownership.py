from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.core_v1 import Node, NodeSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead.cloud import ownership
from kube_fairlead.cloud.ownership import Ownership, PlatformError, parse_platforms

OWNED, FOREIGN, UNKNOWN = Ownership.OWNED, Ownership.FOREIGN, Ownership.UNKNOWN


def node(provider_id: str = "", annotation: str | None = None) -> Node:
    annotations = {} if annotation is None else {ANNOTATION_PLATFORM: annotation}
    return Node(metadata=ObjectMeta(name="n", annotations=annotations), spec=NodeSpec(provider_id=provider_id))


@pytest.mark.parametrize(
    ("provider_id", "annotation", "platforms", "expected"),
    [
        ("aws:///us-east-1a/i-1", None, {"aws"}, OWNED),
        ("aws:///us-east-1a/i-1", None, {"gce", "aws"}, OWNED),
        ("aws:///us-east-1a/i-1", "gce", {"aws"}, OWNED),  # the id decides alone
        ("gce://p/z/n", "aws", {"aws"}, FOREIGN),
        ("gce://p/z/n", None, {"aws"}, FOREIGN),
        ("", "aws", {"aws"}, OWNED),
        ("", "gce", {"aws"}, FOREIGN),
        ("", "AWS", {"aws"}, FOREIGN),
        ("", " aws", {"aws"}, FOREIGN),
        ("", "", {"aws"}, UNKNOWN),
        ("", None, {"aws"}, UNKNOWN),
        # Prefixes that contain one another.
        ("aws-cn://x", None, {"aws"}, FOREIGN),
        ("aws://x", None, {"aws-cn"}, FOREIGN),
        ("hcloud://bm-1", None, {"hcloud"}, OWNED),  # legacy id of a dedicated server: the provider refuses it
        ("hrobot://1", None, {"hcloud"}, FOREIGN),
        ("awsx://1", None, {"aws"}, FOREIGN),
        ("aws://gce://1", None, {"aws"}, OWNED),
        ("aws://gce://1", None, {"gce"}, FOREIGN),
        # As long as an id may be, and one longer.
        ("aws://" + "x" * 1018, None, {"aws"}, OWNED),
        ("aws://" + "x" * 1019, None, {"aws"}, FOREIGN),
        # No platforms: as before there was ownership.
        ("gce://p/z/n", "gce", set(), OWNED),
        ("", None, set(), OWNED),
        ("nonsense", None, set(), OWNED),
    ],
)
def test_ownership(provider_id: str, annotation: str | None, platforms: set[str], expected: Ownership) -> None:
    assert ownership.ownership(node(provider_id, annotation), platforms) is expected


MALFORMED = [
    "aws",
    "aws:",
    "aws:/x",
    "aws:x",
    "aws//x",
    "aws://",
    "://x",
    "//x",
    "/aws://x",
    " aws://x",
    "aws ://x",
    "aws://x y",
    "aws://x\n",
    "\naws://x",
    "AWS://x",
    "Aws://x",
    "áws://x",
    "аws://x",  # noqa: RUF001 - a Cyrillic letter that looks like a Latin one
    "aws://ünïcode",
    "aws\u200b://x",
    "aws\x00://x",
    "aws://x\x00",
    "aws://" + "x" * 4096,
    "a" * 4096 + "://x",
    "-aws://x",
    "aws-://x",
    "aws,gce://x",
    "aws/gce://x",
]


@pytest.mark.parametrize("provider_id", MALFORMED)
@pytest.mark.parametrize("annotation", [None, "aws", "gce"])
def test_a_malformed_provider_id_is_foreign_whatever_the_annotation_says(
    provider_id: str, annotation: str | None
) -> None:
    assert ownership.ownership(node(provider_id, annotation), {"aws"}) is FOREIGN
    assert ownership.platform_of(node(provider_id, annotation)) == ""


platform_names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", fullmatch=True)


@given(text=st.text(max_size=4200), platforms=st.sets(platform_names, min_size=1, max_size=3))
def test_any_text_as_provider_id_is_owned_only_by_its_whole_scheme(text: str, platforms: set[str]) -> None:
    whose = ownership.ownership(node(text), platforms)
    if whose is OWNED:
        scheme, separator, rest = text.partition("://")
        assert scheme in platforms
        assert separator
        assert rest
    elif text:
        assert whose is FOREIGN
    else:
        assert whose is UNKNOWN


@given(text=st.text(max_size=200), platforms=st.sets(platform_names, min_size=1, max_size=3))
def test_any_text_as_annotation_is_owned_only_if_it_is_a_platform(text: str, platforms: set[str]) -> None:
    expected = OWNED if text in platforms else FOREIGN if text else UNKNOWN
    assert ownership.ownership(node(annotation=text), platforms) is expected


@given(one=platform_names, other=platform_names, rest=st.from_regex(r"[!-~]{1,80}", fullmatch=True))
def test_no_two_platforms_share_a_node(one: str, other: str, rest: str) -> None:
    first = ownership.ownership(node(f"{one}://{rest}"), {one})
    second = ownership.ownership(node(f"{one}://{rest}"), {other})
    assert first is OWNED
    assert (second is OWNED) == (one == other)


@given(platform=platform_names, rest=st.from_regex(r"[!-~]{1,80}", fullmatch=True))
def test_platform_of_reads_the_scheme(platform: str, rest: str) -> None:
    assert ownership.platform_of(node(f"{platform}://{rest}", "other")) == platform
    assert ownership.platform_of(node(annotation=platform)) == platform


def test_platform_of_a_node_that_names_none() -> None:
    assert ownership.platform_of(node()) == ""
    assert ownership.platform_of(node(annotation="Not A Platform")) == ""


def test_parse_platforms() -> None:
    assert parse_platforms(["aws", " on-prem "]) == {"aws", "on-prem"}
    assert parse_platforms([]) == frozenset()


@pytest.mark.parametrize("name", ["", "AWS", "aws://", "a b", "ä", "-a", "a-", "a" * 64, "a/b", "a_b"])
def test_what_cannot_be_a_platform_is_refused(name: str) -> None:
    with pytest.raises(PlatformError, match="is not a platform"):
        parse_platforms(["aws", name])
