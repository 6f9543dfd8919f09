"""How long small requests take while another client sends the same costly request again and again."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import NamedTuple, Self

from bench.apiserver_load import Endpoint, Job, Result, drive
from bench.apiserver_plane import Plane

__all__ = ["JSON", "LIMIT_MS", "Request", "beside", "sending", "small"]

SECONDS = 4.0
LIMIT_MS = 100
SMALL = "/api/v1/namespaces/kube-system"
JSON = "application/json"


class Request(NamedTuple):
    """One request. `%d` in the path is its number, and `%past` a revision that was not asked for before."""

    name: str
    method: str
    path: str
    content_type: str = JSON
    body: bytes = b""
    accept: str = JSON


def beside(plane: Plane, sender: Endpoint, sent: Request, past: int = 0) -> tuple[Result, str]:
    """Measure small requests while another request is repeated; returns the result and a note."""
    before = plane.resident_megabytes()
    with _Sender(sender, sent, past) as repeated:
        repeated.answered.wait()  # the first one has loaded what is imported on demand
        busy = small(plane.endpoint)
    if not repeated.number or busy.refused:
        raise RuntimeError(
            f"{sent.name}: {repeated.number} were sent, and of the small ones were refused: {busy.refused}"
        )
    note = (
        f"{repeated.number} such requests of {repeated.seconds / repeated.number:.2f} s, "
        f"answered {repeated.code}; memory {before:.0f} to {plane.resident_megabytes():.0f} MB"
    )
    return busy, note


def small(endpoint: Endpoint) -> Result:
    """Measure small requests."""
    return drive(Job(endpoint, "GET", SMALL, clients=2, seconds=SECONDS))


class _Sender:
    """Repeats one request on one connection, from a thread."""

    def __init__(self, endpoint: Endpoint, sent: Request, past: int) -> None:
        self._endpoint, self._sent, self._past = endpoint, sent, past
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answered = threading.Event()
        self.number = self.code = 0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            send = sending(self._endpoint)
            while not self._stopped.is_set():
                began = time.perf_counter()
                sent = self._sent
                path = sent.path.replace("%d", str(self.number)).replace("%past", str(self._past + self.number))
                self.code = send(sent.method, path, sent.content_type, sent.body, sent.accept)
                self.seconds += time.perf_counter() - began
                self.number += 1
                self.answered.set()
        finally:
            self.answered.set()


def sending(endpoint: Endpoint) -> Callable[..., int]:
    """A function that sends a request over one connection and returns the answer's code."""
    parts = urllib.parse.urlsplit(endpoint.url)
    context = ssl.create_default_context(cafile=endpoint.ca_file)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context, timeout=120)

    def send(method: str, path: str, content_type: str, body: bytes, accept: str = JSON) -> int:
        headers = {"Authorization": f"Bearer {endpoint.token}", "Content-Type": content_type, "Accept": accept}
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        while answer.read(1 << 16):
            pass
        return answer.status

    return send
