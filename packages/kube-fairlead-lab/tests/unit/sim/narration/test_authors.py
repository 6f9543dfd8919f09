from __future__ import annotations

import pytest

from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.commits import NODES, PODS, Commit
from kube_fairlead_lab.sim.narration.authors import Authors
from kube_fairlead_lab.sim.narration.write_log import Write


def write(party: str, verb: str, *, table: str = NODES, name: str = "", answer: Response | None = None) -> Write:
    namespace = "default" if table == PODS else ""
    info = RequestInfo(path="", verb=verb, is_resource=True, resource=table, namespace=namespace, name=name)
    return Write(party, info, answer, ended=-1 if answer is None else 100)


def stored(revision: int) -> Response:
    return Response(200, b'{"metadata":{"resourceVersion":"%d"}}' % revision)


def change(revision: int, key: str, *, table: str = NODES, is_new: bool = False) -> Commit:
    return Commit(revision, table, key, None if is_new else {}, {}, 1.0)


@pytest.mark.parametrize(
    ("writes", "commit", "author"),
    [
        ([write("a", "patch", name="n")], change(5, "n"), "a"),
        ([write("a", "patch", name="m")], change(5, "n"), "apiserver"),
        (
            [write("a", "patch", name="n", answer=stored(4)), write("b", "patch", name="n", answer=stored(5))],
            change(5, "n"),
            "b",
        ),
        (
            [write("a", "patch", name="n", answer=stored(4)), write("b", "patch", name="n")],
            change(5, "n"),
            "b",
        ),
        (
            [write("a", "update", name="n", answer=Response(409)), write("b", "delete", name="n", answer=stored(4))],
            change(5, "n"),
            "b",
        ),
        ([write("a", "patch", name="n"), write("b", "patch", name="n")], change(5, "n"), "a or b"),
        ([write("a", "create", table=PODS)], change(5, "default/p", table=PODS, is_new=True), "a"),
        ([write("a", "create", table=PODS)], change(5, "default/p", table=PODS), "apiserver"),
        ([write("a", "patch", name="n", answer=Response(499))], change(5, "n"), "a"),
        ([write("a", "patch", name="n", answer=Response(500))], change(5, "n"), "a"),
        ([write("a", "patch", name="n", answer=Response(500)), write("b", "patch", name="n")], change(5, "n"), "b"),
    ],
)
def test_the_author_of_a_commit(writes: list[Write], commit: Commit, author: str) -> None:
    authors = Authors()
    for one in writes:
        authors.begun(0.5, one)
    assert authors.of(commit, 50) == author


def test_a_finished_request_is_no_author() -> None:
    authors = Authors()
    answered = write("a", "patch", name="n", answer=Response(200))
    authors.begun(0.5, answered)
    assert authors.of(change(5, "n"), 99) == "a"
    assert authors.of(change(6, "n"), 100) == "apiserver"
    authors.begun(0.5, write("b", "patch", name="n"))
    authors.server_died()
    assert authors.of(change(7, "n"), 101) == "apiserver"
