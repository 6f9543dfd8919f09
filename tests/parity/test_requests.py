"""Requests that no library sends: odd numbers in queries, odd bytes in paths, odd methods, many headers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kube_fairlead_lab.testing import ControlPlane
from tests.parity.conftest import Planes
from tests.rawline import Line

pytestmark = pytest.mark.kube

PATH = "/api/v1/namespaces/default/configmaps"
NUMBERS = (
    *("", "0", "1", "-1", "+1", "01", "1_0", "1e3", "0x10", "%201", "1%20", "1.0", "٣", "%D9%A3", "x", "-", "--1"),
    *(str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1), "%EF%BC%91", "1;", "1%3B", "1%00"),
)
FLAGS = ("", "0", "1", "t", "T", "true", "True", "TRUE", "tRuE", "false", "False", "f", "no", "yes", "2", "%31")


def queries() -> Iterator[str]:
    for number in NUMBERS:
        yield f"limit={number}"
        yield f"timeoutSeconds={number}"
        yield f"watch=true&timeoutSeconds={number or 1}" if number in {"-1", "x", "1", "٣"} else f"limit=1&x={number}"
    for flag in FLAGS:
        yield f"pretty={flag}"
        yield f"includeUninitialized={flag}"
    yield from (
        "limit=1;continue=x",
        ";",
        "a;b",
        "limit=1&;",
        "limit=1%3Bx=y",
        "a=%zz",
        "a=%",
        "&&",
        "=",
        "limit=1&limit=x",
    )
    yield from ("labelSelector=a;b", "labelSelector=a%3Bb", "fieldSelector=metadata.name%3Da;b", "limit=1&a;b=c")
    yield from (
        "resourceVersion=-1",
        "resourceVersion=٣",
        "resourceVersion=1_0",
        "resourceVersion=%201",
        "resourceVersion=+1",
    )


def targets() -> Iterator[tuple[str, bytes]]:
    """A method and a request target."""
    for query in queries():
        yield "GET", f"{PATH}?{query}".encode()
    odd = (
        b"\x80",
        b"\xff",
        b"\xc3\xa9",
        b"%80",
        b"%FF",
        b"%C3%A9",
        b"%00",
        b"%2F",
        b"%2e%2e",
        b"..",
        b".",
        b"//",
        b"\\",
        b"|",
    )
    for piece in (
        *odd,
        b'"',
        b"<",
        b"^",
        b"`",
        b"{",
        b"~",
        b"%",
        b"%4",
        b"%zz",
        b"%25",
        b";",
        b"%3B",
        b":",
        b"#",
        b"[",
        b"@",
    ):
        yield "GET", PATH.encode() + b"/a" + piece
        yield "GET", b"/api/v1/namespaces/" + piece + b"/configmaps"
        yield "GET", PATH.encode() + b"?a" + piece
    for method, target in itertools.product(
        ("OPTIONS", "GET", "HEAD", "POST", "CONNECT", "TRACE"),
        (b"*", b"/", b"/version", b"//version", b"/api", PATH.encode()),
    ):
        yield method, target
    for target in (
        b"kubernetes:443",
        b"http://kubernetes/version",
        b"https://kubernetes/version",
        b"version",
        b"?",
        b"*?a=b",
    ):
        yield "GET", target
        yield "OPTIONS", target
    yield "CONNECT", b"kubernetes:443"


def head(line: Line, method: str, target: bytes, *more: bytes) -> bytes:
    given = [
        method.encode() + b" " + target + b" HTTP/1.1",
        b"Host: kubernetes",
        f"Authorization: Bearer {line.access.token}".encode(),
        b"Connection: close",
        *more,
    ]
    return b"\r\n".join([*given, b"", b""])


def code(plane: ControlPlane, method: str, target: bytes, *more: bytes) -> str:
    """The status code, as far as it can be read before the server hangs up."""
    line = Line(plane.access(), "/")
    try:
        line.send(head(line, method, target, *more))
        status = line.socket.recv(12)
        while 0 < len(status) < 12 and (piece := line.socket.recv(12 - len(status))):
            status += piece
        return status[9:].decode()
    except (ConnectionError, OSError) as error:
        return type(error).__name__
    finally:
        line.close()


def recorded(method: str, target: bytes) -> tuple[str, str] | None:
    """What docs/differences.md says of a request: the codes of kube-apiserver and of the embedded server."""
    path = target.partition(b"?")[0]
    if any(byte >= 0x80 for byte in target):
        return ("404" if path.startswith(PATH.encode() + b"/") else "400" if b"\xa3" in target else "200"), "400"
    if path in {b"/api/v1/namespaces/" + dots + b"/configmaps" for dots in (b".", b"..", b"%2e%2e")}:
        return "500", "200"
    if target in {b"/version", b"/api"} and method == "HEAD":
        return "405", "200"
    if target == b"/" and method in {"OPTIONS", "POST", "CONNECT", "TRACE"}:
        return "200", "405"
    if target == b"kubernetes:443":
        return "404", "405" if method == "CONNECT" else "400"
    return None


def test_the_status_of_odd_requests(planes: Planes) -> None:
    different = []
    for method, target in targets():
        kube, embedded = (code(plane, method, target) for plane in planes)
        if (kube, embedded) != (recorded(method, target) or (kube, kube)):
            different.append(f"{method} {target!r}: kube {kube}, embedded {embedded}")
    assert not different, f"{len(different)}\n" + "\n".join(different)


@pytest.mark.parametrize(("count", "size"), [(50, 1), (1000, 1), (5000, 1), (50, 100), (500, 100)])
def test_many_headers(planes: Planes, count: int, size: int) -> None:
    lines = [f"X-{number}: {'x' * size}".encode() for number in range(count)]
    assert {code(plane, "GET", b"/version", *lines) for plane in planes} == {"200"}


def test_a_head_that_is_too_large(planes: Planes) -> None:
    """docs/differences.md: a megabyte there, 64 KiB here."""
    half, whole = ([f"X-{number}: {'x' * 1000}".encode() for number in range(count)] for count in (500, 1200))
    assert [code(plane, "GET", b"/version", *half) for plane in planes] == ["200", "431"]
    assert {code(plane, "GET", b"/version", *whole) for plane in planes} <= {"431", "ConnectionResetError", ""}
