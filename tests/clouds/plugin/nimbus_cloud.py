"""A provider as an outsider would write it: a plug-in, whose cloud is one JSON file that a test changes.

    {"machines": {"n1": "nimbus://n1"}, "routes": [["10.0.0.0/24", "n1"]], "nonsense": {"exists": "none"}}

`nonsense` says which methods break the protocol, and how. Every call is a line of `<file>.calls`.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import Any

from kube_fairlead.cloud.provider import Instance, ProviderSettings, Route

NAME = "nimbus"


class Nimbus:
    """Machines and routes."""

    name = NAME
    zones = None
    load_balancers = None

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.instances = self
        self.routes = self

    def supported_platforms(self) -> frozenset[str]:
        return frozenset({NAME})

    @contextlib.asynccontextmanager
    async def running(self, cluster: Any) -> Any:
        self._asked("running")
        yield

    def recognises(self, provider_id: str) -> bool:
        return provider_id.startswith(f"{NAME}://")

    async def describe(self, queries: Any) -> Any:
        state = self._asked("describe", *(query.provider_id or query.node_name for query in queries))
        if "describe" in state["nonsense"]:
            return nonsense(state["nonsense"]["describe"])
        known = {one: name for name, one in state["machines"].items()}
        found = {}
        for query in queries:
            name = known.get(query.provider_id) if query.provider_id else query.node_name
            if name in state["machines"]:
                found[query] = Instance(provider_id=state["machines"][name])
        return found

    async def exists(self, provider_id: str, node: Any) -> Any:
        state = self._asked("exists", provider_id)
        if "exists" in state["nonsense"]:
            return nonsense(state["nonsense"]["exists"])
        return provider_id in state["machines"].values()

    async def list_routes(self, cluster_name: str, nodes: Any) -> Any:
        state = self._asked("list_routes")
        if "list_routes" in state["nonsense"]:
            return nonsense(state["nonsense"]["list_routes"])
        return [Route(destination_cidr=cidr, target_node=target) for cidr, target in state["routes"]]

    async def create_route(self, cluster_name: str, name_hint: str, route: Route, node: Any) -> None:
        state = self._asked("create_route", node.metadata.name, route.destination_cidr)
        self._store(state, [*state["routes"], [route.destination_cidr, route.target_node]])

    async def delete_route(self, cluster_name: str, route: Route) -> None:
        state = self._asked("delete_route", route.target_node, route.destination_cidr)
        gone = [route.destination_cidr, route.target_node]
        self._store(state, [one for one in state["routes"] if one != gone])

    def _asked(self, name: str, *about: str) -> Any:
        with self._path.with_suffix(".calls").open("a", encoding="utf-8") as calls:
            calls.write(json.dumps([name, *about]) + "\n")
        return json.loads(self._path.read_text(encoding="utf-8"))

    def _store(self, state: Any, routes: Any) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({**state, "routes": routes}), encoding="utf-8")
        new.replace(self._path)


def nonsense(kind: str) -> Any:
    if kind == "raises":
        raise KeyError("Reservations")
    if kind == "exits":
        raise SystemExit(3)
    return None


def provider(settings: ProviderSettings) -> Nimbus:
    assert settings.cloud_config is not None
    return Nimbus(settings.cloud_config)
