from __future__ import annotations

import datetime as dt
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kube_fairlead.driverapi import codec, contracts, errors
from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo, PodReport, Progress, Reached, Work

PROTO = pathlib.Path(__file__).parents[5] / "proto"
FIELD = re.compile(r"^\s*(?:repeated\s+)?[\w.<>, ]+\s+(\w+)\s*=\s*(\d+);", re.MULTILINE)
# These are compiled for the shutdown manager and for clouds, which are held against them elsewhere.
ELSEWHERE = (PROTO / "runtime", PROTO / "fairlead" / "cloud")
FILES = sorted(file for file in PROTO.rglob("*.proto") if not any(one in file.parents for one in ELSEWHERE))
METHOD = re.compile(r"rpc (\w+)\((\w+)\) returns \((stream )?(\w+)\)")


def blocks(text: str, word: str) -> dict[str, str]:
    """The messages or services of a file, each with the text up to its closing brace in the first column."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"^(message \w+) {}$", r"\1 {\n}", text, flags=re.MULTILINE)
    return dict(re.findall(rf"^{word} (\w+) {{(.*?)^}}$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_descriptors_are_those_of_the_files(file: pathlib.Path) -> None:
    text = file.read_text(encoding="utf-8")
    found = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
    assert found is not None
    package = found[1]
    for name, body in blocks(text, "message").items():
        descriptor = contracts.message(f"{package}.{name}").DESCRIPTOR
        written = {
            field: int(number) for field, number in FIELD.findall(re.sub(r"enum.*?}", "", body, flags=re.DOTALL))
        }
        assert {field.name: field.number for field in descriptor.fields} == written, "run `make proto`"
    for name, body in blocks(text, "service").items():
        for method, request, _, answer in METHOD.findall(body):
            request_type, answer_type = contracts.method_types(f"{package}.{name}", method)
            assert (request_type.DESCRIPTOR.name, answer_type.DESCRIPTOR.name) == (request, answer)


def test_registration_is_the_kubelets() -> None:
    info = codec.encode_info(PluginInfo(type="a", name="b", endpoint="c", supported_versions=("d", "e")))
    assert info.SerializeToString() == b"\x0a\x01a\x12\x01b\x1a\x01c\x22\x01d\x22\x01e"
    assert contracts.REGISTRATION_SERVICE == "pluginregistration.Registration"


names = st.text(max_size=20)
moments = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(9999, 1, 1), timezones=st.just(dt.UTC))  # noqa: DTZ001 - bounds of aware ones
works = st.builds(
    Work,
    event_uid=names,
    event_name=names,
    node_name=names,
    node_uid=names,
    transition_name=names,
    start=names,
    end=names,
    options=st.dictionaries(names, names, max_size=4),
    deadline=st.none() | moments,
)


@given(works)
def test_work_survives_the_wire(work: Work) -> None:
    message = contracts.message("fairlead.lifecycle.v1alpha1.Work")
    assert codec.decode_work(message.FromString(codec.encode_work(work).SerializeToString())) == work


def test_a_far_deadline_keeps_its_microseconds() -> None:
    far = dt.datetime(4148, 1, 1, 0, 0, 0, 999993, tzinfo=dt.UTC)
    names = {"event_name": "e", "node_name": "n", "transition_name": "t", "start": "a", "end": "z"}
    work = Work(event_uid="u", node_uid="v", deadline=far, **names)  # type: ignore[arg-type]  # all of them are text
    assert codec.decode_work(codec.encode_work(work)).deadline == far


SELECTOR = NodeSelector(
    node_selector_terms=(
        NodeSelectorTerm(
            match_expressions=(NodeSelectorRequirement(key="zone", operator="In", values=("a", "b")),),
            match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=("n",)),),
        ),
        NodeSelectorTerm(),
    )
)


@pytest.mark.parametrize(
    "offered",
    [
        OfferedTransition(name="a", start="b", end="c"),
        OfferedTransition(name="a", start="b", end="c", sla="5m", node_name="n"),
        OfferedTransition(name="a", start="b", end="c", node_selector=SELECTOR),
    ],
)
def test_offered_transitions_survive_the_wire(offered: OfferedTransition) -> None:
    assert codec.decode_transitions(codec.encode_transitions([offered])) == [offered]


def test_nodes_that_make_no_sense() -> None:
    answer = contracts.message("fairlead.lifecycle.v1alpha1.GetTransitionsResponse")()
    answer.transitions.add(name="x", all_nodes=False)
    with pytest.raises(errors.DriverMisbehaved, match="all_nodes"):
        codec.decode_transitions(answer)
    answer.transitions[0].node_name = ""
    with pytest.raises(errors.DriverMisbehaved, match="empty node_name"):
        codec.decode_transitions(answer)
    answer.transitions[0].ClearField("node_name")
    assert codec.decode_transitions(answer)[0].node_name == ""


@pytest.mark.parametrize(("done", "total"), [(-1, 0), (0, -1), (1 << 62, 0)])
def test_progress_that_is_none(done: int, total: int) -> None:
    message = contracts.message("fairlead.lifecycle.v1alpha1.Progress")(done=done, total=total)
    with pytest.raises(errors.DriverMisbehaved):
        codec.decode_progress(message)


@pytest.mark.parametrize("pod", [{"uid": "1"}, {"name": "web"}, {"name": "web", "uid": "1", "attempts": -1}])
def test_a_pod_that_is_none(pod: dict[str, object]) -> None:
    message = contracts.message("fairlead.lifecycle.v1alpha1.Progress")()
    message.pods.add(**pod)
    with pytest.raises(errors.DriverMisbehaved):
        codec.decode_progress(message)


def test_the_rest_survives_the_wire() -> None:
    pods = (PodReport(namespace="shop", name="web", uid="1", state="Blocked", attempts=2, blocked_by="a budget"),)
    progress = Progress(done=1, total=2, unit="pods", message="m", pods=pods)
    assert codec.decode_progress(codec.encode_progress(progress)) == progress
    reached = Reached(state="s", node_name="n")
    assert codec.decode_reached(codec.encode_reached(reached)) == reached
    info = PluginInfo(type="t", name="n", endpoint="e", supported_versions=("v",))
    assert codec.decode_info(codec.encode_info(info)) == info
