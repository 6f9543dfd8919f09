"""One connection to an API server as bytes, for what no HTTP library would send."""

from __future__ import annotations

import socket
import ssl

from kube_fairlead_lab.testing.control_plane import Access


class Line:
    """One kept connection, as bytes."""

    def __init__(self, access: Access, path: str) -> None:
        host, _, port = access.url.removeprefix("https://").rpartition(":")
        self.access = access
        self.path = path
        context = ssl.create_default_context(cafile=str(access.ca_file))
        plain = socket.create_connection((host, int(port)), timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname=host)
        self._file = self.socket.makefile("rb")

    def head(self, *lines: str, method: str = "POST", path: str = "", token: str | None = None) -> bytes:
        given = [
            f"{method} {path or self.path} HTTP/1.1",
            "Host: kubernetes",
            f"Authorization: Bearer {self.access.token if token is None else token}",
            "Content-Type: application/json",
        ]
        return "\r\n".join([*given, *lines, "", ""]).encode()

    def post(self, body: bytes, piece: int) -> int:
        self.send(self.head(f"Content-Length: {len(body)}") + body, piece)
        return self.answer()[0]

    def send(self, data: bytes, piece: int = 2**30) -> None:
        for start in range(0, len(data), piece):
            self.socket.sendall(data[start : start + piece])

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        code = int(self._file.readline().split()[1])
        headers: dict[str, str] = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            return code, headers, self._chunks()
        return code, headers, self._file.read(int(headers.get("content-length", 0)))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._file.readline(), 16):
            body += self._file.read(size + 2)[:-2]
        self._file.readline()
        return body

    def close(self) -> None:
        self._file.close()
        self.socket.close()
