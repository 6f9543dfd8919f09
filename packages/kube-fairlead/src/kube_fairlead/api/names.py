"""Kubernetes' rules for names, label and annotation keys, and other short strings.

Every validator returns a list of messages, empty when the value is fine; the messages are Kubernetes' own.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/util/validation/validation.go,
    k8s.io/apimachinery@v0.36.4/pkg/api/validation/generic.go,
    k8s.io/apimachinery@v0.36.4/pkg/api/validate/content/kube.go,
    k8s.io/apimachinery@v0.36.4/pkg/api/validate/content/dns.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/validation/ip.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/validation/validation.go
"""

from __future__ import annotations

import functools
import re

from kube_fairlead.api.fielderrors import FieldError, FieldPath

__all__ = [
    "config_map_key",
    "dns1035_label",
    "dns1123_label",
    "dns1123_subdomain",
    "domain_prefixed_path",
    "ip_address",
    "label_value",
    "name_is_dns1035_label",
    "name_is_dns_label",
    "name_is_dns_subdomain",
    "name_is_path_segment",
    "path_segment_name",
    "percent",
    "port_name",
    "port_number",
    "qualified_name",
    "range_error",
    "wildcard_dns1123_subdomain",
]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = r"\*\." + _SUBDOMAIN
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_WILDCARD_RULE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist "
    "of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_QUALIFIED_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_CONFIG_KEY_RULE = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"

_label = re.compile(_LABEL).fullmatch
_subdomain = re.compile(_SUBDOMAIN).fullmatch
_label_1035 = re.compile(_LABEL_1035).fullmatch
_wildcard = re.compile(_WILDCARD).fullmatch
_qualified = re.compile(_QUALIFIED).fullmatch
_label_value = re.compile(_LABEL_VALUE).fullmatch
_config_key = re.compile(_CONFIG_KEY).fullmatch
_percent = re.compile(_PERCENT).fullmatch
_path = re.compile(_PATH).fullmatch
_port_characters = re.compile("[-a-z0-9]+").fullmatch
_lower_case_letter = re.compile("[a-z]").search

_QUALIFIED_MAX = 253 + 1 + 63


def _size(value: str) -> int:
    """Go counts bytes."""
    return len(value) if value.isascii() else len(value.encode())


def _regex_error(rule: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{rule} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def range_error(low: int, high: int) -> str:
    """The message for a number outside of bounds."""
    return f"must be between {low} and {high}, inclusive"


@functools.lru_cache(maxsize=1024)
def _is_label(value: str) -> bool:
    # Namespaces, containers and volumes are called the same again and again.
    return _label(value) is not None


def dns1123_label(value: str) -> list[str]:
    """One part of a DNS name, such as a namespace's name."""
    if len(value) <= 63 and _is_label(value):
        return []
    messages = [_too_long(63)] if _size(value) > 63 else []
    if not _label(value):
        if _subdomain(value):
            messages.append("must not contain dots")
        else:
            messages.append(_regex_error(_LABEL_RULE, _LABEL, "my-name", "123-abc"))
    return messages


def dns1123_subdomain(value: str) -> list[str]:
    """A whole DNS name, as most objects' names are."""
    messages = [_too_long(253)] if _size(value) > 253 else []
    if not _subdomain(value):
        messages.append(_regex_error(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return messages


def dns1035_label(value: str) -> list[str]:
    """A DNS label that starts with a letter, as a service's name does."""
    messages = [_too_long(63)] if _size(value) > 63 else []
    if not _label_1035(value):
        messages.append(_regex_error(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123"))
    return messages


def wildcard_dns1123_subdomain(value: str) -> list[str]:
    """A DNS name below `*.`."""
    messages = [_too_long(253)] if _size(value) > 253 else []
    if not _wildcard(value):
        messages.append(_regex_error(_WILDCARD_RULE, _WILDCARD, "*.example.com"))
    return messages


def qualified_name(value: str) -> list[str]:
    """The key of a label, an annotation or a finalizer: a name, after an optional DNS prefix and `/`."""
    if len(value) <= _QUALIFIED_MAX and _is_qualified(value):
        return []  # nearly every one
    prefix, slash, name = value.rpartition("/")
    messages: list[str] = []
    rule = _regex_error(_QUALIFIED_RULE, _QUALIFIED, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        hint = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return ["a valid label key " + rule + hint]
    if slash and not prefix:
        messages.append("prefix part must be non-empty")
    elif slash:
        if _size(prefix) > 253:
            messages.append("prefix part " + _too_long(253, "bytes"))
        if not _subdomain(prefix):
            messages.append("prefix part " + _regex_error(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    if not name:
        messages.append("name part must be non-empty")
    elif _size(name) > 63:
        messages.append("name part " + _too_long(63, "bytes"))
    if not _qualified(name):
        messages.append("name part " + rule)
    return messages


@functools.lru_cache(maxsize=1024)
def _is_qualified(value: str) -> bool:
    # A cluster has few keys, and writes them with every object.
    prefix, slash, name = value.rpartition("/")
    return bool(len(name) <= 63 and _qualified(name) and (not slash or (len(prefix) <= 253 and _subdomain(prefix))))


def label_value(value: str) -> list[str]:
    """A label's value; it may be empty."""
    if len(value) <= 63 and _label_value(value):
        return []
    messages = [_too_long(63, "bytes")] if _size(value) > 63 else []
    if not _label_value(value):
        messages.append(_regex_error(_LABEL_VALUE_RULE, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return messages


def config_map_key(value: str) -> list[str]:
    """A key in the data of a ConfigMap or Secret."""
    messages = [_too_long(253)] if _size(value) > 253 else []
    if not _config_key(value):
        messages.append(_regex_error(_CONFIG_KEY_RULE, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return messages + _parent_directory(value)


def _parent_directory(value: str) -> list[str]:
    if value in {".", ".."}:
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def port_name(value: str) -> list[str]:
    """The name of a port, by IANA's rule for service names."""
    messages = [_too_long(15)] if _size(value) > 15 else []
    if not _port_characters(value):
        messages.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _lower_case_letter(value):
        messages.append("must contain at least one letter (a-z)")
    if "--" in value:
        messages.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        messages.append("must not begin or end with a hyphen")
    return messages


def port_number(value: int) -> list[str]:
    """A TCP or UDP port."""
    return [] if 1 <= value <= 65535 else [range_error(1, 65535)]


def percent(value: str) -> list[str]:
    """A whole number and a percent sign, as in `maxUnavailable: 25%`."""
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return [] if _percent(value) else [_regex_error(rule, _PERCENT, "1%", "93%")]


def path_segment_name(value: str) -> list[str]:
    """A name that fits between the slashes of a URL, as RBAC objects' names do."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


def ip_address(value: str) -> list[str]:
    """An address of either family."""
    import ipaddress  # which most who look at names never need

    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def domain_prefixed_path(value: str, path: FieldPath) -> list[FieldError]:
    """A name such as `example.com/drain`: a DNS name, a slash, a path. Returns field errors: two parts may fail."""
    if not value:
        return [FieldError.required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [
            FieldError.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")'),
        ]
    errors = [FieldError.invalid(path, host, message) for message in dns1123_subdomain(host)]
    if not _path(rest):
        errors.append(FieldError.invalid(path, rest, _regex_error("Invalid path", _PATH)))
    return errors


def _masked(name: str, *, prefix: bool) -> str:
    # A generateName may end in a dash, because the random suffix follows.
    return name[:-2] + "a" if prefix and len(name) > 1 and name.endswith("-") else name


def name_is_dns_subdomain(name: str, *, prefix: bool = False) -> list[str]:
    """An object's name, or with `prefix` its generateName, of the common form."""
    return dns1123_subdomain(_masked(name, prefix=prefix))


def name_is_dns_label(name: str, *, prefix: bool = False) -> list[str]:
    """An object's name, or with `prefix` its generateName, without dots (namespaces)."""
    return dns1123_label(_masked(name, prefix=prefix))


def name_is_dns1035_label(name: str, *, prefix: bool = False) -> list[str]:
    """An object's name, or with `prefix` its generateName, that starts with a letter (services)."""
    return dns1035_label(_masked(name, prefix=prefix))


def name_is_path_segment(name: str, *, prefix: bool = False) -> list[str]:
    """An object's name, or with `prefix` its generateName, that only has to fit into a URL (RBAC)."""
    messages = path_segment_name(name)
    return [] if prefix and name in {".", ".."} else messages
