from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver.patch.apply import fieldset, managers
from kube_fairlead_apiserver.patch.apply.elements import MalformedFieldsError
from kube_fairlead_apiserver.patch.apply.managers import Identity


def entry(manager: str, operation: str = "Update", time: str | None = "2026-01-01T00:00:00Z", **more: Any) -> Any:
    version = more.get("apiVersion", "v1")
    identity = Identity.of(manager, operation, version, more.get("subresource", ""))
    return managers.entry(identity, version, more.get("fieldsV1", {"f:data": {}}), time)


@pytest.mark.parametrize(
    ("field_manager", "user_agent", "name"),
    [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1.36.4 (linux/amd64)", "kubectl"),
        ("", "Mozilla 5", "Mozilla 5"),
        ("", "a\x00b\tc/1", "abc"),
        ("", "", ""),
        ("", "x" * 200, "x" * 128),
        ("", "é" * 100, "é" * 64),
    ],
)
def test_manager_name(field_manager: str, user_agent: str, name: str) -> None:
    assert managers.manager_name(field_manager, user_agent) == name


def test_entries_have_kubernetes_order() -> None:
    found = [
        entry("b"),
        entry("a"),
        entry("z", "Apply", "2026-01-02T00:00:00Z"),
        entry("a", time="2025-01-01T00:00:00Z"),
        entry("a", subresource="status"),
        entry("y", "Apply", None),
    ]
    ordered = managers.encode(dict(enumerate(found)))  # type: ignore[arg-type]  # any keys do
    assert [(item["manager"], item.get("subresource", "")) for item in ordered] == [
        ("y", ""),
        ("z", ""),
        ("a", ""),
        ("a", ""),
        ("a", "status"),
        ("b", ""),
    ]
    assert ordered[2]["time"] == "2025-01-01T00:00:00Z"
    assert list(ordered[4]) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"]


def test_an_applier_is_one_whatever_version_it_applies() -> None:
    assert Identity.of("a", "Apply", "v1", "") == Identity.of("a", "Apply", "v2", "")
    assert Identity.of("a", "Update", "v1", "") != Identity.of("a", "Update", "v2", "")
    assert Identity.of("", "Update", "v1", "").manager == "unknown"


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (Identity.of("kubectl", "Update", "v1", ""), '"kubectl" using v1'),
        (Identity.of("kubectl", "Apply", "v1", ""), '"kubectl"'),
        (Identity.of("k", "Update", "apps/v1", "status"), '"k" with subresource "status" using apps/v1'),
    ],
)
def test_identity_in_words(identity: Identity, text: str) -> None:
    assert str(identity) == text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operation": "Patch"}, "operation must be `Apply` or `Update`"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"apiVersion": 1}, "apiVersion must be a string in managed fields entry 0"),
        ({"fieldsType": ""}, "missing fieldsType in managed fields entry 0"),
        ({"fieldsType": "FieldsV2"}, 'invalid fieldsType "FieldsV2" in managed fields entry 0'),
        ({"fieldsV1": {"x": {}}}, "key must be 2 characters long:"),
        ({"time": "yesterday"}, 'parsing time "yesterday" as'),
    ],
)
def test_entries_from_outside_are_checked(changes: Any, message: str) -> None:
    with pytest.raises(MalformedFieldsError) as caught:
        managers.read_untrusted([entry("a") | changes])
    assert message in str(caught.value)


def test_entries_from_outside_become_canonical() -> None:
    sent = entry("a", time="2026-01-01T01:00:00+01:00", fieldsV1={"f:a": {".": {}}})
    assert managers.encode(managers.read_untrusted([sent])) == [entry("a", fieldsV1={"f:a": {}})]


@pytest.mark.parametrize(("sent", "reset"), [([], True), ([{}], True), (None, False), ([{}, {}], False)])
def test_is_reset(sent: Any, reset: bool) -> None:
    assert managers.is_reset(sent) is reset


def test_the_oldest_updaters_are_merged() -> None:
    found = [entry(f"m{n:02}", time=f"2026-01-{n + 1:02}T00:00:00Z", fieldsV1={f"f:{n}": {}}) for n in range(12)] + [
        entry("applier", "Apply")
    ]
    after = managers.encode(managers.capped(managers.read_stored(found)))
    assert [item["manager"] for item in after] == [
        "applier",
        "ancient-changes",
        *(f"m{n:02}" for n in range(3, 12)),
    ]
    assert after[1]["fieldsV1"] == {"f:0": {}, "f:1": {}, "f:2": {}}
    assert after[1]["time"] == "2026-01-03T00:00:00Z"


def test_updaters_of_other_versions_have_their_own_bucket() -> None:
    found = [
        entry(f"m{n:02}", time=f"2026-01-{n + 1:02}T00:00:00Z", apiVersion=f"v{n % 2}", fieldsV1={f"f:{n}": {}})
        for n in range(12)
    ]
    after = managers.capped(managers.read_stored(found))
    assert len(after) == 10
    assert {identity.api_version for identity in after if identity.manager == "ancient-changes"} == {"v0", "v1"}
    again = managers.capped(after)
    assert again is after


def test_many_updaters_are_merged_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone_through(count: int) -> int:
        union, fields = fieldset.union, 0

        def counting(left: Any, right: Any) -> Any:
            nonlocal fields
            fields += len(left) + len(right)
            return union(left, right)

        found = [entry(f"m{number:04}", fieldsV1={f"f:{number}": {}}) for number in range(count)]
        with monkeypatch.context() as patched:
            patched.setattr(fieldset, "union", counting)
            after = managers.capped(managers.read_stored(found))
        bucket = next(found for identity, found in after.items() if identity.manager == "ancient-changes")
        assert bucket["fieldsV1"] == {f"f:{number}": {} for number in range(count - 9)}
        return fields

    assert gone_through(400) < 3 * gone_through(200)
