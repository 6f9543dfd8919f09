"""The roles and bindings of a new cluster, read from the text files in `data`, which document their format.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go,
    k8s.io/kubernetes@v1.36.4/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go,
    k8s.io/kubernetes@v1.36.4/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/namespace_policy.go
"""

from __future__ import annotations

import functools
import pathlib

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.security.rbac import aggregated_rules
from kube_fairlead_apiserver.security.rbac_rules import Rule

__all__ = ["bootstrap_policy", "node_rules"]


_GROUP = "rbac.authorization.k8s.io"
_CONTROLLER = "system:controller:"
_FILES = ("cluster_roles.txt", "controller_roles.txt", "namespace_roles.txt")
_SUBJECTS = {"group": "Group", "user": "User", "account": "ServiceAccount"}


def bootstrap_policy() -> list[Json]:
    """Return every default role and binding, with the rules of aggregated roles."""
    objects: list[Json] = []
    for name in _FILES:
        objects.extend(_parse(name, _read(name)))
    roles = [found for found in objects if found["kind"] == "ClusterRole"]
    for role in roles:
        gathered = aggregated_rules(role, roles)
        if gathered is not None:
            role["rules"] = [dict(rule) for rule in gathered]
        if role["metadata"]["name"].startswith(_CONTROLLER):
            objects.append(_controller_binding(role["metadata"]["name"]))
    return objects


@functools.cache
def node_rules() -> tuple[Rule, ...]:
    """Return the rules of `system:node`, for requests that do not depend on a node's pods."""
    roles = _parse(_FILES[0], _read(_FILES[0]))
    return tuple(next(role["rules"] for role in roles if role["metadata"]["name"] == "system:node"))


def _read(name: str) -> str:
    return (pathlib.Path(__file__).with_name("data") / name).read_text("utf-8")


def _parse(source: str, text: str) -> list[Json]:
    objects: list[Json] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            if line[0] != " ":
                objects.append(_head(words))
            elif "roleRef" in objects[-1]:
                objects[-1].setdefault("subjects", []).append(_subject(*words))
            else:
                _add_line(objects[-1], words)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"{source}:{number}: {line.strip()!r} is no line of a policy ({error})") from error
    return objects


def _head(words: list[str]) -> Json:
    what, name, *rest = words
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    namespace = options.pop("in", "")
    role = options.pop("of", name)
    if options or what not in {"role", "binding"}:
        raise ValueError("expected role or binding")
    kind = ("" if namespace else "Cluster") + ("Role" if what == "role" else "RoleBinding")
    value: Json = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    }
    if namespace:
        value["metadata"]["namespace"] = namespace
    if what == "role":
        value["rules"] = []
    else:
        value["roleRef"] = {"apiGroup": _GROUP, "kind": "Role" if namespace else "ClusterRole", "name": role}
    return value


def _add_line(role: Json, words: list[str]) -> None:
    if words[0] == "label":
        role["metadata"]["labels"][words[1]] = "true"
    elif words[0] == "gathers":
        selectors = role.setdefault("aggregationRule", {"clusterRoleSelectors": []})["clusterRoleSelectors"]
        selectors.append({"matchLabels": {words[1]: "true"}})
    else:
        role["rules"].append(_rule(*words))


def _rule(verbs: str, things: str, groups: str = "", names: str = "") -> Json:
    rule: Json = {"verbs": verbs.split(",")}
    if not groups:
        return {"nonResourceURLs": things.split(","), **rule}
    rule["apiGroups"] = ["" if group == "core" else group for group in groups.split(",")]
    rule["resources"] = things.split(",")
    if names:
        rule["resourceNames"] = names.removeprefix("=").split(",")
    return rule


def _subject(kind: str, name: str) -> Json:
    if kind == "account":
        namespace, _, name = name.partition("/")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"apiGroup": _GROUP, "kind": _SUBJECTS[kind], "name": name}


def _controller_binding(role: str) -> Json:
    binding = _head(["binding", role])
    binding["subjects"] = [_subject("account", f"kube-system/{role.removeprefix(_CONTROLLER)}")]
    return binding
