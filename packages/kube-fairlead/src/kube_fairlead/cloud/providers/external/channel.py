"""Calling the server of a cloud: one connection per call, certificates on both sides."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.rpc import client
from kube_fairlead.base.rpc.contract import Contract
from kube_fairlead.base.rpc.errors import ProtocolError, RpcError, StatusError
from kube_fairlead.base.rpc.status import Code
from kube_fairlead.cloud.errors import CloudError, CloudRefused, CloudUnavailable, ProviderFault
from kube_fairlead.cloud.providers.external.config import ExternalConfig, TlsFiles
from kube_fairlead.cloud.requests import before_request

__all__ = ["PACKAGE", "ExternalChannel", "message"]

PACKAGE: Final = "fairlead.cloud.v1alpha1"
_SERVICE: Final = f"{PACKAGE}.CloudProvider"
_ANSWER_SECONDS: Final = 30.0
_MESSAGE_BYTES_MAX: Final = 8 << 20
# As the contract has it.
_REFUSALS: Final = frozenset(
    {
        Code.INVALID_ARGUMENT,
        Code.NOT_FOUND,
        Code.ALREADY_EXISTS,
        Code.PERMISSION_DENIED,
        Code.FAILED_PRECONDITION,
        Code.OUT_OF_RANGE,
        Code.UNIMPLEMENTED,
        Code.UNAUTHENTICATED,
    }
)
_CONTRACT: Final = Contract(__package__ or "", "contract.binpb")

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def message(name: str) -> Any:
    """The class of a message of the contract."""
    return _CONTRACT.message(f"{PACKAGE}.{name}")


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
        except RpcError as error:
            raise _meaning(error, f"{self._config.address}: {method}") from error
        return _parsed(message(f"{method}Response"), data, method)

    async def _exchange(self, path: str, request: bytes) -> bytes:
        config = self._config
        more: dict[str, Any] = {} if config.socket else {"connect": self._connect}
        target = client.Target(
            config.address,
            scheme="https" if config.tls else "http",
            authority=config.address if config.tls else "localhost",
            message_bytes_max=_MESSAGE_BYTES_MAX,
            **more,
        )
        return await client.unary(target, path, request, timeout_seconds=_ANSWER_SECONDS)

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


def _meaning(error: RpcError, what: str) -> CloudError:
    words = f"{what}: {error}"
    if isinstance(error, StatusError) and error.code in _REFUSALS:
        return CloudRefused(words)
    return ProviderFault(words) if isinstance(error, ProtocolError) else CloudUnavailable(words)


def _parsed(kind: Any, data: bytes, method: str) -> Any:
    from kube_fairlead.base.rpc.protobuf import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ProviderFault(f"{method}: the server sent a malformed {kind.DESCRIPTOR.name}") from error
