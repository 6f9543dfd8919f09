"""Validation of IP addresses and CIDRs in fields.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/util/validation/ip.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

import ipaddress

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead_apiserver.registry.strategies import field_checks

__all__ = ["Range", "no_range", "read_range", "validate_address", "validate_endpoint_address", "validate_range"]

Range = ipaddress.IPv4Network | ipaddress.IPv6Network


def validate_address(text: str, path: FieldPath) -> list[FieldError]:
    """One address."""
    return field_checks.complaints(path, text, names.ip_address(text))


def read_range(text: str) -> Range | None:
    """Return the network of a CIDR; None for an invalid one."""
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def validate_range(text: str, path: FieldPath) -> list[FieldError]:
    """Validate a CIDR."""
    return [] if read_range(text) is not None else [no_range(text, path)]


def no_range(text: str, path: FieldPath) -> FieldError:
    """Return the error of an invalid CIDR."""
    return FieldError.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")


def validate_endpoint_address(text: str, path: FieldPath) -> list[FieldError]:
    """Validate that an IP address is reachable from other hosts. Only for valid addresses."""
    address = ipaddress.ip_address(text)
    if address.is_unspecified:
        return [FieldError.invalid(path, text, f"may not be unspecified ({text})")]
    if address.is_loopback:
        return [FieldError.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if address.is_link_local:
        return [FieldError.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    return []
