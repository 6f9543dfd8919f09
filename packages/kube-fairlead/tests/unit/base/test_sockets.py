"""How much of what was sent has arrived."""

from __future__ import annotations

import socket
import sys

import pytest

from kube_fairlead.base.sockets import acknowledged_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says it")
def test_what_the_other_side_has_taken_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as there:
        here, _ = listener.accept()
        with here:
            before = acknowledged_bytes(here)
            assert before is not None
            here.sendall(b"x" * 100)
            there.recv(100, socket.MSG_WAITALL)
            there.sendall(b"y")  # carries the acknowledgement
            here.recv(1)
            after = acknowledged_bytes(here)
            assert after == before + 100


def test_what_is_no_connection_says_nothing() -> None:
    assert acknowledged_bytes(None) is None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        assert acknowledged_bytes(datagrams) is None
