"""Amazon's library: made late, called in threads, its errors made ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kube_fairlead import __version__
from kube_fairlead.api.json_object import Json
from kube_fairlead.cloud.errors import CloudError, CloudRefused, CloudUnavailable
from kube_fairlead.cloud.providers.aws.config import AwsConfig
from kube_fairlead.cloud.requests import before_request
from kube_fairlead.cloud.threads import Threads

__all__ = ["AwsClient", "AwsError"]


# Bounds how long a call can outlive the controller that made it.
_CONNECT_SECONDS = 3
_READ_SECONDS = 6
_TRANSIENT = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "Unavailable",
    }
)


class AwsError(CloudRefused):
    """Raised when Amazon refused a call; `code` is its word for why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class AwsClient:
    """Calls by name: `await client.call("ec2", "describe_instances", ...)`."""

    def __init__(self, config: AwsConfig, threads: Threads) -> None:
        self._config = config
        self._threads = threads
        self._services: dict[str, Any] = {}
        self._making = threading.Lock()

    async def call(self, service: str, operation: str, /, **parameters: Any) -> Json:
        """One request, one attempt, when it is its turn.

        Raises:
            CloudUnavailable: no answer, or a throttled one.
            AwsError: Amazon would not.
        """
        await before_request()
        return await self._threads.run(self._call, service, operation, parameters)

    async def pages(self, service: str, operation: str, key: str, /, **parameters: Any) -> list[Json]:
        """Everything that a paginated call gives, as few calls as its page size allows."""
        items: list[Json] = []
        more: Json = {}
        while True:
            answer = await self.call(service, operation, **parameters, **more)
            items += answer.get(key) or []
            if token := answer.get("NextToken"):
                more = {"NextToken": token}
            elif marker := answer.get("NextMarker"):
                more = {"Marker": marker}
            else:
                return items

    def close(self) -> None:
        """Close connections. The next call opens new ones."""
        for service in self._services.values():
            service.close()
        self._services.clear()

    def _call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> Json:
        from botocore import exceptions

        try:
            method: Callable[..., Json] = getattr(self._service(service), operation)
            return method(**parameters)
        except exceptions.ClientError as error:
            raise _translated(error.response) from error
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            raise CloudRefused(f"Amazon's library finds no credentials: {error}") from error
        except exceptions.ParamValidationError as error:
            raise AwsError("ParamValidation", str(error)) from error
        except exceptions.BotoCoreError as error:
            raise CloudUnavailable(f"{service} {operation}: {error}") from error

    def _service(self, name: str) -> Any:
        # Several threads may be the first; to make a client takes long, and one that is thrown away keeps connections.
        with self._making:
            if name not in self._services:
                self._services[name] = self._make_service(name)
            return self._services[name]

    def _make_service(self, name: str) -> Any:
        import boto3
        from botocore.config import Config

        # Whether to try again is decided where all calls to the cloud are counted, not in here.
        options = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            user_agent_extra=f"fairlead/{__version__}",
        )
        return boto3.session.Session().client(
            name,
            region_name=self._config.region,
            endpoint_url=self._config.endpoints.get(name),
            config=options,
        )


def _translated(response: Any) -> CloudError:
    code = str(response.get("Error", {}).get("Code", "Unknown"))
    message = str(response.get("Error", {}).get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _TRANSIENT or status >= 500:
        return CloudUnavailable(f"{code}: {message}")
    return AwsError(code, message)
