"""What the drain driver does to a node and its pods."""

from __future__ import annotations

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.policy_v1 import PodDisruptionBudget
from kube_fairlead.api.reserved import ANNOTATION_CORDONED_BY, NODE_UNCORDON
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.transport import Request
from tests.unit.drivers.drain.world import NODE, SHOP, World


async def test_pods_go_and_the_node_is_cordoned(here: World) -> None:
    for name in ("a", "b"):
        await here.pod(name)
    await here.pod("elsewhere", node="node-2")
    life = await here.drain()
    assert life.outcome == "done"
    assert sorted(here.gone) == ["a", "b"]
    assert life.front.asked == ["a 201", "b 201"]
    node = await here.nodes.get(NODE)
    assert node.spec.unschedulable
    assert node.metadata.annotations[ANNOTATION_CORDONED_BY] == "drain-1"
    assert life.counts == (2, 2)
    assert (life.progress[0].done, life.progress[0].total) == (0, 2)


async def test_what_stays_stays(here: World) -> None:
    await here.pod("daemon", owner="daemonset")
    await here.pod("mirror", owner="", annotations={"kubernetes.io/config.mirror": "x"})
    await here.pod("web")
    life = await here.drain()
    assert life.outcome == "done"
    assert await here.left() == ["daemon", "mirror"]


async def test_a_refusal_touches_nothing(here: World) -> None:
    await here.pod("bare", owner="")
    await here.pod("web")
    life = await here.drain(force="false")
    assert life.outcome == "cannot delete Pods that declare no controller (use --force to override): shop/bare"
    assert await here.left() == ["bare", "web"]
    assert life.front.asked == []
    assert not (await here.nodes.get(NODE)).spec.unschedulable


async def test_a_bad_option_touches_nothing(here: World) -> None:
    await here.pod("web")
    life = await here.drain(forse="true")
    assert life.outcome.startswith("unknown option forse")
    assert await here.left() == ["web"]


async def test_the_grace_of_the_options_counts(here: World) -> None:
    await here.pod("web", grace=600)
    life = await here.drain(grace_period="3", seconds=10)
    assert life.outcome == "done"


async def test_a_longer_grace_under_way_is_shortened_once(here: World) -> None:
    await here.pod("web", grace=600)
    here.kubelet_works = False
    await here.pods.delete("web", namespace=SHOP)
    await here.clock.settle()  # the kubelet sees the deletion while it does not work
    here.kubelet_works = True
    life = await here.drain(grace_period="3", seconds=1)
    assert life.front.asked == ["web 201"]
    assert (await here.pods.get("web", namespace=SHOP)).metadata.deletion_grace_period_seconds == 3
    await here.clock.advance(60)
    assert life.outcome == "done"
    assert life.front.asked == ["web 201"]


async def test_only_selected_pods_go(here: World) -> None:
    await here.pod("web", labels={"app": "web"})
    await here.pod("db", labels={"app": "db"})
    life = await here.drain(pod_selector="app=web")
    assert life.outcome == "done"
    assert await here.left() == ["db"]


async def test_deletion_instead_of_eviction_asks_no_budget(here: World) -> None:
    await here.pod("web", labels={"app": "web"})
    await here.budget("web", {"app": "web"}, minAvailable=1)
    life = await here.drain(disable_eviction="true")
    assert life.outcome == "done"
    assert life.front.asked == ["web 200"]


async def test_a_budget_blocks_and_its_own_status_wakes(here: World) -> None:
    await here.pod("web-1", labels={"app": "web"})
    await here.pod("db-1")
    await here.budget("web", {"app": "web"}, minAvailable=1)
    life = await here.drain(seconds=4)
    assert await here.left() == ["db-1", "web-1"]
    assert "blocked: shop/web-1 by budget shop/web (The disruption budget web needs 1 healthy pods and has 1" in (
        life.message
    )
    assert life.front.asked == ["db-1 201"]  # the budget's own status said that asking was pointless
    await here.pod("web-2", labels={"app": "web"}, node="node-2")
    await here.clock.advance(0.5)  # no fallback is due yet: this is the budget's doing
    assert life.front.asked == ["db-1 201", "web-1 201"]
    await here.clock.advance(10)
    assert life.outcome == "done"
    assert await here.left("node-2") == ["web-2"]


async def test_blocked_pods_are_not_asked_in_a_hot_loop(here: World) -> None:
    for number in range(5):
        await here.pod(f"web-{number}", labels={"app": "web"})
    await here.budget("web", {"app": "web"}, minAvailable=5)
    life = await here.drain(seconds=600)
    assert not life.task.done()
    # One pod in five finds out, twice a minute at most: kubectl would have sent 600 requests.
    assert len(life.front.asked) <= 30
    assert {asked.split()[1] for asked in life.front.asked} == {"429"}
    await life.kill()


async def test_two_budgets_on_one_pod_are_told_of_and_waited_out(here: World) -> None:
    await here.pod("web-1", labels={"app": "web"})
    for name in ("one", "two"):
        await here.budget(name, {"app": "web"}, maxUnavailable=1)
    life = await here.drain(seconds=3)
    assert "shop/web-1 by 2 budgets at once, shop/one, shop/two" in life.message
    await here.admin.of(PodDisruptionBudget).delete("two", namespace=SHOP)
    await here.clock.advance(20)
    assert life.outcome == "done"


async def test_a_webhook_that_denies_for_now_is_asked_again(here: World) -> None:
    await here.pod("kafka-0", owner="statefulset")
    await here.pod("web")
    denials: list[api_errors.ApiError] = [
        *[api_errors.InternalError("admission webhook denied the request: broker moves first")] * 3,
        api_errors.TooManyRequests("admission webhook denied the request: wait"),
    ]

    def webhook(request: Request) -> api_errors.ApiError | None:
        return denials.pop() if request.path.endswith("kafka-0/eviction") and denials else None

    life = here.begin(await here.work(), answer=webhook)
    await here.clock.advance(0.3)
    assert "shop/kafka-0 by an error that is retried (admission webhook denied" in life.message
    await here.clock.advance(60)
    assert life.outcome == "done"
    assert [asked for asked in life.front.asked if asked.startswith("kafka")] == [
        "kafka-0 429",
        "kafka-0 500",
        "kafka-0 500",
        "kafka-0 500",
        "kafka-0 201",
    ]


async def test_a_pod_that_may_never_go_fails_the_drain_after_the_others_went(here: World) -> None:
    await here.pod("locked")
    await here.pod("web")

    def webhook(request: Request) -> api_errors.ApiError | None:
        return api_errors.Forbidden("no way") if request.path.endswith("locked/eviction") else None

    life = here.begin(await here.work(), answer=webhook)
    await here.clock.advance(60)
    assert life.outcome == "pods are left on the node: shop/locked (no way)"
    assert await here.left() == ["locked"]
    assert life.counts == (1, 2)


async def test_a_pod_that_moved_is_not_chased(here: World) -> None:
    """kubernetes#138229: the retry of kubectl takes the pod of the same name for the one it knew."""
    await here.pod("db-0", owner="statefulset", labels={"app": "db"})
    await here.budget("db", {"app": "db"}, minAvailable=1)
    life = await here.drain(seconds=2)
    await here.pods.delete("db-0", namespace=SHOP, grace_period_seconds=0)
    await here.pod("db-0", owner="statefulset", labels={"app": "db"}, node="node-2")
    await here.clock.advance(60)
    assert life.outcome == "done"
    moved = await here.pods.get("db-0", namespace=SHOP)
    assert moved.spec.node_name == "node-2"
    assert not moved.deleting


async def test_a_pod_that_comes_back_under_its_name_is_another_one(here: World) -> None:
    await here.pod("db-0", owner="statefulset", labels={"app": "db"})
    await here.pod("slow", grace=30)
    first = await here.pods.get("db-0", namespace=SHOP)
    life = here.begin(await here.work())
    await here.clock.advance(1)
    await here.pods.delete("db-0", namespace=SHOP, grace_period_seconds=0, uid=first.uid)
    await here.pod("db-0", owner="statefulset", labels={"app": "db"})
    await here.clock.advance(60)
    assert life.outcome == "done"
    assert life.front.asked == ["db-0 201", "slow 201", "db-0 201"]
    assert life.counts == (3, 3)


async def test_a_pod_that_arrives_during_the_drain_goes_too(here: World) -> None:
    await here.pod("slow", grace=30)
    life = await here.drain(seconds=3)
    await here.pod("late")
    await here.clock.advance(60)
    assert life.outcome == "done"
    assert sorted(here.gone) == ["late", "slow"]


async def test_a_late_pod_that_the_filters_refuse_fails_the_drain_in_the_end(here: World) -> None:
    await here.pod("slow", grace=30)
    life = await here.drain(seconds=3, force="false")
    await here.pod("late", owner="")
    await here.clock.advance(60)
    assert life.outcome == (
        "pods are left on the node: shop/late (Pods that declare no controller (use --force to override))"
    )
    assert await here.left() == ["late"]


async def test_a_stuck_pod_is_told_of_with_its_finalizers(here: World) -> None:
    await here.pod("stuck", finalizers=["example.com/held"])
    life = await here.drain(seconds=60)
    assert not life.task.done()
    assert "shop/stuck should have ended by 2026-03-01T12:00:" in life.message
    assert "finalizers example.com/held" in life.message
    await here.pods.patch("stuck", MergePatch({"metadata": {"finalizers": None}}), namespace=SHOP)
    await here.clock.advance(1)
    assert life.outcome == "done"


async def test_a_stuck_pod_may_be_given_up(here: World) -> None:
    await here.pod("stuck", finalizers=["example.com/held"])
    life = await here.drain(seconds=120, skip_wait_for_delete_timeout="20")
    assert life.outcome == "done"
    assert await here.left() == ["stuck"]


async def test_an_unreachable_node_is_named_as_the_cause(here: World) -> None:
    here.kubelet_works = False
    await here.pod("web")
    condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-03-01T11:50:00Z"}
    await here.nodes.patch(NODE, MergePatch({"status": {"conditions": [condition]}}), subresource="status")
    life = await here.drain(seconds=60)
    assert "its kubelet has not reported since 2026-03-01T11:50:00Z" in life.message
    await life.kill()


async def test_the_timeout_counts_from_the_claim_and_names_what_is_left(here: World) -> None:
    await here.pod("web", labels={"app": "web"})
    await here.budget("web", {"app": "web"}, minAvailable=1)
    life = await here.drain(seconds=31, timeout="30s")
    assert life.outcome.startswith("timed out after 30s with 1 pods left: shop/web; blocked: shop/web by budget")


async def test_a_terminating_namespace(here: World) -> None:
    await here.pod("web")
    closing = api_errors.Forbidden(
        "namespace shop is being terminated", details={"causes": [{"reason": "NamespaceTerminating"}]}
    )
    answers = [closing] * 3
    life = here.begin(
        await here.work(),
        answer=lambda request: answers.pop() if answers and request.path.endswith("/eviction") else None,
    )
    await here.clock.advance(0.1)
    assert "because its namespace is being deleted" in life.message
    await here.clock.advance(60)
    assert life.outcome == "done"


async def test_busy_servers_are_asked_again(here: World) -> None:
    for number in range(40):
        await here.pod(f"web-{number}")
    busy = [api_errors.TooManyRequests("too many requests, please try again later")] * 60
    life = here.begin(
        await here.work(),
        answer=lambda request: busy.pop() if busy and request.path.endswith("/eviction") else None,
    )
    await here.clock.advance(120)
    assert life.outcome == "done"
    assert await here.left() == []


async def test_lower_priorities_go_first(here: World) -> None:
    for name, priority in (("high", 1000), ("low", 0)):
        body = {"metadata": {"name": name}, "value": priority}
        await here.admin.of(GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")).create(body)
        await here.pod(name, spec={"priorityClassName": name})
    life = await here.drain(priority_groups="0,1000", seconds=4)
    assert life.front.asked == ["low 201"]
    await here.clock.advance(60)
    assert life.outcome == "done"
    assert here.gone == ["low", "high"]


async def test_an_orphan_of_a_daemonset_goes_by_force_only(here: World) -> None:
    await here.pod("orphan", owner="daemonset")
    await here.admin.of(GroupVersionResource("apps", "v1", "daemonsets")).delete(
        "ds", namespace=SHOP, propagation_policy="Orphan"
    )
    await here.clock.advance(5)
    # Its reference is gone with the orphaning: it is a pod without a controller now.
    life = await here.drain(force="false", ignore_daemonsets="true")
    assert "Pods that declare no controller" in life.outcome


@pytest.mark.parametrize("replaced", [False, True])
async def test_another_node_of_the_name_is_not_drained(here: World, replaced: bool) -> None:
    await here.pod("slow", grace=60)
    life = await here.drain(seconds=3)
    await here.nodes.delete(NODE)
    if replaced:
        await here.nodes.create(Node(metadata=ObjectMeta(name=NODE)))
    await here.clock.advance(3)
    assert life.outcome in {
        f"node {NODE} was deleted while it was drained",
        f"node {NODE} was replaced by another of the same name while it was drained",
    }


@pytest.mark.parametrize(
    "error",
    [
        # The webhook that guards evictions knows before the watch tells that the pod has moved.
        api_errors.Conflict("admission webhook denied the request: the pod that was meant has gone"),
        api_errors.Unauthorized("Unauthorized"),
    ],
)
async def test_an_answer_that_only_passes_does_not_end_the_drain(here: World, error: api_errors.ApiError) -> None:
    await here.pod("sts-0", owner="statefulset", grace=0)
    answers = [error]

    def answer(request: Request) -> api_errors.ApiError | None:
        return answers.pop() if request.path.endswith("/eviction") and answers else None

    life = here.begin(await here.work(), answer=answer)
    await here.clock.advance(60)
    assert life.outcome == "done"


class TestCordons:
    async def test_our_own_is_undone(self, here: World) -> None:
        await here.drain()
        assert await here.uncordon() == "done"
        node = await here.nodes.get(NODE)
        assert not node.spec.unschedulable
        assert ANNOTATION_CORDONED_BY not in node.metadata.annotations

    async def test_somebody_elses_is_not(self, here: World) -> None:
        await here.cordon()
        assert (await here.drain()).outcome == "done"
        refused = await here.uncordon()
        assert refused.startswith(f"node {NODE} was not cordoned by Fairlead")
        assert (await here.nodes.get(NODE)).spec.unschedulable
        life = here.begin(await here.work(event="uncordon-2", transition=NODE_UNCORDON, force="true"))
        await here.clock.advance(1)
        assert life.outcome == "done"
        assert not (await here.nodes.get(NODE)).spec.unschedulable

    async def test_nobodys_needs_no_undoing(self, here: World) -> None:
        assert await here.uncordon() == "done"

    async def test_a_drain_stops_when_somebody_uncordons(self, here: World) -> None:
        await here.pod("slow", grace=60)
        life = await here.drain(seconds=3)
        await here.cordon(unschedulable=False)
        await here.clock.advance(1)
        assert life.outcome == f"node {NODE} was uncordoned during the drain, so the drain stopped"
        assert ANNOTATION_CORDONED_BY not in (await here.nodes.get(NODE)).metadata.annotations

    async def test_a_mark_that_outlived_its_cordon_does_not_make_the_next_one_ours(self, here: World) -> None:
        await here.drain(seconds=5)
        await here.cordon(unschedulable=False)  # nobody of us looks: the drain is over
        assert ANNOTATION_CORDONED_BY in (await here.nodes.get(NODE)).metadata.annotations
        await here.cordon()
        refused = await here.uncordon()
        assert refused.startswith(f"node {NODE} was not cordoned by Fairlead")
        assert (await here.nodes.get(NODE)).spec.unschedulable

    async def test_a_cordon_after_a_mark_that_outlived_its_own_is_ours_again(self, here: World) -> None:
        await here.drain(seconds=5)
        await here.cordon(unschedulable=False)
        again = here.begin(await here.work())  # for the same event, so that the mark says the same
        await here.clock.advance(5)
        assert again.outcome == "done"
        assert await here.uncordon() == "done"
        assert not (await here.nodes.get(NODE)).spec.unschedulable

    async def test_others_who_write_to_a_node_do_not_take_its_cordon(self, here: World) -> None:
        await here.drain(seconds=5)
        await here.cordon()  # as it is: this changes nothing
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        await here.nodes.patch(NODE, MergePatch({"metadata": {"labels": {"a": "b"}}, "spec": {"taints": [taint]}}))
        assert await here.uncordon() == "done"

    async def test_a_cordon_survives_others_who_write_at_the_same_time(self, here: World) -> None:
        writes = 0

        def somebody(request: Request, when: str) -> bool:
            nonlocal writes
            if request.method == "PATCH" and when == "before" and writes < 3:
                writes += 1
                here.scope.start(
                    here.nodes.patch(NODE, MergePatch({"metadata": {"labels": {"n": str(writes)}}})), name="other"
                )
            return False

        life = here.begin(await here.work(), fate=somebody)
        await here.clock.advance(5)
        assert life.outcome == "done"
        assert (await here.nodes.get(NODE)).spec.unschedulable
