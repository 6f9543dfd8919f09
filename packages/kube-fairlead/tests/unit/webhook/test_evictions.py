"""Whose evictions are let through."""

from __future__ import annotations

import msgspec
import pytest

from kube_fairlead.api.admission_v1 import AdmissionRequest, RequestResource
from kube_fairlead.api.authentication_v1 import UserInfo
from kube_fairlead.api.core_v1 import Pod, PodSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors, retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.transport import Request, Response
from kube_fairlead.webhook.evictions import NODE_CLAIM, EvictionValidator, problem

POD = Pod(metadata=ObjectMeta(name="web", namespace="shop"), spec=PodSpec(node_name="here"))


@pytest.mark.parametrize(
    ("token_node", "node", "said"),
    [
        ("here", "here", ""),
        ("there", "here", "pod shop/web is on node here; a token of node there evicts pods of that node only"),
        ("here", "", "pod shop/web is on no node; a token of node here evicts pods of that node only"),
        ("", "here", "the token names no node, so it may not evict pods"),
        ("", "", "the token names no node, so it may not evict pods"),
    ],
)
def test_only_from_the_pods_own_node(token_node: str, node: str, said: str) -> None:
    assert problem(token_node, Pod(metadata=POD.metadata, spec=PodSpec(node_name=node))) == said


class Server:
    """Knows one pod, or is away."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away

    async def send(self, request: Request) -> Response:
        if self.away:
            raise errors.ServerUnreachable("it is away")
        metadata = {"name": "web", "namespace": "shop", "uid": "u-1"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "here"}}
        return Response(status=200, headers={}, body=msgspec.json.encode(body))

    def stream(self, request: Request) -> object:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def judge(server: Server) -> EvictionValidator:
    client = Client(
        server,  # type: ignore[arg-type]  # it never streams
        clock=RealClock(),
        randomness=SeededRandomness(1),
        retry_policy=retry.NEVER,
    )
    return EvictionValidator(client, DiscardedMetrics())


def request(node: str, *, sub_resource: str = "eviction", uid: str = "") -> AdmissionRequest:
    options = {"preconditions": {"uid": uid}} if uid else {}
    return AdmissionRequest(
        uid="u",
        name="web",
        namespace="shop",
        operation="CREATE",
        resource=RequestResource(version="v1", resource="pods"),
        sub_resource=sub_resource,
        object={"metadata": {"name": "web", "namespace": "shop"}, "deleteOptions": options},
        user_info=UserInfo(username="driver", extra={NODE_CLAIM: (node,)}),
    )


async def test_it_looks_the_pod_up() -> None:
    assert (await judge(Server()).answer(request("here"))).allowed
    refused = await judge(Server()).answer(request("there"))
    assert not refused.allowed
    assert refused.status is not None
    assert refused.status.code == 403


@pytest.mark.parametrize(("uid", "code"), [("", 403), ("u-1", 403), ("u-0", 409)])
async def test_that_the_pod_which_was_meant_has_gone_is_not_final(uid: str, code: int) -> None:
    refused = await judge(Server()).answer(request("there", uid=uid))
    assert refused.status is not None
    assert (refused.allowed, refused.status.code) == (False, code)
    assert (await judge(Server()).answer(request("here", uid=uid))).allowed


@pytest.mark.parametrize(
    ("operation", "node", "uid", "code"),
    [
        ("CREATE", "here", "u-1", 0),
        ("CREATE", "there", "u-1", 403),
        ("CREATE", "there", "u-0", 409),
        ("DELETE", "here", "u-1", 0),
        ("DELETE", "there", "u-1", 403),
    ],
)
async def test_eviction_requests_are_judged_by_their_target(operation: str, node: str, uid: str, code: int) -> None:
    body = {"metadata": {"name": "r"}, "spec": {"target": {"pod": {"name": "web", "uid": uid}}}}
    asked = AdmissionRequest(
        uid="u",
        name="r",
        namespace="shop",
        operation=operation,
        resource=RequestResource(group="lifecycle.k8s.io", version="v1alpha1", resource="evictionrequests"),
        user_info=UserInfo(username="driver", extra={NODE_CLAIM: (node,)}),
        object=body if operation == "CREATE" else None,
        old_object=body if operation == "DELETE" else None,
    )
    answer = await judge(Server()).answer(asked)
    assert answer.allowed is not bool(code)
    assert (answer.status.code if answer.status is not None else 0) == code


async def test_what_cannot_be_judged_is_refused_for_now() -> None:
    refused = await judge(Server(away=True)).answer(request("here"))
    assert not refused.allowed
    assert refused.status is not None
    assert refused.status.code == 503


async def test_it_judges_nothing_else() -> None:
    assert not (await judge(Server()).answer(request("here", sub_resource="binding"))).allowed
