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
_TYPES = {"lb11": 25, "lb21": 75}


def _network() -> dict[str, Any]:
    return {"id": 77, "name": "cluster", "ip_range": "10.0.0.0/16", "subnets": [], "routes": [], "servers": []}


@dataclasses.dataclass
class EmulatedHetzner:
    """A project. Change `servers`, or set `failure` to an HTTP status and an error code."""

    url: str = ""
    servers: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    failure: tuple[int, str] | None = None
    requests: list[str] = dataclasses.field(default_factory=list)
    network: dict[str, Any] = dataclasses.field(default_factory=_network)
    balancers: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    actions: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    is_locked: bool = False  # another action of the same thing is under way
    breaks_at: str = ""  # a command whose action fails

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
                return self._page(request, "servers", list(self.servers.values()))
            case ["v1", "servers", number] if int(number) in self.servers:
                return web.json_response({"server": self.servers[int(number)]})
            case ["v1", "networks"]:
                return self._page(request, "networks", [self.network])
            case ["v1", "networks", "77"]:
                return web.json_response({"network": self.network})
            case ["v1", "networks", "77", "actions", command]:
                return self._acted(command, self._change_network(command, await request.json()))
            case ["v1", "actions", number]:
                return self._progress(int(number))
            case ["v1", "load_balancers"] if request.method == "POST":
                return self._create_balancer(await request.json())
            case ["v1", "load_balancers"]:
                wanted = request.query.get("label_selector", "")
                found = [one for one in self.balancers.values() if wanted in _labels(one)]
                return self._page(request, "load_balancers", found)
            case ["v1", "load_balancers", number] if request.method == "DELETE" and int(number) in self.balancers:
                del self.balancers[int(number)]
                return web.Response(status=204)
            case ["v1", "load_balancers", number, "actions", command] if int(number) in self.balancers:
                body = await request.json() if request.can_read_body else {}
                return self._acted(command, self._change_balancer(self.balancers[int(number)], command, body))
            case _:
                return _error(404, "not_found")

    def _page(self, request: web.Request, key: str, items: list[dict[str, Any]]) -> web.Response:
        page, size = int(request.query.get("page", 1)), int(request.query.get("per_page", 25))
        name = request.query.get("name")
        chosen = [one for one in items if name is None or one["name"] == name]
        part = chosen[(page - 1) * size : page * size]
        following = page + 1 if page * size < len(chosen) else None
        return web.json_response({key: part, "meta": _meta(page, following)})

    def _acted(self, command: str, refusal: tuple[int, str] | None) -> web.Response:
        if refusal is not None:
            return _error(*refusal)
        return web.json_response({"action": self._action(command)}, status=201)

    def _action(self, command: str) -> dict[str, Any]:
        number = 1 + len(self.actions)
        self.actions[number] = {"id": number, "command": command, "status": "running", "error": None}
        return self.actions[number]

    def _progress(self, number: int) -> web.Response:
        """An action is done when it is looked at for the first time."""
        action = self.actions[number]
        fails = action["command"] == self.breaks_at
        action["status"] = "error" if fails else "success"
        action["error"] = {"code": "action_failed", "message": "Action failed"} if fails else None
        return web.json_response({"action": action})

    def _change_network(self, command: str, body: dict[str, Any]) -> tuple[int, str] | None:
        if self.is_locked:
            return 423, "locked"
        routes: list[dict[str, Any]] = self.network["routes"]
        if command == "add_route":
            routes.append(body)
        elif body in routes:
            routes.remove(body)
        else:
            return 404, "not_found"
        return None

    def _create_balancer(self, body: dict[str, Any]) -> web.Response:
        if any(one["name"] == body["name"] for one in self.balancers.values()):
            return _error(409, "uniqueness_error")
        number = 500 + len(self.requests)
        self.balancers[number] = made = {
            "id": number,
            "name": body["name"],
            "labels": body["labels"],
            "algorithm": body["algorithm"],
            "load_balancer_type": {"id": 1, "name": body["load_balancer_type"]},
            "location": {"id": 1, "name": body.get("location", "")},
            "network_zone": body.get("network_zone", ""),
            "public_net": {
                "enabled": body["public_interface"],
                "ipv4": {"ip": "198.51.100.7", "dns_ptr": ""},
                "ipv6": {"ip": "2001:db8::7", "dns_ptr": ""},
            },
            "private_net": [],
            "services": [],
            "targets": [],
        }
        return web.json_response({"load_balancer": made, "action": self._action("create_load_balancer")}, status=201)

    def _change_balancer(self, made: dict[str, Any], command: str, body: dict[str, Any]) -> tuple[int, str] | None:
        if self.is_locked:
            return 423, "locked"
        match command:
            case "add_service":
                made["services"].append(_completed(body))
            case "update_service" | "delete_service":
                kept = [one for one in made["services"] if one["listen_port"] != body["listen_port"]]
                made["services"] = [*kept, _completed(body)] if command == "update_service" else kept
            case "add_target" if body["server"]["id"] not in self.servers:
                return 404, "not_found"
            case "add_target" if len(made["targets"]) >= _TYPES[made["load_balancer_type"]["name"]]:
                return 403, "resource_limit_exceeded"
            case "add_target":
                made["targets"].append(body)
            case "remove_target":
                made["targets"] = [one for one in made["targets"] if one["server"] != body["server"]]
            case "attach_to_network":
                made["private_net"].append({"network": body["network"], "ip": "10.0.0.250"})
            case "change_algorithm":
                made["algorithm"] = body
            case "change_type":
                made["load_balancer_type"] = {"id": 2, "name": body["load_balancer_type"]}
            case "enable_public_interface" | "disable_public_interface":
                made["public_net"]["enabled"] = command.startswith("enable")
            case _:
                return 404, "not_found"
        return None


def _labels(made: dict[str, Any]) -> set[str]:
    return {f"{key}=={value}" for key, value in made["labels"].items()}


def _completed(service: dict[str, Any]) -> dict[str, Any]:
    """With what Hetzner adds."""
    check = dict(service["health_check"])
    if "http" in check:
        check["http"] = {"domain": "", "response": "", "tls": False, "status_codes": ["2??", "3??"], **check["http"]}
    return {**service, "http": {"sticky_sessions": False, "certificates": []}, "health_check": check}


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
