"""Authentication, authorization and the checks around them, assembled over one server's objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from kube_fairlead.api.json_object import Json
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import Ids
from kube_fairlead_apiserver.admission.interface import AdmissionPlugin, Operation
from kube_fairlead_apiserver.app import Authenticator, Authorizer, PathHandler
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.dispatch import Handlers
from kube_fairlead_apiserver.http.messages import Request, Response, json_response
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.registry.resource import decode_entry, split_key
from kube_fairlead_apiserver.security.authentication import Authentication
from kube_fairlead_apiserver.security.authorization import Authorization
from kube_fairlead_apiserver.security.bootstrap_policy import bootstrap_policy, node_rules
from kube_fairlead_apiserver.security.escalation import EscalationCheck
from kube_fairlead_apiserver.security.impersonation import impersonate, read_impersonation
from kube_fairlead_apiserver.security.node_authorizer import NodeAuthorizer
from kube_fairlead_apiserver.security.node_graph import NodeGraph
from kube_fairlead_apiserver.security.pki.jose import TokenKey
from kube_fairlead_apiserver.security.rbac import Policy, Rbac
from kube_fairlead_apiserver.security.tokens import ServiceAccountTokens
from kube_fairlead_apiserver.storage.entries import Change

__all__ = ["ISSUER", "AccessControl", "HasCertificate", "make_access_control"]

ISSUER = "https://kubernetes.default.svc.cluster.local"
_RBAC = "rbac.authorization.k8s.io"
_POLICY_KINDS = {
    f"roles.{_RBAC}": "Role",
    f"clusterroles.{_RBAC}": "ClusterRole",
    f"rolebindings.{_RBAC}": "RoleBinding",
    f"clusterrolebindings.{_RBAC}": "ClusterRoleBinding",
}


class HasCertificate(Protocol):
    """A certificate authority that clients trust."""

    @property
    def certificate_pem(self) -> bytes:
        """The certificate."""
        ...


class AccessControl(msgspec.Struct, frozen=True):
    """Authentication and authorization of one server."""

    authenticator: Authenticator
    authorizer: Authorizer
    root_ca: str = ""
    impersonate: Callable[[Request, UserInfo], UserInfo] = lambda _request, user: user
    policy: Sequence[Json] = ()  # the roles and bindings of a new cluster
    load_handlers: Callable[[], Handlers] = Handlers  # reviews and token requests
    paths: Mapping[str, PathHandler] = {}
    opened: Callable[[], None] = lambda: None  # called once the stored objects are loaded
    # For expressions in policies: None when allowed, else the reason.
    authorize: Callable[[Attributes], str | None] = lambda _attributes: None
    plugins: Sequence[AdmissionPlugin] = ()  # admission plugins about access


def make_access_control(
    core: Core,
    clock: Clock,
    ids: Ids,
    authority: HasCertificate,
    signing_key: TokenKey,
    static_tokens: Mapping[str, UserInfo],
    url: str,
) -> AccessControl:
    """Return the default access control: certificates, tokens and service accounts; RBAC and the node authorizer."""
    lookup = _Lookup(core)
    graph = NodeGraph(lookup.get)
    tokens = ServiceAccountTokens([signing_key], lookup.get, clock, ids, issuer=ISSUER)
    authentication = Authentication(service_accounts=tokens, static_tokens=static_tokens)
    policy = Policy()
    rbac = Rbac(policy)
    authorization = Authorization([NodeAuthorizer(node_rules, graph, lookup.get), rbac])

    def opened() -> None:
        _follow_nodes(core, graph)
        _follow_policy(core, policy)

    def load_handlers() -> Handlers:
        # Loaded by the first request: the server is ready before.
        from kube_fairlead_apiserver.reviews.access_reviews import AccessReviews
        from kube_fairlead_apiserver.reviews.identity_reviews import IdentityReviews
        from kube_fairlead_apiserver.security.token_requests import TokenRequests
        from kube_fairlead_apiserver.subresources.token import token_handler

        access, identity = AccessReviews(authorization, rbac), IdentityReviews(authentication, tokens.audiences)
        requests = token_handler(TokenRequests(tokens, lookup.get, clock))
        return Handlers(
            subresources={("serviceaccounts", "token"): requests},
            not_stored={**access.handlers(), **identity.handlers()},
        )

    return AccessControl(
        authenticator=authentication,
        authorizer=authorization,
        root_ca=authority.certificate_pem.decode(),
        impersonate=lambda request, user: _impersonated(request, user, authorization),
        policy=bootstrap_policy(),
        load_handlers=load_handlers,
        paths=_token_paths(tokens, url),
        opened=opened,
        authorize=authorization.authorize,
        plugins=(_NoEscalation(EscalationCheck(rbac, authorization)),),
    )


class _NoEscalation(AdmissionPlugin):
    """Rejects roles and bindings that grant permissions which the user does not hold."""

    def __init__(self, check: EscalationCheck) -> None:
        self._check = check

    def handles(self, operation: str, group: str, plural: str, subresource: str) -> bool:
        """Roles and bindings only."""
        del plural, subresource
        return group == _RBAC and operation in {"CREATE", "UPDATE"}

    async def validate(self, operation: Operation) -> None:
        """Check roles and bindings before they are stored."""
        if operation.obj is not None:
            self._check.check(operation.user, operation.resource.kind, operation.obj, operation.old)


def _impersonated(request: Request, user: UserInfo, authorization: Authorization) -> UserInfo:
    asked = read_impersonation(request.header_list)
    return user if asked is None else impersonate(user, asked, authorization)


def _token_paths(tokens: ServiceAccountTokens, url: str) -> dict[str, PathHandler]:
    async def keys(_request: Request, _user: UserInfo) -> Response:
        response = json_response(tokens.jwks())
        response.content_type = "application/jwk-set+json"
        return response

    async def configuration(_request: Request, _user: UserInfo) -> Response:
        return json_response(tokens.discovery(f"{url}/openid/v1/jwks"))

    return {
        path: handler
        for name, handler in (("/openid/v1/jwks", keys), ("/.well-known/openid-configuration", configuration))
        for path in (name, f"{name}/")
    }


def _follow_policy(core: Core, policy: Policy) -> None:
    """Pass every stored role and binding, and every later change of them, to the policy."""
    for table, kind in _POLICY_KINDS.items():
        for entry in core.store.table(table).entries.values():
            policy.put(kind, decode_entry(entry))

    def follow(table: str, change: Change) -> None:
        kind = _POLICY_KINDS.get(table)
        if kind is None:
            return
        if change.after is None:
            namespace, name = split_key(change.last.key)
            policy.remove(kind, namespace, name)
        else:
            policy.put(kind, decode_entry(change.after))

    core.store.observe(follow)


def _follow_nodes(core: Core, graph: NodeGraph) -> None:
    """Pass every stored pod, and every later change of a pod, claim or volume, to the graph."""
    for entry in core.store.table("pods").entries.values():
        graph.change_pod(entry.key, "", entry.fields["spec.nodeName"])

    def follow(table: str, change: Change) -> None:
        if table == "pods":
            before, after = ("" if e is None else e.fields["spec.nodeName"] for e in (change.before, change.after))
            graph.change_pod(change.last.key, before, after)
        elif table == "persistentvolumeclaims":
            graph.change_claim(*split_key(change.last.key))
        elif table == "persistentvolumes":
            for entry in (change.before, change.after):
                claim = {} if entry is None else decode_entry(entry).get("spec", {}).get("claimRef") or {}
                graph.change_claim(claim.get("namespace", ""), claim.get("name", ""))

    core.store.observe(follow)


class _Lookup:
    """The current state of objects that access decisions depend on."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._client = InternalClient(core, "")

    def get(self, plural: str, namespace: str, name: str) -> Json | None:
        resource = self._core.catalog.get("", "v1", plural)
        if resource is None:
            resource = next((known for known in self._core.catalog if known.plural == plural), None)
        return None if resource is None else self._client.get(resource, namespace, name)
