from __future__ import annotations

import socket

import pytest

from kube_fairlead_lab.testing.ports import ReservedPort


def listening(number: int, *, share: bool) -> socket.socket:
    server = socket.socket()
    try:
        if share:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", number))
        server.listen()
    except OSError:
        server.close()
        raise
    return server


def test_a_server_that_shares_the_port_gets_every_connection() -> None:
    port = ReservedPort()
    try:
        with listening(port.number, share=True) as server:
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", port.number), timeout=5):
                    server.accept()[0].close()
    finally:
        port.release()


def test_a_server_that_does_not_share_the_port_is_rejected() -> None:
    port = ReservedPort()
    try:
        with pytest.raises(OSError, match="in use"):
            listening(port.number, share=False)
        others = [ReservedPort() for _ in range(50)]
        assert port.number not in {other.number for other in others}
        for other in others:
            other.release()
    finally:
        port.release()


def test_a_released_port_is_free() -> None:
    port = ReservedPort()
    port.release()
    listening(port.number, share=False).close()
