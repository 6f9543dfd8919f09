"""Messages in the body of a stream, and the deadline in its headers."""

from __future__ import annotations

import re
from typing import Final

from kube_fairlead.base.rpc.errors import ProtocolError
from kube_fairlead.base.rpc.status import Code

__all__ = ["MESSAGE_BYTES_MAX", "MessageBuffer", "decode_timeout", "encode_message", "encode_timeout"]

MESSAGE_BYTES_MAX: Final = 1 << 20
_PREFIX_BYTES: Final = 5
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)
_UNIT_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def encode_message(message: bytes) -> bytes:
    """A message as it is sent: not compressed, its length before it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class MessageBuffer:
    """Bytes of a stream until they make a message. It refuses one that is too large when its length has arrived."""

    def __init__(self, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._message_bytes_max = message_bytes_max
        self._buffer = bytearray()

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Bytes have arrived. Take every message that is whole before the next ones."""
        self._buffer += data

    def take(self) -> bytes | None:
        """The next message; None until it is whole.

        Raises:
            ProtocolError: it is compressed or too large.
        """
        if len(self._buffer) < _PREFIX_BYTES:
            return None
        length = int.from_bytes(self._buffer[1:_PREFIX_BYTES], "big")
        if self._buffer[0]:
            raise ProtocolError("the message is compressed, which was not agreed on")
        if length > self._message_bytes_max:
            raise ProtocolError(
                f"the message has {length} bytes, more than {self._message_bytes_max}", code=Code.RESOURCE_EXHAUSTED
            )
        end = _PREFIX_BYTES + length
        if len(self._buffer) < end:
            return None
        message = bytes(self._buffer[_PREFIX_BYTES:end])
        del self._buffer[:end]
        return message


def encode_timeout(seconds: float) -> str:
    """The `grpc-timeout` header: at most eight digits."""
    # Days of milliseconds fit, and beyond that seconds are exact enough.
    milliseconds = max(1, round(min(seconds, 1e9) * 1000)) if seconds > 0 else 1
    return f"{milliseconds}m" if milliseconds < 10**8 else f"{min(milliseconds // 1000, 10**8 - 1)}S"


def decode_timeout(header: str) -> float:
    """The seconds that a `grpc-timeout` header gives.

    Raises:
        ProtocolError: it is no timeout.
    """
    found = _TIMEOUT.fullmatch(header)
    if found is None:
        raise ProtocolError(f"grpc-timeout is no timeout: {header[:20]!r}")
    return int(found[1]) * _UNIT_SECONDS[found[2]]
