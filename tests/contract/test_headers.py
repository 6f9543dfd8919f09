"""Headers that come twice, after the body, or say two things about where a request ends. No library sends them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kube_fairlead_lab.testing.control_plane import ADMIN, ControlPlane
from tests.rawline import Line

PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
POST = f"POST {PATH} HTTP/1.1"
BODY = b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'
LENGTH = f"Content-Length: {len(BODY)}"
HOST = "Host: kubernetes"
JSON = "Content-Type: application/json"
AUTH = "Authorization: Bearer TOKEN"
WRONG = "Authorization: Bearer wrong"
CHUNKED = "Transfer-Encoding: chunked"
USUAL = [POST, HOST, AUTH, JSON]


def chunked(*trailers: str, extension: str = "") -> bytes:
    end = "".join(f"{line}\r\n" for line in trailers)
    return f"{len(BODY):x}{extension}\r\n{BODY.decode()}\r\n0\r\n{end}\r\n".encode()


async def ask(plane: ControlPlane, lines: list[str], body: bytes = BODY) -> tuple[int, dict[str, str], bytes]:
    """Send these bytes on a connection of their own; the first answer that is a final one."""
    access = plane.access()

    def talk() -> tuple[int, dict[str, str], bytes]:
        line = Line(access, PATH)
        try:
            head = "\r\n".join([*lines, "", ""]).replace("TOKEN", access.token or "")
            line.send(head.encode() + body.replace(b"TOKEN", (access.token or "").encode()))
            answer = line.answer()
            return line.answer() if answer[0] == 100 else answer
        finally:
            line.close()

    return await asyncio.to_thread(talk)


async def who(plane: ControlPlane, lines: list[str], body: bytes = BODY) -> dict[str, Any]:
    code, _, raw = await ask(plane, lines, body)
    assert code == 201
    info: dict[str, Any] = json.loads(raw)["status"]["userInfo"]
    return info


async def test_of_two_authorizations_the_first_counts(control_plane: ControlPlane) -> None:
    assert (await who(control_plane, [POST, HOST, AUTH, WRONG, JSON, LENGTH]))["username"] == ADMIN
    assert (await ask(control_plane, [POST, HOST, WRONG, AUTH, JSON, LENGTH]))[0] == 401
    # Also when it is empty: that is a request without credentials.
    assert (await ask(control_plane, [POST, HOST, "Authorization: ", AUTH, JSON, LENGTH]))[0] == 403


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (["Impersonate-User: a", "Impersonate-User: b"], {"username": "a"}),
        (["Impersonate-User: ", "Impersonate-User: b"], {"username": ADMIN}),
        (["Impersonate-User: a", "Impersonate-Uid: 1", "Impersonate-Uid: 2"], {"username": "a", "uid": "1"}),
        (
            ["Impersonate-User: a", "Impersonate-Group: g", "Impersonate-Group: h"],
            {"groups": ["g", "h", "system:authenticated"]},
        ),
        (["Impersonate-User: a", "Impersonate-Extra-x: g", "Impersonate-Extra-x: h"], {"extra": {"x": ["g", "h"]}}),
        (["impersonate-USER: b"], {"username": "b"}),
        (["Impersonate_User: b"], {"username": ADMIN}),
        (["Impersonate-User: j\u00fcrgen"], {"username": "j\u00fcrgen"}),
    ],
)
async def test_impersonation(control_plane: ControlPlane, headers: list[str], expected: dict[str, Any]) -> None:
    got = await who(control_plane, [*USUAL, LENGTH, *headers])
    assert {name: got.get(name) for name in expected} == expected


async def test_of_two_content_types_and_two_accepts_the_first_counts(control_plane: ControlPlane) -> None:
    text = "Content-Type: text/plain"
    assert (await ask(control_plane, [POST, HOST, AUTH, JSON, text, LENGTH]))[0] == 201
    assert (await ask(control_plane, [POST, HOST, AUTH, text, JSON, LENGTH]))[0] == 415
    as_json, as_yaml = "Accept: application/json", "Accept: application/yaml"
    for accepts in ([as_json, as_yaml], [as_yaml, as_json]):
        get = ["GET /api/v1/namespaces/default HTTP/1.1", HOST, AUTH, *accepts]
        code, headers, _ = await ask(control_plane, get, b"")
        assert (code, headers["content-type"]) == (200, accepts[0].removeprefix("Accept: "))


async def test_a_trailer_is_no_header(control_plane: ControlPlane) -> None:
    """Neither does it add rights nor does it take any."""
    assert (await ask(control_plane, [POST, HOST, JSON, CHUNKED], chunked(AUTH)))[0] == 403
    announced = [*USUAL, CHUNKED, "Trailer: Impersonate-User"]
    for trailer in ("Impersonate-User: b", "Impersonate-Group: g", WRONG, f"X: {'y' * 3000}"):
        assert (await who(control_plane, announced, chunked(trailer)))["username"] == ADMIN


@pytest.mark.parametrize("trailers", [["X: " + "y" * 200_000], ["X: y"] * 50_000])
async def test_trailers_without_end(control_plane: ControlPlane, trailers: list[str]) -> None:
    try:
        code, headers, _ = await ask(control_plane, [*USUAL, CHUNKED], chunked(*trailers))
    except (OSError, IndexError):
        return  # kube-apiserver may hang up before it is read
    assert code in {400, 431, 500}
    assert headers["connection"] == "close"


REFUSED = {
    "no host": ([POST, AUTH, JSON, LENGTH], BODY, 400),
    "two hosts": ([POST, HOST, HOST, AUTH, JSON, LENGTH], BODY, 400),
    "a host with a slash": ([POST, "Host: a/b", AUTH, JSON, LENGTH], BODY, 400),
    "lengths that differ": ([*USUAL, LENGTH, "Content-Length: 5"], BODY, 400),
    "a list of lengths": ([*USUAL, f"{LENGTH}, {len(BODY)}"], BODY, 400),
    "a length with a sign": ([*USUAL, f"Content-Length: +{len(BODY)}"], BODY, 400),
    "a negative length": ([*USUAL, "Content-Length: -1"], BODY, 400),
    "no length": ([*USUAL, "Content-Length: "], b"", 400),
    "compressed chunks": ([*USUAL, "Transfer-Encoding: gzip, chunked"], chunked(), 501),
    "an unknown encoding": ([*USUAL, "Transfer-Encoding: xchunked"], chunked(), 501),
    "chunks in HTTP/1.0": ([f"POST {PATH} HTTP/1.0", *USUAL[1:], CHUNKED], chunked(), 400),
    "HTTP/2 spelled as HTTP/1": ([f"POST {PATH} HTTP/2.0", *USUAL[1:], LENGTH], BODY, 505),
    "HTTP/0.9": ([f"POST {PATH} HTTP/0.9", *USUAL[1:], LENGTH], BODY, 505),
    "another expectation": ([*USUAL, LENGTH, "Expect: magic"], BODY, 417),
    "a space before the colon": ([*USUAL, LENGTH, "X : a"], BODY, 400),
    "no colon": ([*USUAL, LENGTH, "X"], BODY, 400),
    "a zero byte": ([*USUAL, LENGTH, "X: a\0b"], BODY, 400),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_no_request(control_plane: ControlPlane, case: str) -> None:
    lines, body, expected = REFUSED[case]
    code, _, _ = await ask(control_plane, lines, body)
    assert code == expected


# docs/differences.md: here a request is refused when two readers could disagree on where it ends.
STRICTER = {
    "the same length twice": ([*USUAL, LENGTH, LENGTH], BODY, 400, 201),
    "a length and chunks": ([*USUAL, LENGTH, CHUNKED], chunked(), 400, 201),
    "chunks and a length": ([*USUAL, CHUNKED, LENGTH], chunked(), 400, 201),
    "chunks twice": ([*USUAL, CHUNKED, CHUNKED], chunked(), 400, 501),
    "a folded header": ([*USUAL, LENGTH, "X: a\r\n b"], BODY, 400, 201),
    "an upgrade with a body": ([*USUAL, LENGTH, "Connection: Upgrade", "Upgrade: x"], BODY, 400, 201),
}


@pytest.mark.parametrize("case", STRICTER)
async def test_what_could_be_read_in_two_ways(control_plane: ControlPlane, case: str) -> None:
    lines, body, here, there = STRICTER[case]
    code, _, _ = await ask(control_plane, lines, body)
    assert code == (here if control_plane.kind == "embedded" else there)
