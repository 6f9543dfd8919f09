"""Probes and metrics of a driver: /healthz, /livez, /readyz and /metrics over TLS, as every component has them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

from kube_fairlead import client as api_client
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client.client import Client
from kube_fairlead.drivers.sdk.driver import Driver
from kube_fairlead.manager import (
    ALWAYS_ALLOWED,
    DelegatedAuthorizer,
    HealthChecks,
    HealthServer,
    ServingOptions,
    Verdict,
)

__all__ = ["Registered", "pages", "serving_pages"]

# Allows every path without a token, so no API server is needed.
_ALL = "*"


def pages(
    port: int,
    *,
    bind_address: str = "127.0.0.1",
    certificate_file: Path | None = None,
    key_file: Path | None = None,
    folder: Path | None = None,
    always_allow: Sequence[str] = ALWAYS_ALLOWED,
    connect: Callable[[], Client] | None = None,
) -> ServingOptions:
    """Where and how a driver serves probes and metrics: `sdk.Options(pages=sdk.pages(10260))`.

    Args:
        port: 0 takes a free one.
        bind_address: the address to listen on, such as the pod's.
        certificate_file: the certificate; a self-signed one is created unless given.
        key_file: its private key.
        folder: where a self-signed certificate is stored; in memory unless given.
        always_allow: paths that need no token; `*` allows all paths, and then no API server is needed.
        connect: creates a client of the API server that authenticates callers; that of kubectl's kubeconfig unless
            given. Its user must be allowed to create TokenReviews and SubjectAccessReviews.
    """
    authorizer = (
        None if _ALL in always_allow else DelegatedAuthorizer(connect or api_client.connect, always_allow=always_allow)
    )
    return ServingOptions(
        bind_address=bind_address,
        port=port,
        certificate_file=certificate_file,
        key_file=key_file,
        self_signed=True,
        folder=folder,
        authorizer=authorizer,
    )


class Registered(Protocol):
    """The result of the registration with the agent."""

    registered: bool
    last_error: str


@contextlib.asynccontextmanager
async def serving_pages(
    options: ServingOptions | None, driver: Driver, state: Registered, *, metrics: Metrics, clock: Clock
) -> AsyncIterator[None]:
    """Serve probes and metrics while the block lasts.

    An unhealthy driver is not ready, but live: a restart would not repair what it depends on.
    """
    if options is None:
        yield
        return
    live, ready = HealthChecks(), HealthChecks()
    ready.add("driver", lambda: Verdict(is_ok=driver.healthy))
    ready.add("registration", lambda: _registration(state))
    async with HealthServer(options, live=live, ready=ready, metrics=metrics, clock=clock).running():
        yield


def _registration(state: Registered) -> Verdict:
    if state.registered:
        return Verdict(is_ok=True, note="registered with the agent")
    if state.last_error:
        return Verdict(is_ok=False, note=f"the agent rejected the registration: {state.last_error}")
    # Beside a claimer that is not the leader, the driver waits for registration without a fault.
    return Verdict(is_ok=True, note="no agent has called yet")
