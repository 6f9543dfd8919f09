from __future__ import annotations

import pathlib

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.client import errors
from kube_fairlead.client.credentials import Certificate, Credential, FileCredentials


async def test_a_rotated_token_is_seen_within_a_minute(tmp_path: pathlib.Path) -> None:
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("one\n")
    credentials = FileCredentials(clock, token_file=file)
    assert (await credentials.current()).authorization == "Bearer one"
    file.write_text("two")
    assert (await credentials.current()).authorization == "Bearer one"
    await clock.advance(60)
    assert (await credentials.current()).authorization == "Bearer two"


async def test_a_refused_token_is_read_again_at_once(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = FileCredentials(VirtualClock(), token_file=file)
    first = await credentials.current()
    assert not await credentials.refused(first)
    file.write_text("two")
    assert await credentials.refused(first)
    assert (await credentials.current()).authorization == "Bearer two"
    assert await credentials.refused(first), "whoever still used the old one can try again too"


async def test_a_token_that_cannot_be_read_for_a_while_stays_valid(tmp_path: pathlib.Path) -> None:
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("one")
    credentials = FileCredentials(clock, token_file=file)
    first = await credentials.current()
    file.unlink()
    await clock.advance(120)
    assert await credentials.current() == first
    file.write_text("")
    await clock.advance(120)
    assert await credentials.current() == first


@pytest.mark.parametrize(("content", "problem"), [(None, "cannot read .*token: No such file"), (" ", "is empty")])
async def test_no_token_to_begin_with(tmp_path: pathlib.Path, content: str | None, problem: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(errors.CredentialError, match=problem):
        await FileCredentials(VirtualClock(), token_file=file).current()


async def test_a_rotated_certificate(tmp_path: pathlib.Path) -> None:
    clock = VirtualClock()
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    chain.write_text("A")
    key.write_text("B")
    fixed = Credential("Bearer x")
    credentials = FileCredentials(clock, certificate_file=chain, key_file=key, fallback=fixed)
    assert await credentials.current() == Credential("Bearer x", Certificate(b"A", b"B"))
    chain.write_text("C")
    await clock.advance(61)
    assert (await credentials.current()).certificate == Certificate(b"C", b"B")


def test_secrets_do_not_show() -> None:
    shown = repr(Credential("Bearer secret", Certificate(b"chain", b"secret")))
    assert "secret" not in shown
