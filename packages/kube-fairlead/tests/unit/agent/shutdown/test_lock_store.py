from __future__ import annotations

import os
import pathlib
import socket

import pytest

from kube_fairlead.agent.shutdown.lock_store import NoLockStore, SystemdFdStore, find_lock_store
from kube_fairlead.base.environment import Environment


@pytest.fixture
def manager(short_path: pathlib.Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(str(short_path / "notify"))
    listening.settimeout(30)
    return listening


def test_the_lock_is_sent_to_the_service_manager_and_removed_there(
    manager: socket.socket, short_path: pathlib.Path
) -> None:
    lock_store = find_lock_store(Environment({"NOTIFY_SOCKET": str(short_path / "notify")}), process_id=1)
    reading, writing = os.pipe()
    lock_store.store(writing)
    data, descriptors, _, _ = socket.recv_fds(manager, 1000, 4)
    assert data == b"FDSTORE=1\nFDNAME=fairlead-shutdown-lock\nFDPOLL=0"
    os.write(descriptors[0], b"x")
    assert os.read(reading, 1) == b"x"
    lock_store.remove()
    data, none, _, _ = socket.recv_fds(manager, 1000, 4)
    assert (data, none) == (b"FDSTOREREMOVE=1\nFDNAME=fairlead-shutdown-lock", [])
    for descriptor in (reading, writing, *descriptors):
        os.close(descriptor)
    manager.close()


@pytest.mark.parametrize(
    ("variables", "recalled"),
    [
        ({}, None),
        ({"LISTEN_PID": "8", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "fairlead-shutdown-lock"}, None),
        ({"LISTEN_PID": "7", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "other"}, None),
    ],
)
def test_what_is_not_ours_is_not_recalled(variables: dict[str, str], recalled: int | None) -> None:
    assert SystemdFdStore(Environment(variables), process_id=7).take() is recalled


def test_without_a_service_manager_the_lock_is_not_stored() -> None:
    lock_store = find_lock_store(Environment({}), process_id=1)
    assert isinstance(lock_store, NoLockStore)
    assert lock_store.take() is None
    lock_store.store(0)
    lock_store.remove()


def test_a_manager_that_does_not_listen_does_no_harm(short_path: pathlib.Path) -> None:
    find_lock_store(Environment({"NOTIFY_SOCKET": str(short_path / "missing")}), process_id=1).remove()
