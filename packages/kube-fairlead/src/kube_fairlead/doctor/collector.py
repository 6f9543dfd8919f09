"""Reads the facts from an API server. A failed read is recorded as a fact, and nothing is written."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import email.utils
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.apps_v1 import DaemonSet
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Namespace, Node, Service
from kube_fairlead.api.discovery_v1 import EndpointSlice
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.api.scheme import Scheme
from kube_fairlead.base import certificates
from kube_fairlead.base.certificates import Validity
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import lifecyclegroup
from kube_fairlead.client.client import Client
from kube_fairlead.doctor.facts import Facts, Hook, NotRead, Read
from kube_fairlead.grace import servers
from kube_fairlead.webhook.manifests import REGISTRATIONS, own_secret_name, secret_name

__all__ = ["AGENT_NAME", "collect", "validities"]

AGENT_NAME: Final = "fairlead-agent"
"""The DaemonSet of the agents as `fairlead install` names it."""

_T = TypeVar("_T")
_O = TypeVar("_O", bound=KubeObject)

_HOOKS: Final = GroupVersionResource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
_SECRETS: Final = GroupVersionResource("", "v1", "secrets")
_FIRST_ANSWER_SECONDS: Final = 15.0
# An HTTP date has whole seconds, and is a moment old.
_NOTICED: Final = dt.timedelta(seconds=2)


async def collect(client: Client, url: str, group: str = "") -> Facts:
    """Read everything that the checks look at.

    Args:
        client: of the API server.
        url: how the report names the API server.
        group: the only group of the lifecycle kinds to look at; empty: all that are served.
    """
    answer = await _read("the API server does not answer", _version(client))
    if answer.found is None:
        return Facts(now=client.clock.now(), url=url, version=Read(problem=answer.problem))
    version, ahead = answer.found
    kinds = await _read("its API groups", _kinds(client, group))
    hooks = await _read("ValidatingWebhookConfigurations", _hooks(client))
    namespace = await _read(f"namespace {NAMESPACE_NODE_LEASE}", _exists(client, Namespace, NAMESPACE_NODE_LEASE))
    leases = await _read("Leases", _all(client, Lease, NAMESPACE_NODE_LEASE))
    nodes = await _read("Nodes", _all(client, Node))
    agents = await _read("DaemonSets", _agents(client))
    return Facts(
        now=client.clock.now() + ahead,
        url=url,
        version=Read(version),
        is_native=servers.is_native_version(version),
        wanted_group=group,
        kinds=kinds,
        hooks=hooks,
        lease_namespace=namespace,
        leases=Read(None if leases.found is None else {one.name: one for one in leases.found}, leases.problem),
        nodes=Read(None if nodes.found is None else {one.name: one for one in nodes.found}, nodes.problem),
        agents=agents,
        events=await _read("LifecycleEvents", _of_groups(client, kinds, group, LifecycleEvent)),
        transitions=await _read("LifecycleTransitions", _of_groups(client, kinds, group, LifecycleTransition)),
    )


async def _read(what: str, work: Awaitable[_T]) -> Read[_T]:
    try:
        return Read(await work)
    except (api_errors.ApiError, client_errors.ClientError, msgspec.MsgspecError, NotRead) as error:
        return Read(problem=f"{what}: {error}")


async def _version(client: Client) -> tuple[str, dt.timedelta]:
    """The version of the API server, and how far its clock is ahead of the one here."""
    answer = await client.request("GET", "/version", timeout_seconds=_FIRST_ANSWER_SECONDS)
    version = str(msgspec.json.decode(answer.body, type=Json).get("gitVersion") or "unknown")
    return version, _ahead(answer.headers.get("date", ""), client.clock.now())


def _ahead(date: str, now: dt.datetime) -> dt.timedelta:
    # Leases and certificates are judged by the time of the cluster; the user's machine may be off.
    try:
        ahead = email.utils.parsedate_to_datetime(date) - now
    except (TypeError, ValueError):  # no Date, or one without a zone
        return dt.timedelta()
    return ahead if abs(ahead) >= _NOTICED else dt.timedelta()


async def _kinds(client: Client, group: str) -> Mapping[str, frozenset[str]]:
    groups = dict.fromkeys((*lifecyclegroup.GROUPS, *([group] if group else [])))
    return {one: await lifecyclegroup.served_kinds(client, one) for one in groups}


async def _of_groups(
    client: Client, kinds: Read[Mapping[str, frozenset[str]]], wanted: str, kind: type[_O]
) -> tuple[_O, ...]:
    found: list[_O] = []
    for group, plurals in kinds.value.items():
        api = client.with_scheme(Scheme(group)).of(kind)
        if wanted in {"", group} and api.resource.gvr.resource in plurals:
            found += (await api.list_all()).items
    return tuple(found)


async def _all(client: Client, kind: type[_O], namespace: str | None = None) -> Sequence[_O]:
    return (await client.of(kind).list_all(namespace=namespace)).items


async def _agents(client: Client) -> tuple[DaemonSet, ...]:
    selector = f"app.kubernetes.io/name={AGENT_NAME}"
    return tuple((await client.of(DaemonSet).list_all(label_selector=selector)).items)


async def _exists(client: Client, kind: type[_O], name: str, namespace: str | None = None) -> bool:
    try:
        await client.of(kind).get(name, namespace=namespace)
    except api_errors.NotFound:
        return False
    return True


async def _hooks(client: Client) -> tuple[Hook, ...]:
    found = []
    for name in REGISTRATIONS:
        try:
            registration = await client.of(_HOOKS).get(name)
        except api_errors.NotFound:
            continue
        found += [await _hook(client, name, one) for one in registration.get("webhooks") or ()]
    return tuple(found)


async def _hook(client: Client, registration: str, hook: Json) -> Hook:
    where = hook.get("clientConfig") or {}
    bundle = where.get("caBundle") or ""
    authorities = validities(bundle)
    policy = hook.get("failurePolicy") or "Fail"
    service = where.get("service")
    if not service:
        return Hook(registration=registration, failure_policy=policy, has_bundle=bool(bundle), authorities=authorities)
    namespace, name = service["namespace"], service["name"]
    secret, serving = await _serving(client, namespace, name)
    return Hook(
        registration=registration,
        failure_policy=policy,
        service=f"{namespace}/{name}",
        has_bundle=bool(bundle),
        authorities=authorities,
        service_exists=await _read(f"Service {namespace}/{name}", _exists(client, Service, name, namespace)),
        ready_endpoints=await _read("EndpointSlices", _ready(client, namespace, name)),
        secret=secret,
        serving=serving,
    )


async def _ready(client: Client, namespace: str, service: str) -> int:
    selector = f"kubernetes.io/service-name={service}"
    slices = (await client.of(EndpointSlice).list_all(namespace=namespace, label_selector=selector)).items
    # As for a Service: an endpoint that does not say is ready.
    return sum(endpoint.conditions.ready is not False for one in slices for endpoint in one.endpoints)


async def _serving(client: Client, namespace: str, service: str) -> tuple[str, Read[tuple[Validity, ...]]]:
    """The Secret of the serving certificate and what is in it; no name when there is no such Secret."""
    for name in (own_secret_name(service), secret_name(service)):
        try:
            secret = await client.of(_SECRETS).get(name, namespace=namespace)
        except api_errors.NotFound:
            continue
        except (api_errors.ApiError, client_errors.ClientError) as error:
            return f"{namespace}/{name}", Read(problem=str(error))
        return f"{namespace}/{name}", validities((secret.get("data") or {}).get("tls.crt") or "")
    return "", Read()


def validities(encoded: str) -> Read[tuple[Validity, ...]]:
    """From when until when the certificates are valid that are in a field of Kubernetes."""
    try:
        return Read(certificates.validities(base64.b64decode(encoded)))
    except certificates.LibraryMissing as error:
        return Read(problem=f"certificates cannot be read: {error}")
    except (ValueError, binascii.Error) as error:
        return Read(problem=str(error), is_broken=True)
