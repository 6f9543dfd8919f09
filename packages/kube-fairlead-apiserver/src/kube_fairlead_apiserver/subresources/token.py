"""serviceaccounts/token: issues a token of a service account, bound to another object.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/serviceaccount/storage/token.go
"""

from __future__ import annotations

from typing import Any, Protocol

from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead_apiserver.dispatch import Handler
from kube_fairlead_apiserver.http.messages import Response, json_response
from kube_fairlead_apiserver.subresources.posted_admission import admit_posted
from kube_fairlead_apiserver.types import schemas
from kube_fairlead_apiserver.verbs.body import read_object
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["TokenIssuer", "token_handler"]

_REQUEST = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")


class TokenIssuer(Protocol):
    """Issues tokens."""

    def create(self, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the request with its token."""
        ...


def token_handler(issuer: TokenIssuer) -> Handler:
    """Return the handler of POST serviceaccounts/NAME/token."""

    async def handle(call: Call) -> Response:
        body = await read_object(call, _REQUEST, schemas.node(_REQUEST))
        # A kubelet gets tokens only for its own pods; other plugins may have rules, too.
        await admit_posted(call, _REQUEST, body, call.write_options("CreateOptions"))
        return json_response(issuer.create(call.info.namespace, call.info.name, body), 201)

    return handle
