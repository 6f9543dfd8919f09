"""Lists in pages: a consistent view, and what happens to it in time."""

from __future__ import annotations

import pytest

from kube_fairlead_lab.testing.manifests import secret
from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for n in range(7):
        (await api.post(path, secret(f"c{n}", labels={"odd": str(n % 2)}))).expect(201)
    return path


async def test_pages_add_up_and_share_one_version(api: RawApi, path: str) -> None:
    names, versions, remaining = [], set(), []
    token = ""
    while True:
        page = (await api.get(path, limit=3, **{"continue": token})).expect(200)
        names += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        remaining.append(page["metadata"].get("remainingItemCount"))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert names == [f"c{n}" for n in range(7)]
    assert len(versions) == 1
    assert remaining == [4, 1, None]


async def test_later_pages_show_the_world_of_the_first(api: RawApi, path: str) -> None:
    first = (await api.get(path, limit=3)).expect(200)
    (await api.delete(f"{path}/c5")).expect(200)
    (await api.post(path, secret("c55"))).expect(201)
    (await api.patch(f"{path}/c6", {"stringData": {"new": "yes"}})).expect(200)
    second = (await api.get(path, limit=10, **{"continue": first["metadata"]["continue"]})).expect(200)
    assert [item["metadata"]["name"] for item in second["items"]] == ["c3", "c4", "c5", "c6"]
    assert "data" not in second["items"][-1]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_the_remaining_count_is_of_the_world_of_the_first_page(api: RawApi, path: str) -> None:
    first = (await api.get(path, limit=2)).expect(200)["metadata"]
    (await api.post(path, secret("d"))).expect(201)
    (await api.delete(f"{path}/c6")).expect(200)
    second = (await api.get(path, limit=2, **{"continue": first["continue"]})).expect(200)["metadata"]
    assert (first["remainingItemCount"], second["remainingItemCount"]) == (5, 3)


async def test_selectors_apply_across_pages_without_a_remaining_count(api: RawApi, path: str) -> None:
    first = (await api.get(path, limit=2, labelSelector="odd=0")).expect(200)
    assert [item["metadata"]["name"] for item in first["items"]] == ["c0", "c2"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    second = (await api.get(path, limit=9, labelSelector="odd=0", **{"continue": token})).expect(200)
    assert [item["metadata"]["name"] for item in second["items"]] == ["c4", "c6"]
    assert "continue" not in second["metadata"]


async def test_a_limit_that_fits_gives_no_token(api: RawApi, path: str) -> None:
    page = (await api.get(path, limit=7)).expect(200)
    assert len(page["items"]) == 7
    assert "continue" not in page["metadata"]
    assert "remainingItemCount" not in page["metadata"]


async def test_a_negative_limit_is_none(api: RawApi, path: str) -> None:
    assert len((await api.get(path, limit=-1)).expect(200)["items"]) == 7


async def test_a_token_that_makes_no_sense(api: RawApi, path: str) -> None:
    status = (await api.get(path, limit=2, **{"continue": "garbage!"})).expect(400)
    assert status["reason"] == "BadRequest"
    assert status["message"].startswith("invalid continue token: continue key is not valid: ")


async def test_a_token_with_another_version_is_refused(api: RawApi, path: str) -> None:
    token = (await api.get(path, limit=2)).expect(200)["metadata"]["continue"]
    status = (await api.get(path, limit=2, resourceVersion="1", **{"continue": token})).expect(400)
    assert status["message"] == "specifying resource version is not allowed when using continue"


async def test_list_at_a_version(api: RawApi, path: str) -> None:
    version = (await api.get(path)).expect(200)["metadata"]["resourceVersion"]
    (await api.delete(f"{path}/c0")).expect(200)
    exact = (await api.get(path, resourceVersion=version, resourceVersionMatch="Exact")).expect(200)
    assert len(exact["items"]) == 7
    assert exact["metadata"]["resourceVersion"] == version
    fresh = (await api.get(path, resourceVersion=version, resourceVersionMatch="NotOlderThan")).expect(200)
    assert int(fresh["metadata"]["resourceVersion"]) >= int(version)
    any_version = (await api.get(path, resourceVersion="0")).expect(200)
    assert len(any_version["items"]) in {6, 7}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
                "resourceVersionMatch is forbidden "
                "unless resourceVersion is provided"
            ),
        ),
        (
            {"resourceVersion": "5", "resourceVersionMatch": "Newest"},
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Newest": supported '
                'values: "Exact", "NotOlderThan", ""'
            ),
        ),
        (
            {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
                'resourceVersionMatch "exact" is '
                'forbidden for resourceVersion "0"'
            ),
        ),
    ],
)
async def test_combinations_that_are_refused(api: RawApi, path: str, query: dict[str, str], message: str) -> None:
    status = (await api.get(path, **query)).expect(422)
    assert (status["reason"], status["message"]) == ("Invalid", message)


async def test_a_version_that_is_no_number(api: RawApi, path: str) -> None:
    status = (await api.get(path, resourceVersion="abc")).expect(400)
    assert status["reason"] == "BadRequest"
    assert status["message"].startswith('invalid resource version: resourceVersion: Invalid value: "abc": ')


async def test_a_version_from_the_future(api: RawApi, path: str) -> None:
    version = int((await api.get(path)).expect(200)["metadata"]["resourceVersion"])
    status = (await api.get(path, resourceVersion=version + 100_000)).expect(504)
    assert status["reason"] == "Timeout"
    assert status["message"].startswith(f"Timeout: Too large resource version: {version + 100_000}, current: ")
    assert status["details"]["retryAfterSeconds"] == 1
    assert status["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]
