"""Hetzner Cloud: servers, through Hetzner's own library. Routes and load balancers are not supported.

Configured, as Hetzner's own manager is, by the environment: HCLOUD_TOKEN, HCLOUD_NETWORK (whose addresses are the
internal ones; by name or id), HCLOUD_ENDPOINT.

Dedicated servers (`hrobot://`) are a platform of their own, which the cloud's API knows nothing of: to this provider
their nodes are foreign. So are those with the older form of their id, `hcloud://bm-...`, about which it has no answer.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fairlead import __version__
from fairlead.api.core_v1 import Node, NodeAddress
from fairlead.cloud.cluster import Cluster
from fairlead.cloud.errors import CloudError, CloudRefused, CloudUnavailable, ForeignId, ProviderError
from fairlead.cloud.provider import Instance, InstanceQuery, Instances, ProviderSettings
from fairlead.cloud.requests import before_request
from fairlead.cloud.threads import Threads

if TYPE_CHECKING:
    import hcloud
    from hcloud.servers import BoundServer

__all__ = ["HetznerProvider", "provider"]

_T = TypeVar("_T")

_PLATFORM = "hcloud"
_PROVIDER_ID = re.compile(rf"{_PLATFORM}://(?P<server>[0-9]{{1,18}})")
_PAGE = 50  # servers, Hetzner's limit
# Up to so many questions, asking one by one is fewer calls than listing.
_ASK_ONE_BY_ONE = 3
# To connect, and to wait for an answer: bounds how long a call can outlive the controller that made it.
_TIMEOUT_SECONDS = (3.0, 6.0)
_TRANSIENT = frozenset(
    {
        "bad_gateway",
        "conflict",
        "locked",
        "rate_limit_exceeded",
        "server_error",
        "service_error",
        "timeout",
        "unavailable",
    }
)


class HetznerProvider:
    """The servers of one project."""

    name = "hcloud"
    zones = None  # servers say where they are
    routes = None
    load_balancers = None

    def __init__(self, client: hcloud.Client, *, network: str = "") -> None:
        self._client = client
        self._network = network
        self._threads = Threads("hcloud", number=2)
        self._network_id: int | None = None

    @property
    def instances(self) -> Instances:
        """Its servers."""
        return self

    def supported_platforms(self) -> frozenset[str]:
        """Cloud servers only."""
        return frozenset({_PLATFORM})

    @contextlib.asynccontextmanager
    async def running(self, cluster: Cluster) -> AsyncIterator[None]:
        """Holds threads and connections."""
        del cluster
        async with self._threads:
            try:
                yield
            finally:
                # A session that was closed opens new connections when it is used again.
                self._client._client._session.close()  # noqa: SLF001 - the library has no word for it

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """Few are asked for one by one, many by listing the project."""
        if self._network and self._network_id is None:
            self._network_id = await self._call(self._find_network)
        if len(queries) <= _ASK_ONE_BY_ONE:
            servers = [server for query in queries for server in await self._one(query)]
        else:
            servers = await self._list()
        by_id = {_id_of(server): server for server in servers}
        by_name = {server.name: server for server in servers}
        found: dict[InstanceQuery, Instance] = {}
        for query in queries:
            known = by_id.get(query.provider_id) if query.provider_id else by_name.get(query.node_name)
            if known is not None:
                found[query] = self._to_instance(known)
        return found

    def recognises(self, provider_id: str) -> bool:
        """Whether it names a cloud server."""
        return _PROVIDER_ID.fullmatch(provider_id) is not None

    async def exists(self, provider_id: str, node: Node) -> bool:
        """Ask for this very server."""
        del node
        return await self._get(_server_id(provider_id)) is not None

    async def _one(self, query: InstanceQuery) -> list[BoundServer]:
        if not query.provider_id:
            return await self._list(name=query.node_name)
        try:
            server = await self._get(_server_id(query.provider_id))
        except ForeignId:
            return []  # not found, which proves nothing
        return [server] if server is not None else []

    async def _list(self, name: str | None = None) -> list[BoundServer]:
        """Page by page, each a request of its own: the library's own loop could not be ended between two of them."""
        servers: list[BoundServer] = []
        page: int | None = 1
        while page is not None:
            answer = await self._call(
                functools.partial(self._client.servers.get_list, page=page, per_page=_PAGE, name=name)
            )
            servers += answer.servers
            pagination = answer.meta.pagination
            page = pagination.next_page if pagination is not None else None
        return servers

    async def _get(self, number: int) -> BoundServer | None:
        return await self._call(lambda: _unless_missing(lambda: self._client.servers.get_by_id(number)))

    async def _call(self, call: Callable[[], _T]) -> _T:
        await before_request()
        return await self._threads.run(_translated, call)

    def _find_network(self) -> int:
        networks = self._client.networks
        found = networks.get_by_name(self._network)
        if found is None and self._network.isdigit():
            found = _unless_missing(lambda: networks.get_by_id(int(self._network)))
        if found is None or found.id is None:
            raise CloudRefused(f"HCLOUD_NETWORK: there is no network {self._network!r} in this project")
        return found.id

    def _to_instance(self, server: BoundServer) -> Instance:
        # Hetzner's own manager says the location for the region. What it said for the zone, the datacenter, is no more.
        where = (server.location.name or "") if server.location is not None else ""
        kind = server.server_type
        return Instance(
            provider_id=_id_of(server),
            shutdown=server.status == server.STATUS_OFF,
            instance_type=(kind.name or "") if kind is not None else "",
            addresses=tuple(self._addresses(server)),
            zone=where,
            region=where,
            additional_labels={"instance.hetzner.cloud/provided-by": "cloud"},
        )

    def _addresses(self, server: BoundServer) -> Iterator[NodeAddress]:
        yield NodeAddress(type="Hostname", address=server.name or "")
        for attached in server.private_net or ():
            if attached.network.id == self._network_id and attached.ip:
                yield NodeAddress(type="InternalIP", address=attached.ip)
        public = server.public_net
        if public is not None and public.ipv4 is not None and public.ipv4.ip:
            yield NodeAddress(type="ExternalIP", address=public.ipv4.ip)


def provider(settings: ProviderSettings) -> HetznerProvider:
    """What the entry point names."""
    try:
        import hcloud
    except ImportError as error:
        raise ProviderError(
            f"cloud provider hcloud needs Hetzner's library: {error}; pip install 'fairlead[hcloud]'"
        ) from error
    if settings.cloud_config is not None:
        raise ProviderError("cloud provider hcloud takes no --cloud-config: it is configured by HCLOUD_ variables")
    environment = settings.environment
    token = environment.get("HCLOUD_TOKEN")
    if token is None:
        raise ProviderError("cloud provider hcloud needs HCLOUD_TOKEN")
    where: dict[str, Any] = {"api_endpoint": url} if (url := environment.get("HCLOUD_ENDPOINT")) else {}
    client = hcloud.Client(
        token, application_name="fairlead", application_version=__version__, timeout=_TIMEOUT_SECONDS, **where
    )
    # Whether to try again is decided where all calls to the cloud are counted; the library has no option to leave it.
    client._client._retry_max_retries = 0  # noqa: SLF001 - see above
    return HetznerProvider(client, network=environment.get("HCLOUD_NETWORK") or "")


def _server_id(provider_id: str) -> int:
    match = _PROVIDER_ID.fullmatch(provider_id)
    if match is None:
        raise ForeignId(provider_id, "it should look like hcloud://<number of the server>")
    return int(match["server"])


def _id_of(server: BoundServer) -> str:
    return f"{_PLATFORM}://{server.id}"


def _unless_missing(call: Callable[[], _T]) -> _T | None:
    import hcloud

    try:
        return call()
    except hcloud.APIException as error:
        if error.code == "not_found":
            return None
        raise


def _translated(call: Callable[[], _T]) -> _T:
    import hcloud
    import requests

    try:
        return call()
    except hcloud.APIException as error:
        raise _meaning(error.code, str(error)) from error
    except (requests.RequestException, hcloud.HCloudException) as error:
        raise CloudUnavailable(f"Hetzner Cloud does not answer: {error}") from error


def _meaning(code: int | str, message: str) -> CloudError:
    transient = code >= 500 or code == 429 if isinstance(code, int) else code in _TRANSIENT
    return CloudUnavailable(message) if transient else CloudRefused(message)
