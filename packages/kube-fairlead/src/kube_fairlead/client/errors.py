"""What can go wrong between a component and an API server.

Answers of the server itself are `kube_fairlead.api.errors.ApiError`; here is everything before and around an answer::

    ClientError
    ├── ConfigError                 how to reach the server is described wrongly; trying again is pointless
    │   ├── KubeconfigError         a kubeconfig file, by path and field
    │   └── InClusterError          the service account that a pod is given
    ├── CredentialError             a credential could not be had (an exec plugin, a token file)
    ├── TransportError              no complete answer came
    │   ├── ServerUnreachable       never reached the server: repeating is always safe
    │   ├── CertificateRejected     the server's certificate is not one we trust (or it does not trust ours)
    │   ├── ConnectionBroken        broke after sending: the server may have acted on the request
    │   └── RequestTimedOut         no answer in time: the same doubt
    ├── AnswerInvalid               an answer that no Kubernetes API server gives
    └── WatchBroken                 a watch ended other than by the server's own will; resume it

`NotDiscovered` is handled as an answer of a server that is not ready yet, and so is a `ServiceUnavailable`.

Every message is one sentence that a user can act on. `is_retryable` answers whether waiting can help.
"""

from __future__ import annotations

import pathlib

from kube_fairlead.api import errors as api_errors

__all__ = [
    "AnswerInvalid",
    "CertificateRejected",
    "ClientError",
    "ConfigError",
    "ConnectionBroken",
    "CredentialError",
    "InClusterError",
    "KubeconfigError",
    "NotDiscovered",
    "RequestTimedOut",
    "ServerUnreachable",
    "TransportError",
    "WatchBroken",
]


class ClientError(Exception):
    """Anything but an answer of the server."""

    is_retryable = False


class ConfigError(ClientError):
    """How to reach the server is described wrongly."""


class KubeconfigError(ConfigError):
    """A kubeconfig that cannot be used: which file, which field, what is wrong."""

    def __init__(self, problem: str, *, field: str = "", path: pathlib.Path | None = None) -> None:
        self.problem = problem
        self.field = field
        self.path = path
        where = f"kubeconfig {path}" if path else "kubeconfig"
        super().__init__(f"{where}: {field}: {problem}" if field else f"{where}: {problem}")


class InClusterError(ConfigError):
    """The service account files or variables of a pod are missing or broken."""


class CredentialError(ClientError):
    """A credential could not be had."""


class TransportError(ClientError):
    """No complete answer came."""


class ServerUnreachable(TransportError):
    """The request never reached the server."""

    is_retryable = True


class CertificateRejected(TransportError):
    """The TLS handshake failed: one side does not trust the other."""


class ConnectionBroken(TransportError):
    """The connection broke after the request was sent."""

    is_retryable = True


class RequestTimedOut(TransportError):
    """The server did not answer in time."""

    is_retryable = True


class AnswerInvalid(ClientError):
    """The other end answered, but not as a Kubernetes API server does."""


class WatchBroken(ClientError):
    """A watch stream was cut off, perhaps in the middle of an event."""

    is_retryable = True


class NotDiscovered(api_errors.ServiceUnavailable):
    """A lifecycle kind was used before its API group is known. A retry helps."""
