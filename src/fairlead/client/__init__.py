"""Talking to any Kubernetes API server.

Here belongs what every component needs to ask, watch and tell an API server: configuration, transport, verbs,
watches, informers, the work queue, the event recorder. It knows no kind in particular and decides nothing: what
should happen is `lifecycle`'s, who does it is the components'. Importing it stays cheap, because the node agent pays
for it on every node: aiohttp and YAML are loaded by whoever really needs them.
Before: `lifecycle`, `api`. After: `election`, and everything above.

    async with client.connect() as api_server:
        pods = await api_server.of(core_v1.Pod).list(namespace="shop", label_selector="app=web")
"""

from fairlead.client.access import Access
from fairlead.client.client import Client
from fairlead.client.connecting import connect, connect_to, find_access
from fairlead.client.requests import WriteOptions
from fairlead.client.verbs import Api

__all__ = ["Access", "Api", "Client", "WriteOptions", "connect", "connect_to", "find_access"]
