"""Calls drivers and plugins by gRPC over their unix sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kube_fairlead.base.rpc import client
from kube_fairlead.base.rpc.client import Target
from kube_fairlead.base.rpc.errors import RpcError, StatusError, Unreachable
from kube_fairlead.base.rpc.status import Code
from kube_fairlead.driverapi import codec, contracts
from kube_fairlead.driverapi.errors import DriverError, DriverGone, DriverMisbehaved, DriverRefused
from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo, Progress, Reached, Work

__all__ = ["GrpcDriverChannel", "GrpcRegistrationChannel"]

# The call ended, but the driver may still work. The caller may retry.
_GONE: Final = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE})


class GrpcDriverChannel:
    """A `DriverChannel` to the driver that listens on a socket. Holds no connection between calls."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """Read the transitions that the driver offers."""
        answer = await _unary(self.path, contracts.DRIVER_SERVICE, "GetTransitions", {"node_name": node_name})
        return codec.decode_transitions(answer)

    async def start(self, work: Work, *, timeout_seconds: float | None = None) -> Reached:
        """Bring the node to the start state."""
        answer = await _unary(
            self.path,
            contracts.DRIVER_SERVICE,
            "StartLifecycleTransition",
            {"work": codec.encode_work(work)},
            timeout_seconds,
        )
        return codec.decode_reached(answer)

    async def end(
        self, work: Work, on_progress: Callable[[Progress], None], *, timeout_seconds: float | None = None
    ) -> Reached:
        """Bring the node to the end state."""
        request_type, answer_type = contracts.method_types(contracts.DRIVER_SERVICE, "EndLifecycleTransition")
        request = request_type(work=codec.encode_work(work)).SerializeToString()
        path = f"/{contracts.DRIVER_SERVICE}/EndLifecycleTransition"
        messages = client.call(_target(self.path), path, request, timeout_seconds=timeout_seconds)
        result: Reached | None = None
        with _translated():
            async with contextlib.aclosing(messages):
                async for data in messages:
                    if result is not None:
                        raise DriverMisbehaved("the driver sent a message after its result")
                    answer = _parse(answer_type, data)
                    match answer.WhichOneof("content"):
                        case "progress":
                            on_progress(codec.decode_progress(answer.progress))
                        case "result":
                            result = codec.decode_reached(answer.result)
                        case _:
                            pass  # an answer of a later version of the protocol
        if result is None:
            raise DriverMisbehaved("the driver ended the stream without a result")
        return result


class GrpcRegistrationChannel:
    """A `RegistrationChannel` to the plugin that listens on a socket."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def get_info(self) -> PluginInfo:
        """Read its name, type and endpoint."""
        return codec.decode_info(await _unary(self.path, contracts.REGISTRATION_SERVICE, "GetInfo", {}))

    async def notify(self, *, registered: bool, error: str = "") -> None:
        """Report whether the agent registered it."""
        fields = {"plugin_registered": registered, "error": error}
        await _unary(self.path, contracts.REGISTRATION_SERVICE, "NotifyRegistrationStatus", fields)


async def _unary(
    path: str, service: str, method: str, fields: dict[str, Any], timeout_seconds: float | None = None
) -> Any:
    request_type, answer_type = contracts.method_types(service, method)
    request = request_type(**fields).SerializeToString()
    with _translated():
        answer = await client.unary(_target(path), f"/{service}/{method}", request, timeout_seconds=timeout_seconds)
    return _parse(answer_type, answer)


def _target(path: str) -> Target:
    return Target(path, message_bytes_max=contracts.MESSAGE_BYTES_MAX)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except RpcError as error:
        raise _driver_error(error) from error


def _driver_error(error: RpcError) -> DriverError:
    message = str(error)
    match error:
        case Unreachable():
            return DriverGone(message)
        case StatusError(code=code) if code in _GONE:
            return DriverGone(message, code=code)
        case StatusError(code=Code.UNIMPLEMENTED as code):
            return DriverMisbehaved(message, code=code)
        case StatusError(code=code):
            return DriverRefused(message, code=code)
        case _:
            return DriverMisbehaved(message)


def _parse(message_type: Any, data: bytes) -> Any:
    from kube_fairlead.base.rpc.protobuf import DecodeError

    try:
        return message_type.FromString(data)
    except DecodeError as error:
        raise DriverMisbehaved(f"the driver sent a malformed {message_type.DESCRIPTOR.name}") from error
