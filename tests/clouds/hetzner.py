"""The few calls of Hetzner Cloud's API that the provider makes, on loopback. An emulation: written from Hetzner's
documentation, not by Hetzner."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

__all__ = ["TOKEN", "EmulatedHetzner", "emulated_hetzner"]

TOKEN = "t" * 64
NETWORK = {"id": 77, "name": "cluster", "ip_range": "10.0.0.0/16", "subnets": [], "routes": [], "servers": []}


@dataclasses.dataclass
class EmulatedHetzner:
    """A project. Change `servers`, or set `failure` to an HTTP status and an error code."""

    url: str = ""
    servers: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    failure: tuple[int, str] | None = None
    requests: list[str] = dataclasses.field(default_factory=list)

    def launch(self, name: str, status: str = "running") -> int:
        """Start a server."""
        number = 1000 + len(self.requests) + len(self.servers)
        self.servers[number] = {
            "id": number,
            "name": name,
            "status": status,
            "created": "2026-01-01T00:00:00+00:00",
            "server_type": {"id": 1, "name": "cpx21"},
            "location": {"id": 1, "name": "fsn1", "network_zone": "eu-central"},
            "public_net": {
                "ipv4": {"id": number, "ip": f"192.0.2.{number % 250}", "blocked": False, "dns_ptr": ""},
                "ipv6": None,
                "floating_ips": [],
                "firewalls": [],
            },
            "private_net": [
                {"network": 77, "ip": f"10.0.0.{number % 250}", "alias_ips": [], "mac_address": ""},
                {"network": 78, "ip": "10.9.9.9", "alias_ips": [], "mac_address": ""},
            ],
            "labels": {},
            "volumes": [],
        }
        return number

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.method} {request.path_qs}")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _error(401, "unauthorized")
        if self.failure is not None:
            return _error(*self.failure)
        match request.path.strip("/").split("/"):
            case ["v1", "servers"]:
                return self._list(request)
            case ["v1", "servers", number] if int(number) in self.servers:
                return web.json_response({"server": self.servers[int(number)]})
            case ["v1", "networks"]:
                named = [NETWORK] if request.query.get("name", NETWORK["name"]) == NETWORK["name"] else []
                return web.json_response({"networks": named, "meta": _meta(1, None)})
            case ["v1", "networks", "77"]:
                return web.json_response({"network": NETWORK})
            case _:
                return _error(404, "not_found")

    def _list(self, request: web.Request) -> web.Response:
        page, size = int(request.query.get("page", 1)), int(request.query.get("per_page", 25))
        name = request.query.get("name")
        chosen = [server for server in self.servers.values() if name is None or server["name"] == name]
        part = chosen[(page - 1) * size : page * size]
        following = page + 1 if page * size < len(chosen) else None
        return web.json_response({"servers": part, "meta": _meta(page, following)})


def _meta(page: int, following: int | None) -> dict[str, Any]:
    return {
        "pagination": {
            "page": page,
            "per_page": 25,
            "previous_page": None,
            "next_page": following,
            "last_page": None,
            "total_entries": None,
        }
    }


def _error(status: int, code: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": f"emulated {code}", "details": {}}}, status=status)


@contextlib.asynccontextmanager
async def emulated_hetzner() -> AsyncIterator[EmulatedHetzner]:
    """Serve it on a free port."""
    emulated = EmulatedHetzner()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", emulated.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        emulated.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield emulated
    finally:
        await runner.cleanup()
