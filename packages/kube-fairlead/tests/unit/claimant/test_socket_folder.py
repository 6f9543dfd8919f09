from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import socket
from collections.abc import Iterator

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.claimant import socket_folder
from kube_fairlead.claimant.socket_folder import SocketFolder, sockets_in


@contextlib.contextmanager
def bound(path: pathlib.Path) -> Iterator[socket.socket]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        yield made


def test_only_sockets_count(short_path: pathlib.Path) -> None:
    (short_path / "file").write_text("x")
    (short_path / "link").symlink_to(short_path / "b" / "c.sock")
    os.mkfifo(short_path / "pipe")
    with (
        bound(short_path / "a.sock"),
        bound(short_path / "b" / "c.sock"),
        bound(short_path / ".hidden.sock"),
        bound(short_path / "1" / "2" / "3" / "deep.sock"),
    ):
        found = sockets_in(short_path)
    assert [str(one.path.relative_to(short_path)) for one in found] == ["a.sock", "b/c.sock"]
    assert found[0].owner == os.getuid()


def test_a_folder_that_is_not_there_is_empty(short_path: pathlib.Path) -> None:
    assert sockets_in(short_path / "nowhere") == []


def test_a_socket_created_again_is_another(short_path: pathlib.Path) -> None:
    path = short_path / "a.sock"
    with bound(path):
        (first,) = sockets_in(short_path)
    path.unlink()
    with bound(path):
        (second,) = sockets_in(short_path)
    assert first != second


async def test_changes_are_seen_at_once(short_path: pathlib.Path) -> None:
    # The clock stands still, so only inotify can wake it.
    async with contextlib.aclosing(SocketFolder(short_path / "registry", VirtualClock()).changes()) as changes:
        assert await anext(changes) == []
        path = short_path / "registry" / "a.sock"
        hidden = path.with_name(".a.sock")
        with bound(hidden):
            hidden.rename(path)
            async with asyncio.timeout(10):
                while not (seen := await anext(changes)):
                    pass
            assert [one.path for one in seen] == [path]
            path.unlink()
            async with asyncio.timeout(10):
                while await anext(changes):
                    pass


async def test_without_inotify_it_takes_a_second(short_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_folder, "_inotify", lambda _folder: None)
    clock = VirtualClock()
    async with contextlib.aclosing(SocketFolder(short_path, clock).changes()) as changes:
        assert await anext(changes) == []
        with bound(short_path / "a.sock"):
            waiting = asyncio.ensure_future(anext(changes))
            await clock.advance(1)
            assert [one.path.name for one in await waiting] == ["a.sock"]
