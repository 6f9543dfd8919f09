from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.security.rbac_rules import Rule, RuleSet

USER = UserInfo("u")


def rule(verbs: str, resources: str = "", groups: str = "", names: str = "", urls: str = "") -> Rule:
    found: dict[str, Any] = {"verbs": verbs.split(",")}
    if resources:
        found |= {"resources": resources.split(","), "apiGroups": groups.split(",")}
    if names:
        found["resourceNames"] = names.split(",")
    if urls:
        found["nonResourceURLs"] = urls.split(",")
    return found


def ask(verb: str, resource: str = "", group: str = "", name: str = "", sub: str = "", path: str = "/x") -> Attributes:
    return Attributes(
        USER, verb, path, resource=resource, group=group, name=name, subresource=sub, is_resource=bool(resource)
    )


@pytest.mark.parametrize(
    ("found", "question", "allowed"),
    [
        (rule("get", "pods"), ask("get", "pods"), True),
        (rule("get", "pods"), ask("list", "pods"), False),
        (rule("*", "pods"), ask("list", "pods"), True),
        (rule("get", "pods"), ask("get", "pods", "apps"), False),
        (rule("get", "pods", "*"), ask("get", "pods", "apps"), True),
        (rule("get", "*", "apps"), ask("get", "deployments", "apps", sub="scale"), True),
        (rule("get", "pods"), ask("get", "pods", sub="log"), False),
        (rule("get", "pods/log"), ask("get", "pods", sub="log"), True),
        (rule("get", "pods/log"), ask("get", "pods"), False),
        (rule("get", "*/scale", "*"), ask("get", "things", "x", sub="scale"), True),
        (rule("get", "*/scale", "*"), ask("get", "scale", "x"), False),
        (rule("get", "pods", names="a,b"), ask("get", "pods", name="b"), True),
        (rule("get", "pods", names="a"), ask("get", "pods", name="c"), False),
        (rule("list", "pods", names="a"), ask("list", "pods"), False),
        (rule("get", urls="/healthz"), ask("get", path="/healthz"), True),
        (rule("get", urls="/healthz"), ask("get", path="/healthz/etcd"), False),
        (rule("get", urls="/healthz/*"), ask("get", path="/healthz/etcd"), True),
        (rule("get", urls="*"), ask("get", path="/anything"), True),
        (rule("post", urls="*"), ask("get", path="/anything"), False),
        (rule("*", "*", "*"), ask("get", path="/metrics"), False),
        (rule("*", urls="*"), ask("get", "pods"), False),
    ],
)
def test_allows(found: Rule, question: Attributes, allowed: bool) -> None:
    assert RuleSet([found]).allows(question) is allowed


WORDS = {
    "verbs": ["get", "list", "*"],
    "apiGroups": ["", "apps", "*"],
    "resources": ["pods", "pods/log", "*/log", "deployments", "*"],
    "resourceNames": ["a", "b"],
    "nonResourceURLs": ["/a", "/a/*", "*"],
}
RESOURCE_RULES = st.fixed_dictionaries(
    {
        name: st.lists(st.sampled_from(WORDS[name]), min_size=1, max_size=2)
        for name in ("verbs", "apiGroups", "resources")
    },
    optional={"resourceNames": st.lists(st.sampled_from(WORDS["resourceNames"]), max_size=2)},
)
PATH_RULES = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(WORDS[name]), min_size=1, max_size=2) for name in ("verbs", "nonResourceURLs")}
)
RULES = st.lists(RESOURCE_RULES | PATH_RULES, max_size=4)
QUESTIONS = st.builds(
    ask,
    st.sampled_from(["get", "list", "delete"]),
    st.sampled_from(["pods", "deployments", ""]),
    st.sampled_from(["", "apps", "other"]),
    st.sampled_from(["", "a", "b", "c"]),
    st.sampled_from(["", "log", "status"]),
    st.sampled_from(["/a", "/a/b", "/c"]),
)


@given(RULES, QUESTIONS)
def test_a_rule_with_many_groups_and_resources_allows_the_same(rules: list[Rule], question: Attributes) -> None:
    more = [f"x{number}" for number in range(20)]
    wide = [
        {**rule, "apiGroups": [*rule["apiGroups"], *more], "resources": [*rule["resources"], *more]}
        if "apiGroups" in rule
        else rule
        for rule in rules
    ]
    assert RuleSet(wide).allows(question) is RuleSet(rules).allows(question)


def test_the_groups_and_resources_of_a_rule_are_not_multiplied() -> None:
    many = [str(number) for number in range(20_000)]
    rules = RuleSet([{"verbs": ["get"], "apiGroups": many, "resources": many}])
    assert rules.allows(ask("get", "7", "19999"))
    assert not rules.allows(ask("get", "7", "20000"))
