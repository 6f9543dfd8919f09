"""What a path means: to the authorizer (whose refusals name verb, resource, group and namespace) and to the server."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

import pytest

from kube_fairlead_lab.testing.control_plane import ADMIN
from kube_fairlead_lab.testing.wire import WireAnswer, WireApi
from tests.parity import paths
from tests.parity.conftest import Planes

pytestmark = [pytest.mark.kube, pytest.mark.usefixtures("defined")]

BODIES = {"POST": "application/json", "PUT": "application/json", "PATCH": "application/merge-patch+json"}
# Answers whose text says which object, or that there is no such path.
TOLD = {403, 404, 405}
USERS = (ADMIN, "bob")
NAMESPACED = "pods|configmaps|serviceaccounts|deployments|controllerrevisions|roles|leases"
NO_SUCH_PATH = "the server could not find the requested resource"


def send(api: WireApi, method: str, path: str) -> WireAnswer:
    headers = {"Content-Type": BODIES[method]} if method in BODIES else {}
    return api.send(method, f"{path}?dryRun=All", b"{}" if method in BODIES else None, headers)


def summary(answer: WireAnswer) -> tuple[int, str]:
    """What is compared. Which of its faults a body is refused for first is not."""
    code = 400 if answer.code in {422, 500} else answer.code
    # Of a path that no part of it knows, kube-apiserver says so in plain text.
    missing = NO_SUCH_PATH if code == 404 and not answer.status else ""
    return code, (answer.message or missing) if code in TOLD else ""


def decided(method: str, path: str) -> int | None:
    """Where this server is stricter on purpose (docs/differences.md): the code that it answers an administrator."""
    custom = f"/{paths.GROUP}/" in path
    if custom and "/watch/" in path and method != "GET":
        return 405  # there, any method opens a watch
    if custom and method == "POST" and path.rstrip("/").endswith("/absent"):
        return 405  # there, what the body names is created, whatever name was authorised
    if method == "DELETE" and re.search(rf"/v1/namespaces//({NAMESPACED})$", path):
        return 400  # there, the objects of every namespace go
    if method == "POST" and re.search(r"/namespaces/absent/(pods/absent/eviction|pods/absent/binding|bindings)$", path):
        return 400  # the body is looked at before the namespace
    return None


def compare(planes: Planes, user: str, cases: Iterable[tuple[str, str]]) -> list[str]:
    """Each case that is answered otherwise than by kube-apiserver."""
    different = []
    with WireApi(planes.kube.access(user)) as kube, WireApi(planes.embedded.access(user)) as embedded:
        for method, path in cases:
            got = summary(send(embedded, method, path))
            strict = decided(method, path) if user == ADMIN else None
            if strict is not None:
                if got[0] not in {strict, 404}:
                    different.append(f"{method} {path}\n  decided  {strict}\n  embedded {got}")
                continue
            wanted = summary(send(kube, method, path))
            if wanted != got:
                different.append(f"{method} {path}\n  kube     {wanted}\n  embedded {got}")
    return different


@pytest.mark.parametrize("user", USERS)
def test_untidy_paths(planes: Planes, user: str) -> None:
    different = compare(planes, user, itertools.product(paths.METHODS, paths.untidy()))
    assert not different, "\n".join(different)


@pytest.mark.parametrize("user", USERS)
def test_bare_paths(planes: Planes, user: str) -> None:
    different = compare(planes, user, (("GET", path) for path in paths.bare()))
    assert not different, "\n".join(different)


def test_bare_paths_are_only_read(planes: Planes) -> None:
    with WireApi(planes.embedded.access()) as api:
        for method, path in itertools.product(("POST", "PUT", "PATCH", "DELETE"), paths.bare()):
            assert send(api, method, path).code in {404, 405}, f"{method} {path}"


@pytest.mark.parametrize("user", USERS)
def test_some_of_every_kind_scope_and_subresource(planes: Planes, user: str) -> None:
    """A part of the next test: every ninth case, so that each method meets each kind and scope."""
    cases = itertools.islice(itertools.product(paths.METHODS, paths.tidy()), 0, None, 9)
    different = compare(planes, user, cases)
    assert not different, "\n".join(different)


@pytest.mark.long
@pytest.mark.parametrize("user", USERS)
def test_every_kind_scope_and_subresource(planes: Planes, user: str) -> None:
    different = compare(planes, user, itertools.product(paths.METHODS, paths.tidy()))
    assert not different, "\n".join(different)
