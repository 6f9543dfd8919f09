"""What becomes of fields that no schema knows, and of fields that are said twice."""

from __future__ import annotations

import pytest

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import Answer, RawApi

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


YAML_TWICE = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n  k: w\n"


def warnings_of(answer: Answer) -> list[str]:
    return [value for name, value in answer.headers.items() if name.lower() == "warning"]


@pytest.mark.parametrize("more", [(), ('unknown field \\"size\\"',)])
async def test_a_field_said_twice_in_yaml(api: RawApi, path: str, more: tuple[str, ...]) -> None:
    body = YAML_TWICE + (b"data:\n  l: m\nsize: 1\n" if more else b"")
    said = ['line 7: key "k" already set in map', *(('line 9: key "data" already set in map',) if more else ())]
    unknown = ', unknown field "size"' if more else ""
    status = (
        await api.request("POST", path, body, params={"fieldValidation": "Strict"}, content_type="application/yaml")
    ).expect(400)
    problem = "strict decoding error: yaml: unmarshal errors:\n  " + "\n  ".join(said) + unknown
    assert status["message"] == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {problem}'
    answer = await api.request("POST", path, body, content_type="application/yaml")
    assert answer.expect(201)["data"] == ({"l": "m"} if more else {"k": "w"})
    quoted = [text.replace('"', '\\"') for text in said]
    assert warnings_of(answer) == [f'299 - "{text}"' for text in (*quoted, *more)]


@pytest.mark.parametrize(("body", "line"), [(YAML_TWICE, 7), (TWICE, 1)])
async def test_a_field_applied_twice(api: RawApi, path: str, body: bytes, line: int) -> None:
    said = f'line {line}: key "k" already set in map'
    status = (await api.apply(f"{path}/a", body, "me", fieldValidation="Strict")).expect(400)
    assert status["message"] == (
        f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {said}"
    )
    answer = await api.apply(f"{path}/a", body, "me")
    answer.expect(201)
    quoted = said.replace('"', '\\"')
    assert warnings_of(answer) == [f'299 - "{quoted}"']


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        ("merge-patch", b'{"data":{"k":"1","k":"2"}}', 'duplicate field "data.k"'),
        ("strategic-merge-patch", b'{"data":{"k":"1","k":"2"}}', 'duplicate field "data.k"'),
        (
            "json-patch",
            b'[{"op":"replace","path":"/data","value":{},"value":{"k":"2"}}]',
            'json patch duplicate field "[0].value"',
        ),
    ],
)
async def test_a_field_patched_twice(api: RawApi, path: str, kind: str, body: bytes, problem: str) -> None:
    (await api.post(path, config_map("a", {"k": "0"}))).expect(201)
    content_type = f"application/{kind}+json"
    refused = await api.patch(f"{path}/a", body, content_type, fieldValidation="Strict")
    assert refused.expect(422)["message"].endswith(f": strict decoding error: {problem}")
    answer = await api.patch(f"{path}/a", body, content_type)
    assert answer.expect(200)["data"] == {"k": "2"}
    quoted = problem.replace('"', '\\"')
    assert warnings_of(answer) == [f'299 - "{quoted}"']


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
