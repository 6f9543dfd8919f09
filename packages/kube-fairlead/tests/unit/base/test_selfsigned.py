"""Certificates of components that were given none: made once, kept, and made anew when they are of no use."""

from __future__ import annotations

import os
import pathlib
import ssl

import pytest

from kube_fairlead.base import selfsigned


async def test_one_that_a_crash_of_the_machine_has_emptied_is_made_anew(tmp_path: pathlib.Path) -> None:
    made = await selfsigned.in_folder(tmp_path, "fairlead", ["localhost"])
    assert await selfsigned.in_folder(tmp_path, "fairlead", ["localhost"]) == made
    for name in ("fairlead.crt", "fairlead.key"):
        kept = (tmp_path / name).read_bytes()
        os.truncate(tmp_path / name, 0)
        selfsigned.load(
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), await selfsigned.in_folder(tmp_path, "fairlead", ["localhost"])
        )
        assert (tmp_path / name).read_bytes() not in {b"", kept}


async def test_the_present_folder_is_not_imported_from(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one that others write to, and components run as root."""
    (tmp_path / "ipaddress.py").write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    assert (await selfsigned.make(["localhost"])).certificate
