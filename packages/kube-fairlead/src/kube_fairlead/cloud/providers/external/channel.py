"""Calling the server of a cloud: one connection per call, certificates on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.resources
import ssl
from typing import Any, Final

from kube_fairlead.base.clock import Clock
from kube_fairlead.cloud.errors import CloudError, CloudRefused, CloudUnavailable, ProviderFault
from kube_fairlead.cloud.providers.external.config import ExternalConfig, TlsFiles
from kube_fairlead.cloud.requests import before_request
from kube_fairlead.driverapi import http2
from kube_fairlead.driverapi.errors import DriverError, DriverMisbehaved

__all__ = ["PACKAGE", "ExternalChannel", "message"]

PACKAGE: Final = "fairlead.cloud.v1alpha1"
_SERVICE: Final = f"{PACKAGE}.CloudProvider"
_ANSWER_SECONDS: Final = 30.0
_MESSAGE_BYTES_MAX: Final = 8 << 20
# INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED and
# UNAUTHENTICATED, as the contract has it.
_REFUSALS: Final = frozenset({3, 5, 6, 7, 9, 11, 12, 16})

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@functools.cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(importlib.resources.files(__package__).joinpath("contract.binpb").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


@functools.cache
def message(name: str) -> Any:
    """The class of a message of the contract."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


class ExternalChannel:
    """Calls of the contract, by name."""

    def __init__(self, config: ExternalConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._read: tuple[int, ...] = ()  # when the certificates were changed that the context below has
        self._context: ssl.SSLContext | None = None

    async def call(self, method: str, request: Any) -> Any:
        """One call, when it is its turn; its answer.

        Raises:
            CloudUnavailable: there was no answer.
            CloudRefused: the cloud would not.
            ProviderFault: what came is no answer.
        """
        await before_request()
        try:
            async with self._clock.timeout(_ANSWER_SECONDS):
                data = await self._exchange(f"/{_SERVICE}/{method}", request.SerializeToString())
        except TimeoutError as error:
            raise CloudUnavailable(f"{self._config.address}: no answer to {method} in {_ANSWER_SECONDS:g} s") from error
        except DriverError as error:
            raise _meaning(error, f"{self._config.address}: {method}") from error
        return _parsed(message(f"{method}Response"), data, method)

    async def _exchange(self, path: str, request: bytes) -> bytes:
        config = self._config
        target = http2.Target(
            scheme="https" if config.tls else "http",
            authority=config.address if config.tls else "localhost",
            message_bytes_max=_MESSAGE_BYTES_MAX,
        )
        more: dict[str, Any] = {} if config.socket else {"connect": self._connect}
        messages = http2.call(config.address, path, request, timeout_seconds=_ANSWER_SECONDS, target=target, **more)
        answers: list[bytes] = []
        async with contextlib.aclosing(messages):
            async for data in messages:
                answers.append(data)
                if len(answers) > 1:
                    break
        if len(answers) != 1:
            raise DriverMisbehaved("the server did not answer with one message")
        return answers[0]

    async def _connect(self, _address: str) -> _Streams:
        tls = self._config.tls
        return await asyncio.open_connection(
            self._config.host,
            self._config.port,
            ssl=self._current_context(tls) if tls is not None else None,
            server_hostname=tls.server_name if tls is not None else None,
        )

    def _current_context(self, tls: TlsFiles) -> ssl.SSLContext:
        changed = tuple(path.stat().st_mtime_ns for path in (tls.authority, tls.certificate, tls.key))
        if self._context is None or changed != self._read:
            context = ssl.create_default_context(cafile=str(tls.authority))
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols(["h2"])
            context.load_cert_chain(tls.certificate, tls.key)
            self._context, self._read = context, changed
        return self._context


def _meaning(error: DriverError, what: str) -> CloudError:
    # Words of the layer below are about drivers, which have the same protocol underneath.
    words = f"{what}: {str(error).replace('the driver', 'the server')}"
    if error.code in _REFUSALS:
        return CloudRefused(words)
    if isinstance(error, DriverMisbehaved):
        return ProviderFault(words)
    return CloudUnavailable(words)


def _parsed(kind: Any, data: bytes, method: str) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ProviderFault(f"{method}: the server sent a malformed {kind.DESCRIPTOR.name}") from error
