"""Hetzner's library: called in threads, one request at a time, its errors made ours, its actions waited for."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from kube_fairlead import __version__
from kube_fairlead.api.json_object import Json
from kube_fairlead.base.clock import Clock
from kube_fairlead.cloud.errors import CloudError, CloudRefused, CloudUnavailable, NotReadyYet, ProviderError
from kube_fairlead.cloud.providers.hcloud.config import HetznerConfig
from kube_fairlead.cloud.requests import before_request
from kube_fairlead.cloud.threads import Threads

__all__ = ["HetznerClient", "NotThere"]


_PAGE: Final = 50  # objects, Hetzner's limit
# To connect, and to wait for an answer: bounds how long a call can outlive the controller that made it.
_TIMEOUT_SECONDS: Final = (3.0, 6.0)
_TRANSIENT: Final = frozenset(
    {"bad_gateway", "rate_limit_exceeded", "server_error", "service_error", "timeout", "unavailable"}
)
# Another action of the same network or load balancer is under way: it is the turn of this one soon.
_BUSY: Final = frozenset({"conflict", "locked"})
_BUSY_SECONDS: Final = 5.0
# An action takes moments; one that does not is looked at again by the next attempt.
_ACTION_POLL_SECONDS: Final = 0.5
_ACTION_POLLS_MAX: Final = 40


class NotThere(CloudRefused):
    """Raised when what a request names does not exist."""


class HetznerClient:
    """Requests to the API of one project. Answers are JSON, as Hetzner documents it."""

    def __init__(self, config: HetznerConfig, clock: Clock) -> None:
        try:
            import hcloud
        except ImportError as error:
            raise ProviderError(
                f"cloud provider hcloud needs Hetzner's library: {error}; pip install 'kube-fairlead[hcloud]'"
            ) from error
        where: Json = {"api_endpoint": config.endpoint} if config.endpoint else {}
        self._client = hcloud.Client(
            config.token,
            application_name="fairlead",
            application_version=__version__,
            timeout=_TIMEOUT_SECONDS,
            **where,
        )
        # Whether to try again is decided where all calls to the cloud are counted; the library has no option for it.
        self._client._client._retry_max_retries = 0  # noqa: SLF001 - see above
        self._threads = Threads("hcloud", number=2)
        self._clock = clock
        self._network = config.network
        self._network_id: int | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The block in which requests can be made."""
        async with self._threads:
            try:
                yield
            finally:
                # A session that was closed opens new connections when it is used again.
                self._client._client._session.close()  # noqa: SLF001 - the library has no word for it

    async def get(self, path: str, **query: str | int) -> Json:
        """Read something.

        Raises:
            NotThere: it does not exist.
            CloudError: the cloud did not answer, or would not.
        """
        return await self._request("GET", f"{path}?{urllib.parse.urlencode(query)}" if query else path)

    async def find(self, path: str, key: str) -> Json | None:
        """The object of this very path, under this key; None only if the cloud says that there is none."""
        try:
            found: Json = (await self.get(path))[key]
        except NotThere:
            return None
        return found

    async def pages(self, path: str, key: str, **query: str | int) -> list[Json]:
        """Everything of a list, page by page, each a request of its own: it can be ended between two of them."""
        items: list[Json] = []
        page: int | None = 1
        while page is not None:
            answer = await self.get(path, page=page, per_page=_PAGE, **query)
            items += answer[key]
            page = ((answer.get("meta") or {}).get("pagination") or {}).get("next_page")
        return items

    async def act(self, path: str, body: Json | None = None, *, method: str = "POST") -> Json:
        """Change something, and wait until the cloud has done it.

        Raises:
            NotThere: what it is about does not exist.
            NotReadyYet: another change of the same thing is under way, or this one takes long.
            CloudError: the cloud did not answer, or would not.
        """
        answer = await self._request(method, path, json=body) if body is not None else await self._request(method, path)
        if answer.get("action"):
            await self._wait_for(answer["action"])
        return answer

    async def network_id(self) -> int | None:
        """The network that is configured; None if none is.

        Raises:
            CloudRefused: there is no such network.
        """
        if self._network and self._network_id is None:
            self._network_id = await self._find_network()
        return self._network_id

    async def _find_network(self) -> int:
        named = await self.pages("/networks", "networks", name=self._network)
        found = named[0] if named else None
        if found is None and self._network.isdigit():
            found = await self.find(f"/networks/{self._network}", "network")
        if found is None:
            raise CloudRefused(f"HCLOUD_NETWORK: there is no network {self._network!r} in this project")
        return int(found["id"])

    async def _wait_for(self, action: Json) -> None:
        for _ in range(_ACTION_POLLS_MAX):
            if action["status"] == "success":
                return
            if action["status"] == "error":
                error = action.get("error") or {}
                raise _meaning(error.get("code", "unknown"), f"{action['command']}: {error.get('message', 'failed')}")
            await self._clock.sleep(_ACTION_POLL_SECONDS)
            action = (await self.get(f"/actions/{action['id']}"))["action"]
        raise NotReadyYet(f"{action['command']} is under way", retry_after_seconds=_BUSY_SECONDS)

    async def _request(self, method: str, path: str, **more: Any) -> Json:
        await before_request()
        return await self._threads.run(self._send, method, path, more)

    def _send(self, method: str, path: str, more: Json) -> Json:
        import hcloud
        import requests

        try:
            return self._client.request(method, path, **more)
        except hcloud.APIException as error:
            raise _meaning(error.code, str(error)) from error
        except (requests.RequestException, hcloud.HCloudException) as error:
            raise CloudUnavailable(f"Hetzner Cloud does not answer: {error}") from error


def _meaning(code: int | str, message: str) -> CloudError:
    if code in {"not_found", 404}:
        return NotThere(message)
    if code in _BUSY:
        return NotReadyYet(message, retry_after_seconds=_BUSY_SECONDS)
    transient = code >= 500 or code == 429 if isinstance(code, int) else code in _TRANSIENT
    return CloudUnavailable(message) if transient else CloudRefused(message)
