"""The paths of the OpenAPI documents. The first request loads the code that builds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.registry.catalog import Catalog

if TYPE_CHECKING:
    from kube_fairlead_apiserver.openapi.documents import OpenApi

__all__ = ["OpenApiEndpoints"]

Handler = Callable[[Request, UserInfo], Awaitable[Response]]


class OpenApiEndpoints:
    """Serves /openapi/v2 and /openapi/v3."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._documents: OpenApi | None = None

    def paths(self) -> dict[str, Handler]:
        """Return the exact paths that this serves."""
        return {"/openapi/v2": self._answer, "/openapi/v3": self._answer}

    def prefixes(self) -> dict[str, Handler]:
        """Return the prefix of the v3 documents."""
        return {"/openapi/v3/": self._answer}

    async def _answer(self, request: Request, _user: UserInfo) -> Response:
        if self._documents is None:
            from kube_fairlead_apiserver.openapi.documents import OpenApi

            self._documents = OpenApi(self._catalog)
        return self._documents.answer(request)
