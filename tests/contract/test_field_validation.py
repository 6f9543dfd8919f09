"""What becomes of fields that no schema knows, and of fields that are said twice."""

from __future__ import annotations

import pytest

from fairlead.testing.manifests import config_map
from fairlead.testing.rawhttp import RawApi

UNKNOWN = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","colour":"red"},"data":{"k":"v"},"size":1}'
TWICE = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","k":"w"}}'


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def test_ignore_drops_them_in_silence(api: RawApi, path: str) -> None:
    answer = await api.post(path, UNKNOWN, fieldValidation="Ignore")
    made = answer.expect(201)
    assert "size" not in made
    assert "colour" not in made["metadata"]
    assert "Warning" not in answer.headers


@pytest.mark.parametrize("query", [{}, {"fieldValidation": "Warn"}])
async def test_warn_drops_them_and_says_so(api: RawApi, path: str, query: dict[str, str]) -> None:
    answer = await api.post(path, UNKNOWN, **query)
    assert "size" not in answer.expect(201)
    warnings = [value for name, value in answer.headers.items() if name.lower() == "warning"]
    assert sorted(warnings) == ['299 - "unknown field \\"metadata.colour\\""', '299 - "unknown field \\"size\\""']


async def test_strict_refuses(api: RawApi, path: str) -> None:
    status = (await api.post(path, UNKNOWN, fieldValidation="Strict")).expect(400)
    assert status["reason"] == "BadRequest"
    assert status["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "metadata.colour", unknown field "size"'
    )


async def test_a_field_said_twice(api: RawApi, path: str) -> None:
    answer = await api.post(path, TWICE, fieldValidation="Warn")
    assert answer.expect(201)["data"] == {"k": "w"}
    assert answer.headers["Warning"] == '299 - "duplicate field \\"data.k\\""'
    status = (await api.post(path, TWICE, fieldValidation="Strict")).expect(400)
    assert status["message"].endswith('strict decoding error: duplicate field "data.k"')


async def test_patches_are_checked_too(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a"))).expect(201)
    body = {"metadata": {"colour": "red"}}
    answer = await api.patch(f"{path}/a", body, fieldValidation="Warn")
    assert "colour" not in answer.expect(200)["metadata"]
    assert answer.headers["Warning"] == '299 - "unknown field \\"metadata.colour\\""'
    status = (await api.patch(f"{path}/a", body, fieldValidation="Strict")).expect(422)
    assert status["reason"] == "Invalid"
    assert 'strict decoding error: unknown field "metadata.colour"' in status["message"]


async def test_an_unknown_way_of_validation(api: RawApi, path: str) -> None:
    status = (await api.post(path, config_map("a"), fieldValidation="Maybe")).expect(422)
    assert status["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Maybe": '
        'supported values: "", "Ignore", "Strict", "Warn"'
    )


async def test_field_names_are_case_sensitive(api: RawApi, path: str) -> None:
    answer = await api.post(path, {"Metadata": {"name": "wrong"}, "metadata": {"name": "a"}, "DATA": {"k": "v"}})
    made = answer.expect(201)
    assert made["metadata"]["name"] == "a"
    assert "data" not in made


async def test_a_flood_of_warnings_is_cut(api: RawApi, path: str) -> None:
    body = {**config_map("a"), **{f"unknown-{n}-{'x' * 300}": n for n in range(200)}}
    answer = await api.post(path, body)
    answer.expect(201)
    warnings = [value for name, value in answer.headers.items() if name.lower() == "warning"]
    assert 10 < len(warnings) <= 100
    assert sum(map(len, warnings)) < 10_000
