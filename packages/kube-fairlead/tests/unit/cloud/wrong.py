"""Every answer that the provider protocol does not promise, made from those that it does."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec

from kube_fairlead.api.core_v1 import LoadBalancerIngress, LoadBalancerStatus, NodeAddress
from kube_fairlead.api.core_v1.services import PortStatus
from kube_fairlead.cloud.provider import (
    Instance,
    InstanceQuery,
    Instances,
    LoadBalancers,
    ManyInstances,
    Route,
    Routes,
    Zone,
    Zones,
)

Method = Callable[..., Any]

ADDRESS = NodeAddress(type="InternalIP", address="10.0.0.1")
INSTANCE = Instance(
    provider_id="aws://1",
    instance_type="m5",
    addresses=(ADDRESS,),
    zone="z",
    region="r",
    additional_labels={"example.com/a": "b"},
)
QUERY = InstanceQuery("n1", "aws://1")
INGRESS = LoadBalancerIngress(ip="192.0.2.1", ports=(PortStatus(port=80, protocol="TCP"),))
# By method, an answer with something in every place of it.
RIGHT: dict[Method, Any] = {
    Instances.recognises: True,
    Instances.describe: {QUERY: INSTANCE},
    Instances.exists: True,
    ManyInstances.which_exist: {"aws://1": True},
    Zones.zone_of: Zone("z", "r"),
    Routes.list_routes: [Route(destination_cidr="10.0.0.0/24", target_node="n1", target_node_addresses=(ADDRESS,))],
    Routes.create_route: None,
    Routes.delete_route: None,
    LoadBalancers.get_load_balancer_name: "kubernetes/default/web",
    LoadBalancers.get_load_balancer: LoadBalancerStatus(ingress=(INGRESS,)),
    LoadBalancers.ensure_load_balancer: LoadBalancerStatus(ingress=(INGRESS,)),
    LoadBalancers.update_load_balancer: None,
    LoadBalancers.ensure_load_balancer_deleted: None,
}
PARTS = (Instances, ManyInstances, Zones, Routes, LoadBalancers)


class _Raises:
    """A mapping that fails when it is read."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


class _Lazy(Mapping[Any, Any]):
    """A mapping that fails when it is looked into."""

    def __getitem__(self, key: object) -> Any:
        raise LookupError(key)

    def __iter__(self) -> Iterator[Any]:
        raise ConnectionError("the rest of the page")

    def __len__(self) -> int:
        return 1


def methods() -> list[Method]:
    """All methods of the protocol that are called while controllers run."""
    return [
        method
        for part in PARTS
        for name, method in inspect.getmembers(part, inspect.isfunction)
        if not name.startswith("_")
    ]


# Where None is an answer too.
OPTIONAL = frozenset({LoadBalancers.get_load_balancer})


def _values() -> list[Any]:
    """One of each kind."""
    plain = [None, True, 0, 1, 1.5, "", "text", b"bytes", [], [None], (), {}, {"a": "b"}, {1}, object(), Exception("x")]
    return [*plain, iter(()), _Raises(), _Lazy(), INSTANCE, ADDRESS, Zone(), LoadBalancerStatus(), lambda: None]


def wrong_answers(right: Any) -> list[Any]:
    """Answers of another type than this one, or with a wrong part in any place of it."""
    return [*(value for value in _values() if not _same_kind(value, right)), *_inside(right)]


def _same_kind(value: object, right: object) -> bool:
    if isinstance(right, dict):
        # An empty mapping promises nothing of what is in it.
        return isinstance(value, dict) and (value == {} or right == {"example.com/a": "b"})
    if isinstance(right, list):
        return isinstance(value, list | tuple) and not value  # any sequence
    if isinstance(right, tuple):
        return isinstance(value, tuple)
    return type(value) is type(right)


def _inside(right: Any) -> Iterator[Any]:
    if isinstance(right, dict):
        for key, value in right.items():
            yield from ({key: wrong} for wrong in wrong_answers(value))
            yield from ({wrong: value} for wrong in wrong_answers(key) if _is_hashable(wrong))
    elif isinstance(right, list | tuple):
        yield from (type(right)([wrong]) for wrong in wrong_answers(right[0])) if right else ()
    elif dataclasses.is_dataclass(right) and not isinstance(right, type):
        for field in dataclasses.fields(right):
            if not field.compare:
                continue  # it came with the question
            for wrong in _field(right, field.name):
                yield dataclasses.replace(right, **{field.name: wrong})
    elif isinstance(right, msgspec.Struct):
        for name in right.__struct_fields__:
            for wrong in _field(right, name):
                yield msgspec.structs.replace(right, **{name: wrong})


def _field(right: Any, name: str) -> list[Any]:
    optional = {"target_node_addresses", "ip_mode", "error"}
    value = getattr(right, name)
    if name in optional:
        value = "text" if value is None else value
    return [wrong for wrong in wrong_answers(value) if wrong is not None or name not in optional]


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def exceptions() -> list[BaseException]:
    """What a plug-in may raise that is no CloudError."""

    class Unprintable(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    return [
        ValueError("bad"),
        KeyError("Instances"),
        TypeError("'NoneType' object is not subscriptable"),
        AttributeError("x"),
        TimeoutError(),
        ConnectionResetError("peer"),
        RuntimeError("used outside of its block"),
        NotImplementedError(),
        AssertionError(),
        RecursionError(),
        MemoryError(),
        StopAsyncIteration(),
        SystemExit(3),
        asyncio.CancelledError(),
        ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
        BaseExceptionGroup("several", [SystemExit(1)]),
        Unprintable(),
    ]


def answering(value: Any) -> Callable[[], Awaitable[Any]]:
    async def answer() -> Any:
        return value

    return answer


def raising(error: BaseException) -> Callable[[], Awaitable[Any]]:
    async def answer() -> Any:
        raise error

    return answer
