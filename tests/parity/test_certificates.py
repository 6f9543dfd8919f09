"""The status and the approval of certificate requests: generated conditions and certificates, before and after."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.test_certificates import CSRS, csr, pem_request
from tests.parity.conftest import Planes

pytestmark = pytest.mark.kube

Json = dict[str, Any]
TIME = "2024-01-02T03:04:05Z"
GENERATED = 160


def certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(begin + dt.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


CERTIFICATE = certificate()
LINES = CERTIFICATE.splitlines(keepends=True)
DER = base64.b64decode(b"".join(LINES[1:-1]))
TWO = base64.encodebytes(DER + DER)
CERTIFICATES: dict[str, bytes | None] = {
    "absent": None,
    "empty": b"",
    "one": CERTIFICATE,
    "two": CERTIFICATE * 2,
    "two in one block": LINES[0] + TWO + LINES[-1],
    "no PEM": b"hello",
    "text before": b"text\n" + CERTIFICATE,
    "text before on the line": b"text" + CERTIFICATE,
    "text after": CERTIFICATE + b"text",
    "text between": CERTIFICATE + b"text\n" + CERTIFICATE,
    "a key": CERTIFICATE.replace(b"CERTIFICATE", b"PRIVATE KEY"),
    "a key behind": CERTIFICATE + CERTIFICATE.replace(b"CERTIFICATE", b"PRIVATE KEY"),
    "headers": LINES[0] + b"a: b\n\n" + b"".join(LINES[1:]),
    "no content": LINES[0] + LINES[-1],
    "not base64": LINES[0] + b"!!!\n" + LINES[-1],
    "not DER": LINES[0] + b"AAAA\n" + LINES[-1],
    "cut off": b"".join(LINES[:-1]),
    "cut in half": LINES[0] + LINES[1] + LINES[-1],
    "more bytes behind": LINES[0] + base64.encodebytes(DER + b"xx") + LINES[-1],
    "another end": b"".join(LINES[:-1]) + b"-----END KEY-----\n",
    "CRLF": CERTIFICATE.replace(b"\n", b"\r\n"),
    "spaces": CERTIFICATE.replace(b"\n", b" \n"),
    "begun twice": LINES[0] + CERTIFICATE,
    "no last newline": CERTIFICATE.rstrip(),
    "nul": b"\0" + CERTIFICATE,
}


def condition(kind: str, status: str, *times: str) -> Json:
    return {"type": kind, "status": status, "reason": "R", "message": "m", **dict.fromkeys(times, TIME)}


CONDITIONS = [
    condition(kind, status, *times)
    for kind, status, times in itertools.product(
        ("Approved", "Denied", "Failed", "Other", ""),
        ("True", "False", "Unknown", "Maybe", ""),
        ((), ("lastUpdateTime",), ("lastTransitionTime",), ("lastUpdateTime", "lastTransitionTime")),
    )
]
BEFORE: list[list[Json]] = [
    [],
    [condition("Approved", "True")],
    [condition("Denied", "True")],
    [condition("Approved", "True"), condition("Failed", "True", "lastTransitionTime")],
    [condition("Other", "Unknown", "lastTransitionTime")],
]


def cases() -> Iterator[tuple[str, list[Json], Json]]:
    """A subresource, the conditions before, and the status that is sent."""
    for content in CERTIFICATES.values():
        encoded = None if content is None else base64.b64encode(content).decode()
        for signed in (None, CERTIFICATES["one"]):
            first = {} if signed is None else {"certificate": base64.b64encode(signed).decode()}
            yield "status", [first], {"certificate": encoded}
            yield "approval", [first], {"certificate": encoded}
    draw = SeededRandomness(20)
    for _ in range(GENERATED):
        before = [dict(one) for one in draw.choice(BEFORE)]
        kept = before if draw.uniform(0, 1) < 0.6 else []
        more = [draw.choice(CONDITIONS) for _ in range(int(draw.uniform(0, 3)))]
        yield draw.choice(["status", "approval"]), before, {"conditions": [*kept, *more]}


def told(status: Json) -> Json:
    """What is stored, but for the times that each server makes up by itself."""
    conditions = [
        {key: "a time" if key.startswith("last") and value != TIME else value for key, value in one.items()}
        for one in status.get("conditions") or []
    ]
    return {**status, "conditions": conditions}


async def answer(api: RawApi, number: int, subresource: str, before: list[Json], after: Json, request: str) -> Any:
    name = f"parity-{number}"
    made = (await api.post(CSRS, csr(name, "example.com/a", request))).expect(201)
    for one in before:
        if "type" in one:
            part = "approval" if one["type"] in {"Approved", "Denied"} else "status"
            made["status"] = {"conditions": [*made["status"].get("conditions", []), one]}
            made = (await api.put(f"{CSRS}/{name}/{part}", made)).expect(200)
        elif one:
            made = (await api.put(f"{CSRS}/{name}/status", {**made, "status": one})).expect(200)
    got = await api.put(f"{CSRS}/{name}/{subresource}", {**made, "status": after})
    (await api.delete(f"{CSRS}/{name}")).expect(200)
    if got.code == 200:
        return told(got.json["status"])
    causes = got.json.get("details", {}).get("causes", ())
    # The last words about bytes that are no certificate, and about what was changed, are those of Go's libraries.
    words = {(one["field"], one["reason"], one["message"].split("x509: ")[0].split("\n")[0]) for one in causes}
    return got.code, sorted(words)


async def answers(plane: ControlPlane, request: str) -> list[Any]:
    async with RawApi(plane.access()) as api:
        return [await answer(api, number, *case, request) for number, case in enumerate(cases())]


def test_what_is_accepted_and_what_is_said(planes: Planes) -> None:
    request = pem_request("testers")
    kube, embedded = (asyncio.run(answers(plane, request)) for plane in planes)
    different = [
        f"{case}: kube {one}, embedded {other}"
        for case, one, other in zip(cases(), kube, embedded, strict=True)
        if one != other
    ]
    assert not different, f"{len(different)} of {len(kube)}:\n" + "\n".join(different[:8])
    assert sum(isinstance(one, dict) for one in kube) > 40, "too few cases are accepted to compare what is stored"
