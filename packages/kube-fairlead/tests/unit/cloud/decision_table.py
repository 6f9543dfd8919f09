"""Every decision there is: providerID x annotation x platforms x controller, by the functions that controllers use.

`python -m tests.unit.cloud.decision_table` writes docs/ownership.md anew.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import ipaddress
import itertools
import pathlib
from collections.abc import Iterator

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.decisions.initialisation import AskCloud, Relabel, first_step
from kube_fairlead.cloud.decisions.lifecycle import FirstLook, Limits, first_look, judge
from kube_fairlead.cloud.decisions.routes import plan_routes
from kube_fairlead.cloud.decisions.services import balanced_nodes
from kube_fairlead.cloud.ownership import Ownership, owned_by_id, ownership, platform_of_provider_id
from kube_fairlead.cloud.provider import Instance, Route
from tests.unit.cloud.world import UNINITIALIZED, node

PAGE = pathlib.Path(__file__).parents[5] / "docs" / "ownership.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

PROVIDER_IDS = ("", "aws:///z/i-1", "gce://p/z/n1", "aws-cn://i-1", "AWS://i-1", "aws:/i-1", "://i-1")
ANNOTATIONS = (None, "", "aws", "gce")
PLATFORMS = (frozenset[str](), frozenset({"aws"}), frozenset({"aws", "gce"}))

COLUMNS = (
    "platforms",
    "providerID",
    "annotation",
    "the node is",
    "new (uninitialised)",
    "initialised",
    "not Ready, missing in the cloud",
    "not Ready, shut down",
    "route controller",
    "service controller",
)

_NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_LONG_AGO = _NOW - dt.timedelta(hours=1)
_CLUSTER = [ipaddress.ip_network("10.244.0.0/16")]
_CIDR = "10.244.1.0/24"


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table."""

    provider_id: str
    annotation: str | None
    platforms: frozenset[str]
    whose: Ownership
    new: str  # the node controller, about a node that waits to be initialised
    known: str  # the node controller, about one that does not
    missing: str  # node lifecycle: not Ready, and the cloud's answer does not have it
    shut_down: str  # node lifecycle: not Ready, and the cloud says that it is shut down
    route: str  # the route controller, about a node with a pod range and a route that leads elsewhere
    service: str  # the service controller, about its place behind load balancers


def rows() -> Iterator[Row]:
    for platforms, provider_id, annotation in itertools.product(PLATFORMS, PROVIDER_IDS, ANNOTATIONS):
        yield _row(provider_id, annotation, platforms)


def _row(provider_id: str, annotation: str | None, platforms: frozenset[str]) -> Row:
    def make(**more: object) -> Node:
        return node("n1", provider_id, platform=annotation, creation_timestamp=_LONG_AGO, **more)  # type: ignore[arg-type]  # as `node` takes them

    return Row(
        provider_id=provider_id,
        annotation=annotation,
        platforms=platforms,
        whose=ownership(make(), platforms),
        new=_new(make(taints=[UNINITIALIZED]), platforms),
        known=_known(make(), platforms),
        missing=_missing(make(ready="False"), platforms),
        shut_down=_shut_down(make(ready="False"), platforms),
        route=_route(make(pod_cidrs=[_CIDR]), platforms),
        service="a target" if balanced_nodes([make()], platforms, _confirmed) else "no target",
    )


def _confirmed(_node: Node) -> bool:
    """The cloud knows every id that it is asked about."""
    return True


def _new(made: Node, platforms: frozenset[str]) -> str:
    if not isinstance(first_step(made, platforms), AskCloud):
        return "left alone"
    whose = ownership(made, platforms)
    return "initialised" if whose is Ownership.OWNED else "initialised if the cloud answers for it"


def _known(made: Node, platforms: frozenset[str]) -> str:
    step = first_step(made, platforms)
    if isinstance(step, Relabel):
        return f"label platform={step.labels[wellknown.LABEL_PLATFORM]}"
    return "addresses kept right" if owned_by_id(made, platforms) else "left alone"


def _missing(made: Node, platforms: frozenset[str]) -> str:
    others = [node(f"{scheme}-{number}", f"{scheme}://{number}") for scheme in ("aws", "gce") for number in range(20)]
    look = _look([made, *others], platforms)
    verdict = judge(look, {}, Limits())
    if made in verdict.confirm:
        return "deleted once that id is gone"
    return "left alone, no id" if made in look.ask else "left alone"


def _look(nodes: list[Node], platforms: frozenset[str]) -> FirstLook:
    # The provider is Amazon's, or one for both.
    recognised = platforms or {"aws"}
    return first_look(
        nodes, platforms, _NOW, Limits(), recognises=lambda one: platform_of_provider_id(one) in recognised
    )


def _shut_down(made: Node, platforms: frozenset[str]) -> str:
    look = _look([made], platforms)
    verdict = judge(look, {"n1": Instance(provider_id="x://1", shutdown=True)} if look.ask else {}, Limits())
    return "tainted" if made in verdict.taint else "left alone"


def _route(made: Node, platforms: frozenset[str]) -> str:
    elsewhere = Route(destination_cidr=_CIDR, target_node="elsewhere")
    plan = plan_routes(
        [made], [elsewhere], platforms=platforms, is_confirmed=_confirmed, cluster_cidrs=_CLUSTER, ours={_CIDR}
    )
    if plan.make and plan.remove:
        return "its route is made, the other removed"
    return "its routes are left alone" if not plan.make and not plan.remove else "?"


def render() -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [
        f"| {_code(','.join(sorted(row.platforms)), 'none')} | {_code(row.provider_id, 'none')} | "
        f"{'absent' if row.annotation is None else _code(row.annotation, 'empty')} | **{row.whose}** | {row.new} | "
        f"{row.known} | {row.missing} | {row.shut_down} | {row.route} | {row.service} |"
        for row in rows()
    ]
    return "\n".join(lines)


def _code(text: str, otherwise: str) -> str:
    return f"`{text}`" if text else otherwise


def on_page(page: str) -> str:
    """The table that a page shows."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{render()}\n\n{END}{after}", encoding="utf-8")
