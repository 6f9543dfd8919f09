"""Validates string formats of schemas as Kubernetes does.

Several are stricter or laxer than their RFC: they accept exactly what a Kubernetes API server accepts. An unknown
format is ignored.

Upstream: k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/strfmt/default.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/strfmt/kubernetes-extensions.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/strfmt/date.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/strfmt/duration.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/strfmt/time.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/validation/formats.go
"""

from __future__ import annotations

import datetime as dt
import functools
import ipaddress
import re
from collections.abc import Callable

from kube_fairlead.api import time
from kube_fairlead_apiserver.cel import regex

__all__ = ["known_format", "matches_format"]

Check = Callable[[str], bool]


def _once(pattern: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """Compile a pattern at its first use: most servers need few of them, and compiling takes time."""
    return functools.cache(lambda: re.compile(pattern, flags))


_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_COLOUR = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_CARD = _once(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_CLOCK = _once(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_DURATION_TERM = _once(r"([0-9]+)\s*([A-Za-zµ]+)")
_DURATION_UNIT = _once(
    r"ns|nano.*|us|µs|micro.*|ms|milli.*|s|sec.*|m|min.*|h|hr|hour.*|d|day.*|w|wk|week.*", re.IGNORECASE
)
_MAC = _once(
    r"[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}|(?::[0-9a-f]{2}){7}|(?::[0-9a-f]{2}){19}"
    r"|(?:-[0-9a-f]{2}){5}|(?:-[0-9a-f]{2}){7}|(?:-[0-9a-f]{2}){19})"
    r"|[0-9a-f]{4}(?:(?:\.[0-9a-f]{4}){2}|(?:\.[0-9a-f]{4}){3}|(?:\.[0-9a-f]{4}){9})",
    re.IGNORECASE,
)
_ATEXT = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~\x80-\U0010FFFF]"
_MAILBOX = rf'(?:{_ATEXT}+(?:\.{_ATEXT}+)*|"(?:[^"\\\r\n]|\\.)+")@\s*(?:{_ATEXT}+(?:\.{_ATEXT}+)*|\[([0-9.]*)\])'
_PHRASE = rf'(?:[\s.]|{_ATEXT}|"(?:[^"\\\r\n]|\\.)*")*'
_EMAIL = _once(rf"(?:\s*{_MAILBOX}|{_PHRASE}<{_MAILBOX}>)\s*(?:\([^()]*\)\s*)*")
_SCHEME = _once(r"([A-Za-z][A-Za-z0-9+.\-]*):(.*)", re.DOTALL)
_AUTHORITY = _once(
    r"(?:[A-Za-z0-9\-._:~!$&'()*+,;=%@]*@)?"
    r"(?:\[([0-9A-Fa-f:.]+)(?:%25[^\]]+)?\]|(?:[A-Za-z0-9\-_.~!$&'()*+,;=\"<>]|[\x80-\U0010FFFF]|%[89A-Fa-f][0-9A-Fa-f])*)"
    r"(?::[0-9]*)?"
)
_BAD_ESCAPE = _once(r"%(?![0-9A-Fa-f]{2})")


def known_format(format_name: str, type_name: str) -> str:
    """Return the format, or nothing where Kubernetes ignores it for this type ("" = several or any)."""
    if type_name in {"", "string"}:
        return format_name if format_name.replace("-", "") in _CHECKS else ""
    allowed = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(type_name, ())
    return format_name if format_name in allowed else ""


def matches_format(format_name: str) -> Check | None:
    """Return the check of a string format, None for formats of numbers."""
    return _CHECKS.get(format_name.replace("-", ""))


def _pattern(pattern: str, flags: int = re.ASCII) -> Check:
    compiled = _once(pattern, flags)
    return lambda text: compiled().fullmatch(text) is not None


def _uri(text: str) -> bool:
    """Accept what Go's url.ParseRequestURI accepts: an absolute URI or an absolute path."""
    if not text or any(char < " " or char == "\x7f" for char in text):
        return False
    if text == "*":
        return True
    scheme = _SCHEME().fullmatch(text)
    rest = scheme[2] if scheme else text
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host = _AUTHORITY().fullmatch(authority)
        return host is not None and (not host[1] or _ip(host[1])) and not _BAD_ESCAPE().search(slash + path)
    return not _BAD_ESCAPE().search(rest)


def _hostname(text: str) -> bool:
    if not regex.compile_regex(_HOSTNAME).search(text):
        return False
    return len(text.encode()) <= 255 and all(len(part.encode()) <= 63 for part in text.split("."))


def _sloppy_ipv4(text: str) -> bool:
    """Accept IPv4 as Go did before 1.17: leading zeros are allowed."""
    parts = text.split(".")
    return len(parts) == 4 and all(part.isascii() and part.isdigit() and int(part) <= 255 for part in parts)


def _ip(text: str) -> bool:
    if ":" not in text:
        return _sloppy_ipv4(text)
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def _email(text: str) -> bool:
    match = _EMAIL().fullmatch(text)
    return match is not None and all(literal is None or _sloppy_ipv4(literal) for literal in match.groups())


def _cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not _ip(address) or not (bits.isascii() and bits.isdigit()):
        return False
    return int(bits) <= (128 if ":" in address else 32)


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum((i + 1) * (10 if digit == "X" else int(digit)) for i, digit in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum((1, 3)[i % 2] * int(digit) for i, digit in enumerate(digits)) % 10 == 0


def _creditcard(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD().fullmatch(digits):
        return False
    total = 0
    for i, digit in enumerate(reversed(digits)):
        amount = int(digit) * (1 + i % 2)
        total += amount % 10 + 1 if amount >= 10 else amount
    return total % 10 == 0


def _date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        # Go has a year 0, Python has not; year 4 has the same leap day.
        dt.date(int(text[:4]) or 4, int(text[5:7]), int(text[8:]))
    except ValueError:
        return False
    return True


def _datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(text) < 4 or len(parts) < 2 or not _date(parts[0]):
        return False
    clock = _CLOCK().fullmatch(parts[1])
    return clock is not None and clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"


def _duration(text: str) -> bool:
    """Accept a Go duration, or text such as ``3 days`` anywhere."""
    try:
        time.parse_duration_nanoseconds(text)
    except ValueError:
        terms = _DURATION_TERM().findall(text)
        if any(int(amount) >= 2**63 for amount, _ in terms):
            return False
        return any(_DURATION_UNIT().fullmatch(unit) for _, unit in terms)
    return True


_UUID = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_ANY4 = "[0-9a-f]{4}"
_VARIANT = "[89ab][0-9a-f]{3}"
_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

_SHORT_NAME = _pattern(_NAME)
_LONG_NAME = _pattern(rf"{_NAME}(\.{_NAME})*")

_CHECKS: dict[str, Check] = {
    "bsonobjectid": _pattern("[0-9a-fA-F]{24}"),
    "byte": _pattern(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _cidr,
    "creditcard": _creditcard,
    "date": _date,
    "datetime": _datetime,
    "duration": _duration,
    "email": _email,
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _hostname,
    "ipv4": lambda text: "." in text and _ip(text),
    "ipv6": lambda text: ":" in text and _ip(text),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": lambda text: len(text) <= 253 and _LONG_NAME(text),
    "k8sshortname": lambda text: len(text) <= 63 and _SHORT_NAME(text),
    "mac": lambda text: _MAC().fullmatch(text) is not None,
    "password": lambda _: True,
    "rgbcolor": _pattern(rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)"),
    "ssn": _pattern("[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "uri": _uri,
    "uuid": _pattern(_UUID % (_ANY4, _ANY4)),
    "uuid3": _pattern(_UUID % ("3[0-9a-f]{3}", _ANY4)),
    "uuid4": _pattern(_UUID % ("4[0-9a-f]{3}", _VARIANT)),
    "uuid5": _pattern(_UUID % ("5[0-9a-f]{3}", _VARIANT)),
}
