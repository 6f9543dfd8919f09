from __future__ import annotations

import json
from typing import Any

import pytest

from kube_fairlead.api import errors
from tests.unit.admission.hookserver import HookServer, allow, configuration, deny, patch, webhook
from tests.unit.admission.plane import Plane, config_map, pod

NAME = "change.example.com"


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


async def install(plane: Plane, hooks: HookServer, **fields: Any) -> None:
    await plane.create(configuration("Mutating", "changes", webhook(NAME, hooks.client_config("change"), **fields)))


async def test_a_patch_changes_what_is_stored(plane: Plane, hooks: HookServer) -> None:
    hooks.on("change", patch(add("/data/added", "yes"), add("/metadata/labels", {"by": "webhook"})))
    await install(plane, hooks)
    options = plane.options()
    made = await plane.create(config_map("a", own="1"), options=options)
    assert made["data"] == {"own": "1", "added": "yes"}
    entry = plane.store.read("configmaps", "work/a")
    assert entry is not None
    assert entry.labels == {"by": "webhook"}
    note = options.audit_annotations["mutation.webhook.admission.k8s.io/round_0_index_0"]
    assert json.loads(note) == {"configuration": "changes", "webhook": NAME, "mutated": True}


async def test_what_a_patch_brings_is_defaulted_and_validated(plane: Plane, hooks: HookServer) -> None:
    sidecar = {"name": "sidecar", "image": "example.com/sidecar"}
    hooks.on("change", patch(add("/spec/containers/-", sidecar)))
    await install(plane, hooks)
    made = await plane.create(pod("a"))
    added = made["spec"]["containers"][1]
    assert added["imagePullPolicy"] == "Always"
    # The plugins before the webhooks had a second look: the new container finds its token too.
    assert added["volumeMounts"][0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert len(made["spec"]["volumes"]) == 1
    hooks.on("change", patch(add("/spec/containers/-", {"name": "Bad Name", "image": "x"})))
    with pytest.raises(errors.Invalid):
        await plane.create(pod("b"))


async def test_each_sees_what_those_before_it_did(plane: Plane, hooks: HookServer) -> None:
    hooks.on("first", patch(add("/data/first", "1")))
    hooks.on("second", patch(add("/data/second", "2")))
    names = ("first", "second")
    # Configurations are asked by name, whatever order they came in.
    for name in reversed(names):
        hook = webhook(f"{name}.example.com", hooks.client_config(name))
        await plane.create(configuration("Mutating", name, hook))
    made = await plane.create(config_map("a", own="0"))
    assert made["data"] == {"own": "0", "first": "1", "second": "2"}
    assert hooks.asked("first")[0]["object"]["data"] == {"own": "0"}
    assert hooks.asked("second")[0]["object"]["data"] == {"own": "0", "first": "1"}


@pytest.mark.parametrize(("policy", "rounds"), [("Never", 1), ("IfNeeded", 2)])
async def test_one_that_wants_it_sees_later_changes(plane: Plane, hooks: HookServer, policy: str, rounds: int) -> None:
    hooks.on("first", allow)
    hooks.on("second", patch(add("/data/second", "2")))
    await plane.create(
        configuration(
            "Mutating",
            "changes",
            webhook("first.example.com", hooks.client_config("first"), reinvocationPolicy=policy),
            webhook("second.example.com", hooks.client_config("second"), reinvocationPolicy=policy),
        )
    )
    await plane.create(config_map("a", own="0"))
    seen = [request["object"]["data"] for request in hooks.asked("first")]
    assert seen == [{"own": "0"}, {"own": "0", "second": "2"}][:rounds]
    # Nothing changed after the second had spoken, so it is not asked again.
    assert len(hooks.asked("second")) == 1


async def test_nobody_is_asked_again_when_nothing_changed(plane: Plane, hooks: HookServer) -> None:
    hooks.on("change", patch({"op": "replace", "path": "/data/own", "value": "0"}))
    await install(plane, hooks, reinvocationPolicy="IfNeeded")
    await plane.create(config_map("a", own="0"))
    assert len(hooks.reviews) == 1


async def test_a_denial_ends_it(plane: Plane, hooks: HookServer) -> None:
    hooks.on("change", deny("not today", code=403, reason="Forbidden"))
    await install(plane, hooks)
    with pytest.raises(errors.Forbidden) as raised:
        await plane.create(config_map("a"))
    assert raised.value.message == f'admission webhook "{NAME}" denied the request: not today'


def encoded(text: str) -> Any:
    return lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": text}


UNUSABLE: list[tuple[Any, str]] = [
    (encoded("!"), "failed to call webhook: illegal base64 data at input byte 0"),
    (encoded("eA=="), "received undecodable patch in webhook response: "),
    (encoded("e30="), "received undecodable patch in webhook response: json: cannot unmarshal object"),
    (lambda _: {"allowed": True, "patch": "W10="}, "webhook returned response.patch but not response.patchType"),
    (
        lambda _: {"allowed": True, "patchType": "JSONPatch"},
        "webhook returned response.patchType but not response.patch",
    ),
    (
        lambda _: {"allowed": True, "patchType": "MergePatch", "patch": "W3t9XQ=="},
        'unsupported patch type "MergePatch"',
    ),
]


@pytest.mark.parametrize(("behaviour", "why"), UNUSABLE)
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_an_unusable_patch_is_a_failed_call(
    plane: Plane, hooks: HookServer, behaviour: Any, why: str, policy: str
) -> None:
    hooks.on("change", behaviour)
    await install(plane, hooks, failurePolicy=policy)
    if policy == "Fail":
        with pytest.raises(errors.InternalError) as raised:
            await plane.create(config_map("a"))
        assert why in raised.value.message
    else:
        options = plane.options()
        await plane.create(config_map("a"), options=options)
        assert options.audit_annotations["failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"] == NAME


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "remove", "path": "/data/missing"}],
        [add("/metadata", "text")],
        [add("/metadata/labels", ["a"])],
        [add("/data", [1])],
        [add("/kind", "Secret")],
        [{"op": "remove", "path": "/metadata"}],
    ],
)
async def test_a_patch_that_does_not_fit_is_an_error_whatever_the_policy(
    plane: Plane, hooks: HookServer, operations: list[Any]
) -> None:
    hooks.on("change", patch(*operations))
    await install(plane, hooks, failurePolicy="Ignore")
    with pytest.raises(errors.InternalError):
        await plane.create(config_map("a", own="0"))


async def test_what_is_the_servers_stays_the_servers(plane: Plane, hooks: HookServer) -> None:
    hooks.on(
        "change",
        patch(
            add("/metadata/uid", "fake"),
            add("/metadata/resourceVersion", "1"),
            add("/data/added", "yes"),
        ),
    )
    await install(plane, hooks)
    made = await plane.create(config_map("a"))
    assert made["metadata"]["uid"] != "fake"
    assert made["data"] == {"added": "yes"}
    assert "uid" not in hooks.asked("change")[0]["object"]["metadata"]
    hooks.on("change", patch(add("/metadata/namespace", "elsewhere")))
    with pytest.raises(errors.BadRequest, match="does not match the namespace sent on the request"):
        await plane.create(config_map("b"))


async def test_a_delete_cannot_be_patched(plane: Plane, hooks: HookServer) -> None:
    await plane.create(config_map("a"))
    hooks.on("change", patch(add("/data/x", "y")))
    await install(plane, hooks)
    with pytest.raises(errors.InternalError) as raised:
        await plane.delete("ConfigMap", "a", namespace="work")
    assert raised.value.message == (
        f'Internal error occurred: admission webhook "{NAME}" attempted to modify the object, '
        "which is not supported for this operation"
    )


async def test_a_webhook_that_changes_a_spec_counts_as_a_generation(plane: Plane, hooks: HookServer) -> None:
    await plane.create(pod("a"))
    hooks.on("change", patch(add("/spec/activeDeadlineSeconds", 60)))
    await install(plane, hooks)
    changed = await plane.change("Pod", "a", lambda obj: obj["metadata"].update(labels={"x": "y"}), namespace="work")
    assert changed["spec"]["activeDeadlineSeconds"] == 60
    assert changed["metadata"]["generation"] == 2
