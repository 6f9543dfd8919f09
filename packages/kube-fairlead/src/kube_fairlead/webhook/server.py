"""The webhook over HTTPS: /delete and /evict for the API server, health and metrics for operators."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.admission_v1 import AdmissionRequest, AdmissionResponse, AdmissionReview
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.listener import Listener
from kube_fairlead.base.metrics import CONTENT_TYPE, Metrics
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.manager import DelegatedAuthorizer
from kube_fairlead.webhook.evictions import EvictionValidator
from kube_fairlead.webhook.grace_recorder import GraceRecorder
from kube_fairlead.webhook.reviews import Malformed

__all__ = ["EVICTION_PATH", "PATH", "Settings", "make_application", "serve"]

_log = logs.get_logger(__name__)

PATH = "/delete"
EVICTION_PATH = "/evict"
# An object of 3 MiB, which is the most that Kubernetes takes, and the envelope around it.
_LARGEST_BODY = 4 << 20
# At 256 KiB of buffers for each, a quarter of the memory that the installed webhook may use.
_CONNECTIONS = 256
# API servers close a connection that they do not use after 90 seconds.
_IDLE_SECONDS = 120.0
_BODY_SECONDS = 10.0
_CONNECT = Backoff(initial_seconds=0.2, factor=2.0, cap_seconds=10.0, jitter=0.3)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What an operator can choose."""

    certificate: pathlib.Path
    key: pathlib.Path
    bind_address: str = ""
    port: int = 9443
    client_ca: pathlib.Path | None = None  # when set, only reviews from callers with its certificates are answered
    client_names: frozenset[str] = frozenset()  # and only from these common names, where any are given
    look_seconds: float = 10.0  # how often the certificate's files are looked at
    authorizer: DelegatedAuthorizer | None = None  # who may read metrics; None: every client


async def serve(
    client: Client, metrics: Metrics, settings: Settings, on_listening: Callable[[int], None] = lambda _port: None
) -> None:
    """Serve until cancelled; requests in flight are answered first.

    Args:
        client: how objects are annotated.
        metrics: what /metrics shows.
        settings: where to listen, and with which certificate.
        on_listening: called with the port once requests are served.
    """
    context = _tls(settings)
    ready = asyncio.Event()
    runner = web.AppRunner(
        make_application(client, metrics, ready.is_set, settings),
        access_log=None,
        shutdown_timeout=10,
        keepalive_timeout=_IDLE_SECONDS,
    )
    await runner.setup()
    server = runner.server
    if server is None:
        raise RuntimeError("the application was not set up")
    listener = Listener(lambda: server() if len(server.connections) < _CONNECTIONS else _Refusal(), tls=context)
    try:
        await listener.listen(settings.bind_address, settings.port)
        on_listening(listener.port)
        gate = contextlib.nullcontext() if settings.authorizer is None else settings.authorizer.running()
        async with gate, TaskScope("webhook", on_exit=OnExit.CANCEL) as scope:
            scope.start(_wait_for_api(client, ready), name="connect")
            await scope.start(_renew_certificate(client, settings, context), name="certificate")
    finally:
        listener.stop_accepting()
        await runner.cleanup()
        await listener.close()


class _Refusal(asyncio.Protocol):
    """Closes a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def make_application(
    client: Client, metrics: Metrics, is_ready: Callable[[], bool], settings: Settings
) -> web.Application:
    """The paths of the webhook. Probes and metrics are open to callers without a certificate; reviews are not."""
    seconds = metrics.histogram("fairlead_webhook_request_duration_seconds", "How long answers took.")

    def reviewing(
        answer: Callable[[AdmissionRequest], Awaitable[AdmissionResponse]],
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def review(request: web.Request) -> web.Response:
            began = client.clock.monotonic()
            stranger = _stranger(request, settings)
            if stranger:
                return web.Response(status=401, text=f"{stranger}\n")
            try:
                async with client.clock.timeout(_BODY_SECONDS):
                    body = await request.read()
                asked = wire.decode(AdmissionReview, body)
            except TimeoutError:
                return web.Response(status=408, text=f"no whole request within {_BODY_SECONDS:.0f} s\n")
            except wire.DecodeError as error:
                return web.Response(status=400, text=f"this is no AdmissionReview: {error}\n")
            if asked.request is None:
                return web.Response(status=400, text="this AdmissionReview has no request\n")
            try:
                response = AdmissionReview(response=await answer(asked.request))
            except Malformed as error:
                return web.Response(status=400, text=f"this AdmissionReview is malformed: {error}\n")
            seconds.observe(client.clock.monotonic() - began)
            return web.Response(body=wire.encode(response), content_type="application/json")

        return review

    async def healthy(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_request: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="the API server has not answered yet\n")

    async def measured(request: web.Request) -> web.Response:
        if settings.authorizer is not None:
            refusal = await settings.authorizer.check(request.path, request.headers.get("Authorization", ""))
            if refusal is not None:
                return web.Response(status=refusal.status, text=refusal.text)
        return web.Response(body=metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    application = web.Application(client_max_size=_LARGEST_BODY)
    application.router.add_post(PATH, reviewing(GraceRecorder(client, metrics).answer))
    application.router.add_post(EVICTION_PATH, reviewing(EvictionValidator(client, metrics).answer))
    application.router.add_get("/healthz", healthy)
    application.router.add_get("/livez", healthy)
    application.router.add_get("/readyz", ready)
    application.router.add_get("/metrics", measured)
    return application


def _stranger(request: web.Request, settings: Settings) -> str:
    """Why a caller is not answered; empty when it is."""
    if settings.client_ca is None:
        return ""
    # TLS has verified the certificate if there is one: a certificate of another authority ends the handshake.
    certificate = request.get_extra_info("peercert")
    if not certificate:
        return "the caller shows no client certificate; --client-ca-file demands one"
    names = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    if settings.client_names and not names & settings.client_names:
        return f"the caller's certificate names {', '.join(sorted(names))}; --client-name does not list it"
    return ""


async def _wait_for_api(client: Client, ready: asyncio.Event) -> None:
    """Ready is who can write: the API server must have answered us once."""
    delays = _CONNECT.delays(client.randomness)
    while not ready.is_set():
        try:
            await client.request("GET", "/version")
        except (api_errors.ApiError, errors.ClientError) as error:
            _log.warning("no answer of the API server", error=str(error))
            await client.clock.sleep(next(delays))
        else:
            ready.set()


def _tls(settings: Settings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.certificate, settings.key)
    if settings.client_ca is not None:
        context.load_verify_locations(settings.client_ca)
        # Optional, because a kubelet's probes show none; `_stranger` demands one where it matters.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def _renew_certificate(client: Client, settings: Settings, context: ssl.SSLContext) -> None:
    """Certificates are replaced on disk while we run; connections from then on get the new one."""
    shown = _content(settings)
    while True:
        await client.clock.sleep(settings.look_seconds)
        found = _content(settings)
        if found in {shown, None}:
            continue
        try:
            # A pair that does not fit would leave the live context without any; so it is tried on another one first.
            _tls(settings)
            context.load_cert_chain(settings.certificate, settings.key)
        except (ssl.SSLError, OSError) as error:
            # The two files are replaced one after the other; the next look finds both.
            _log.warning("cannot use the new certificate", error=str(error))
        else:
            shown = found
            _log.info("certificate renewed", file=str(settings.certificate))


def _content(settings: Settings) -> tuple[bytes, bytes] | None:
    try:
        return settings.certificate.read_bytes(), settings.key.read_bytes()
    except OSError as error:
        _log.warning("cannot read the certificate", error=str(error))
        return None
