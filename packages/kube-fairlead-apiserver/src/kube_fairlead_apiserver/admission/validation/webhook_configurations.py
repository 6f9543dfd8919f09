"""ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/admissionregistration/validation/validation.go,
    k8s.io/apiserver@v0.36.4/pkg/util/webhook/validation.go
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.selectors import validate_label_selector
from kube_fairlead_apiserver.admission.validation.match_constraints import (
    one_of,
    validate_match_conditions,
    validate_rule,
)

__all__ = ["validate_webhook_configuration"]


_FAILURE_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_NO_SIDE_EFFECTS: tuple[str, ...] = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = (*_NO_SIDE_EFFECTS, "Some", "Unknown")
_REINVOCATION_POLICIES = ("IfNeeded", "Never")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_URL_FORM = "; desired format: https://host[/path]"


def validate_webhook_configuration(obj: Json, old: Json | None = None) -> list[FieldError]:
    """Validate either kind of configuration. Errors of the stored one are accepted."""
    before = (old or {}).get("webhooks") or []
    now = obj.get("webhooks") or []
    allowed_effects = _NO_SIDE_EFFECTS
    if not all(hook.get("sideEffects") in _NO_SIDE_EFFECTS for hook in before):
        allowed_effects = _SIDE_EFFECTS
    same_conditions = old is not None and _conditions(now) == _conditions(before)
    unique = len({hook.get("name") for hook in before}) == len(before)
    known_versions = all(_knows_a_version(hook) for hook in before)
    problems: list[FieldError] = []
    seen: set[str] = set()
    for i, hook in enumerate(now):
        path = FieldPath("webhooks").index(i)
        problems += _validate_webhook(hook, path, allowed_effects)
        problems += _validate_client(hook.get("clientConfig") or {}, path.child("clientConfig"))
        if not same_conditions:
            conditions = hook.get("matchConditions") or ()
            problems += validate_match_conditions(conditions, path.child("matchConditions"), params=False)
        versions = hook.get("admissionReviewVersions") or []
        problems += _validate_versions(versions, path.child("admissionReviewVersions"), must_know=known_versions)
        name = hook.get("name")
        if unique and name and name in seen:
            problems.append(FieldError.duplicate(path.child("name"), name))
        seen.add(name or "")
    return problems


def _conditions(hooks: list[Json]) -> list[Any]:
    return [hook.get("matchConditions") or [] for hook in hooks]


def _knows_a_version(hook: Json) -> bool:
    versions = hook.get("admissionReviewVersions") or ()
    return not versions or any(version in _REVIEW_VERSIONS for version in versions)


def _validate_webhook(hook: Json, path: FieldPath, allowed_effects: tuple[str, ...]) -> list[FieldError]:
    problems = _validate_name(hook.get("name") or "", path.child("name"))
    for i, rule in enumerate(hook.get("rules") or ()):
        problems += validate_rule(rule, path.child("rules").index(i))
    problems += one_of(hook.get("failurePolicy"), _FAILURE_POLICIES, path.child("failurePolicy"))
    problems += one_of(hook.get("matchPolicy"), _MATCH_POLICIES, path.child("matchPolicy"))
    effects = path.child("sideEffects")
    if hook.get("sideEffects") is None:
        problems.append(FieldError.required(effects, f"must specify one of {', '.join(allowed_effects)}"))
    problems += one_of(hook.get("sideEffects"), allowed_effects, effects)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        problems.append(FieldError.invalid(path.child("timeoutSeconds"), timeout, detail))
    for selector in ("namespaceSelector", "objectSelector"):
        if hook.get(selector) is not None:
            problems += validate_label_selector(hook[selector], path.child(selector))
    return problems + one_of(hook.get("reinvocationPolicy"), _REINVOCATION_POLICIES, path.child("reinvocationPolicy"))


def _validate_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate a webhook's name: a fully qualified domain name, so that names of projects do not collide."""
    if not name:
        return [FieldError.required(path)]
    wrong = names.dns1123_subdomain(name)
    if wrong:
        return [FieldError.invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [FieldError.invalid(path, name, detail)]
    return []


def _validate_client(client: Json, path: FieldPath) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [FieldError.required(path, "exactly one of url or service is required")]
    if url is not None:
        return _validate_url(url, path.child("url"))
    return _validate_service(service or {}, path.child("service"))


def _validate_url(url: str, path: FieldPath) -> list[FieldError]:
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError as error:
        return [FieldError.required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    problems: list[FieldError] = []
    checks: tuple[tuple[bool, str, str], ...] = (
        (parts.scheme != "https", parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"),
        (not parts.hostname, parts.netloc, f"host must be specified{_URL_FORM}"),
        ("@" in parts.netloc, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL"),
        (bool(parts.fragment), parts.fragment, "fragments are not permitted in the URL"),
        (bool(parts.query), parts.query, "query parameters are not permitted in the URL"),
    )
    problems += [FieldError.invalid(path, value, detail) for wrong, value, detail in checks if wrong]
    return problems


def _validate_service(service: Json, path: FieldPath) -> list[FieldError]:
    problems = [FieldError.required(path.child(field)) for field in ("name", "namespace") if not service.get(field)]
    port = service.get("port", 443)
    wrong = names.port_number(port)
    if wrong:
        problems.append(FieldError.invalid(path.child("port"), port, f"port is not valid: {', '.join(wrong)}"))
    return problems + _validate_path(service.get("path") or "", path.child("path"))


def _validate_path(url_path: str, path: FieldPath) -> list[FieldError]:
    if url_path in {"", "/"}:
        return []
    if url_path == "//":
        return [FieldError.invalid(path, url_path, "segment[0] may not be empty")]
    problems: list[FieldError] = []
    if not url_path.startswith("/"):
        problems.append(FieldError.invalid(path, url_path, "must start with a '/'"))
    check: Callable[[str], list[str]] = names.dns1123_subdomain
    for i, step in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not step:
            problems.append(FieldError.invalid(path, url_path, f"segment[{i}] may not be empty"))
            continue
        problems += [FieldError.invalid(path, url_path, f"segment[{i}]: {message}") for message in check(step)]
    return problems


def _validate_versions(versions: list[str], path: FieldPath, *, must_know: bool) -> list[FieldError]:
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [FieldError.required(path, f"must specify one of {known}")]
    problems: list[FieldError] = []
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            problems.append(FieldError.invalid(path.index(i), version, "duplicate version"))
            continue
        seen.add(version)
        problems += [FieldError.invalid(path.index(i), version, message) for message in names.dns1035_label(version)]
    if must_know and not seen.intersection(_REVIEW_VERSIONS):
        problems.append(FieldError.invalid(path, versions, f"must include at least one of {known}"))
    return problems
