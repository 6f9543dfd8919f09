from __future__ import annotations

import pytest

from kube_fairlead_apiserver.cel.string_formats import known_format, matches_format

# Good and bad values of each format, as the Kubernetes API server judges them.
CASES = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["x", "507f1f77bcf86cd79943901"]),
    "byte": (["YQ==", "YWJj"], ["", "YQ", "Y-Jj", "YQ==\n"]),
    "cidr": (["1.2.3.4/8", "::/128", "01.2.3.4/08"], ["1.2.3.4/33", "::/129", "1.2.3.4", "1.2.3.4/-1"]),
    "creditcard": (["4220855426222389", "4220-8554-2622-2389"], ["4220855426213389", "1"]),
    "date": (["2020-02-29", "0000-02-29"], ["2021-02-29", "2020-1-1", "20200101"]),
    "date-time": (
        ["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20z", "2014-12-15T19:30:20+25:99"],
        ["2014-12-15", "2014-12-15T24:30:20Z", "2014-12-15T19:30:60Z", "2014-12-15T19:30:20"],
    ),
    "duration": (["1h", "22 ns", "3 days", "1.5h", "0"], ["", "x", "1 foo", "5", "99999999999999999999 s"]),
    "email": (["a@b", "Foo <a@b.c>", '"a b"@c', "a@[1.2.3.4]", "a@b (c)"], ["a@", "a..b@c", "a@b,c@d", "a@[x]"]),
    "hexcolor": (["#fff", "CCccCC"], ["fff0"]),
    "hostname": (["a", "example.com", "☃.net"], ["-a", "a_b", "1.2.3.4", "x" * 64, ".".join(["x" * 60] * 5)]),
    "ipv4": (["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], ["256.1.1.1", "1.2.3", "1..2.3"]),
    "ipv6": (["::1", "::ffff:1.2.3.4"], ["1::2::3", "fe80::1%en0", "1.2.3.4"]),
    "isbn": (["3836221195", "978-4-87311-368-5", "3 401 01319 X"], ["1"]),
    "isbn10": (["3836221195"], ["3836221196", "9784873113685"]),
    "isbn13": (["9784873113685"], ["9784873113686"]),
    "k8s-long-name": (["a.b", "a-1.b"], ["a..b", "A", "x" * 254]),
    "k8s-short-name": (["a", "x" * 63], ["a.b", "a-", "x" * 64]),
    "mac": (["3D:F2:C9:A6:B3:4F", "0123.4567.89ab", "aa-bb-cc-dd-ee-ff"], ["3D-F2-C9-A6-B3:4F", "00"]),
    "password": (["", "anything"], []),
    "rgbcolor": (["rgb(0,31,255)", "rgb( 0, 1, 2 )"], ["rgb(1,349,275)", "rgba(0,31,255)"]),
    "ssn": (["191-60-2869", "191 60 2869"], ["191602869"]),
    "uri": (
        ["http://foo.bar/#c", "/abs/dir", "mailto:a@b", "http://[::1]:80/", "http://a?b=c", "*"],
        ["", "foo.com", "./rel", "http://a/%zz", "http://a:port/", "http://a b/", "http://[:1]/", "a\n:b"],
    ),
    "uuid": (["3D813CBB47FB32BA91DF831E1593AC29"], ["x"]),
    "uuid3": (["3d813cbb-47fb-32ba-91df-831e1593ac29"], ["3d813cbb-47fb-42ba-91df-831e1593ac29"]),
    "uuid4": (["3d813cbb-47fb-42ba-91df-831e1593ac29"], ["3d813cbb-47fb-42ba-c1df-831e1593ac29"]),
    "uuid5": (["3d813cbb-47fb-52ba-91df-831e1593ac29"], ["3d813cbb-47fb-42ba-91df-831e1593ac29"]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_format_accepts_and_refuses_what_kubernetes_does(name: str) -> None:
    check = matches_format(name)
    assert check is not None
    good, bad = CASES[name]
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


@pytest.mark.parametrize(
    ("format_name", "type_name", "known"),
    [
        ("date-time", "string", "date-time"),
        ("date-time", "", "date-time"),
        ("date-time", "integer", ""),
        ("int32", "integer", "int32"),
        ("int32", "string", ""),
        ("double", "number", "double"),
        ("float", "integer", ""),
        ("unheard-of", "string", ""),
        ("date", "object", ""),
    ],
)
def test_a_format_counts_only_for_its_type(format_name: str, type_name: str, known: str) -> None:
    assert known_format(format_name, type_name) == known


def test_a_hostile_mail_address_is_judged_quickly() -> None:
    check = matches_format("email")
    assert check is not None
    assert not check("a" * 100_000 + "<")
    assert not check(" " * 100_000 + "<")
