"""A webhook: a real HTTPS server on loopback that says what the test tells it to."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from kube_fairlead_lab.testing.credentials import CertificateAuthority

Json = dict[str, Any]
Behaviour = Callable[[Json], Json]


class HookServer:
    """Answers POST /<name> with the behaviour of that name; keeps the reviews it was sent."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self._authority = authority
        self._behaviours: dict[str, Behaviour] = {}
        self._raw: dict[str, Callable[[], web.StreamResponse]] = {}
        self.reviews: list[tuple[str, Json]] = []
        self.queries: list[str] = []
        self.hosts: list[str] = []
        self.peers: set[object] = set()
        self.hanging = asyncio.Event()  # set when a request hangs
        self.cancelled = asyncio.Event()  # set when a hanging request was given up by its client
        self._together: dict[str, asyncio.Barrier] = {}
        self.port = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/{name}", self._handle)
        certificate, key = self._authority.serving("webhook")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined] # a TCP server has sockets
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def on(self, name: str, behaviour: Behaviour) -> None:
        """From now on, /name answers so: given the request, the response without its uid."""
        self._behaviours[name] = behaviour

    def on_raw(self, name: str, answer: Callable[[], web.StreamResponse]) -> None:
        """From now on, /name answers so, whatever it is asked."""
        self._raw[name] = answer

    def on_hang(self, name: str) -> None:
        """From now on, /name never answers."""
        self._raw.pop(name, None)
        self._behaviours[name] = _hang

    def together(self, count: int, *names: str) -> None:
        """These answer only when all of them have been asked: proof that they were asked at once."""
        barrier = asyncio.Barrier(count)
        for name in names:
            self._together[name] = barrier

    def asked(self, name: str) -> list[Json]:
        """The requests that /name was sent."""
        return [review["request"] for asked, review in self.reviews if asked == name]

    def client_config(self, name: str) -> Json:
        return {"url": f"https://127.0.0.1:{self.port}/{name}", "caBundle": self.ca_bundle}

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self._authority.certificate_file.read_bytes()).decode()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        review = json.loads(await request.read())
        self.reviews.append((name, review))
        self.queries.append(request.query_string)
        self.hosts.append(request.host)
        self.peers.add(request.get_extra_info("peername"))
        if name in self._together:
            await self._together[name].wait()
        if name in self._raw:
            return self._raw[name]()
        behaviour = self._behaviours[name]
        if behaviour is _hang:
            self.hanging.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        response = {"uid": review["request"]["uid"], **behaviour(review["request"])}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


def _hang(_request: Json) -> Json:
    raise AssertionError("never answers")


def allow(_request: Json) -> Json:
    return {"allowed": True}


def deny(message: str = "", **status: Any) -> Behaviour:
    told = {"message": message, **status} if message else status
    return lambda _request: {"allowed": False, **({"status": told} if told else {})}


def patch(*operations: Json) -> Behaviour:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def configuration(kind: str, name: str, *webhooks: Json) -> Json:
    """A ValidatingWebhookConfiguration or MutatingWebhookConfiguration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def webhook(name: str, client: Json, /, **fields: Any) -> Json:
    """A webhook for config maps and pods, with what the API requires."""
    rule = {
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps", "pods"],
    }
    return {
        "name": name,
        "clientConfig": client,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
