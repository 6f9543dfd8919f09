from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base.redaction import REDACTED, redact, redact_text

SECRET = "s3cr3t-value"  # the one thing that must never come out
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLXNpZ25hdHVyZQ"


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "bearerToken",
        "bearer_token",
        "id-token",
        "password",
        "db_password",
        "PASSWORD",
        "secret",
        "clientSecret",
        "Authorization",
        "client-key-data",
        "clientKeyData",
        "private_key",
        "privateKey",
        "apiKey",
        "aws_secret_access_key",
        "credentials",
        "Cookie",
    ],
)
def test_fields_with_such_a_name_are_hidden(name: str) -> None:
    assert redact(name, SECRET) == REDACTED
    assert redact("", {"outer": [{name: SECRET}]}) == {"outer": [{name: REDACTED}]}
    assert redact(name, {"inner": SECRET}) == REDACTED


@pytest.mark.parametrize(
    "name", ["secret_name", "secretName", "token_count", "tokenize", "key", "node", "tokens_total_seen", "author"]
)
def test_fields_with_a_harmless_name_are_shown(name: str) -> None:
    assert redact(name, "value") == "value"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Authorization: Bearer {SECRET}", f"Authorization: {REDACTED}"),
        (f"authorization: Basic {SECRET}=", f"authorization: {REDACTED}"),
        (f"{{'Authorization': 'Bearer {SECRET}'}}", f"{{'Authorization': '{REDACTED}'}}"),
        (f"sent Bearer {SECRET} to it", f"sent Bearer {REDACTED} to it"),
        (f"got {JWT}.", f"got {REDACTED}."),
        (f"https://admin:{SECRET}@host/x", f"https://admin:{REDACTED}@host/x"),
        (f"--token={SECRET} --v=2", f"--token={REDACTED} --v=2"),
        (f'{{"password": "{SECRET}", "a": 1}}', f'{{"password": "{REDACTED}", "a": 1}}'),
        (f"?client_secret={SECRET}&x=1", f"?client_secret={REDACTED}&x=1"),
        (
            f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----\nrest",
            f"{REDACTED}\nrest",
        ),
        (f"-----BEGIN PRIVATE KEY-----\n{SECRET} (cut off", REDACTED),
        (f"-----BEGIN EC PRIVATE KEY-----\\n{SECRET}\\n-----END EC PRIVATE KEY-----", REDACTED),
    ],
)
def test_secrets_are_found_in_text(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "the bearer of this is the holder",
        "node a: 3 pods, token count 5",
        "https://host:6443/api/v1/nodes?watch=1",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "user system:serviceaccount:kube-system:x cannot get resource",
        "",
    ],
)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert redact_text(text).replace(REDACTED, "of") == text


def test_a_kubernetes_secret_keeps_its_data() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "db"}, "data": {"a": SECRET}, "stringData": {"b": SECRET}}
    assert redact("object", secret) == {
        "kind": "Secret",
        "metadata": {"name": "db"},
        "data": REDACTED,
        "stringData": REDACTED,
    }
    assert redact("object", {"kind": "ConfigMap", "data": {"a": "b"}}) == {"kind": "ConfigMap", "data": {"a": "b"}}


def test_objects_show_as_text_and_bytes_by_length() -> None:
    assert redact("error", ValueError(f"Bearer {SECRET}")) == f"Bearer {REDACTED}"
    assert redact("body", b"12345") == "<5 bytes>"
    assert redact("count", 5) == 5
    assert redact("token", None) is None


def test_what_refers_to_itself_ends() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert "..." in str(redact("x", loop))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, st.sampled_from(["token", "password", "clientSecret"]))
def test_nesting_hides_nothing_from_the_rule(around: Any, name: str) -> None:
    assert SECRET not in str(redact("x", [around, {name: SECRET, "more": {name: [SECRET]}}]))


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["a.", "eyJ", "token=", "Bearer ", "-----BEGIN PRIVATE KEY-----", "a://", "x:", "authorization:"]
)
def test_long_text_takes_no_longer_than_its_length(piece: str) -> None:
    """A quadratic pattern would need minutes for these."""
    redact_text(piece * 40_000)
