"""Talking to any Kubernetes API server.

Here belongs what every component needs to read, watch and write an API server: configuration, transport, verbs,
watches, informers, the work queue, the event recorder. It knows no kind in particular and decides nothing: what
should happen is `lifecycle`'s, who does it is the components'. Importing it stays cheap, because the node agent pays
for it on every node: HTTP and YAML are loaded only where they are used.
Before: `lifecycle`, `api`. After: `election`, and everything above.

    async with client.connect() as api_server:
        pods = await api_server.of(core_v1.Pod).list(namespace="shop", label_selector="app=web")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kube_fairlead.client.client import Client
    from kube_fairlead.client.client_factory import connect, connect_to, find_access
    from kube_fairlead.client.requests import WriteOptions
    from kube_fairlead.client.server_access import Access
    from kube_fairlead.client.verbs import Api

__all__ = ["Access", "Api", "Client", "WriteOptions", "connect", "connect_to", "find_access"]

_HOMES = {
    "Access": "server_access",
    "Api": "verbs",
    "Client": "client",
    "WriteOptions": "requests",
    "connect": "client_factory",
    "connect_to": "client_factory",
    "find_access": "client_factory",
}


def __getattr__(name: str) -> Any:
    # A program that needs one part only does not pay for importing the others.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
