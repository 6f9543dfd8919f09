"""URLs as Go's net/url parses them: ``url('https://example.com:80/a b').getHost()``.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/urls.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/url.go
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import urllib.parse

from kube_fairlead.api import golang
from kube_fairlead_apiserver.cel import errors, values
from kube_fairlead_apiserver.cel.declarations import Library, function, member
from kube_fairlead_apiserver.cel.library import costs
from kube_fairlead_apiserver.cel.types import BOOL, STRING, CelType, Kind, list_of, map_of

__all__ = ["URLS", "Url", "check_request_uri", "parse_url"]

_URL = CelType(Kind.OBJECT, "kubernetes.URL")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_ASCII_ESCAPE = re.compile(r"%(?!25)[0-7][0-9A-Fa-f]")
_BAD_HOST_CHARACTER = re.compile(r"[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PORT = re.compile(r"(?::[0-9]*)?")
# Characters that Go does not escape in a path, and those that it accepts as already escaped.
_PATH_SAFE = "-_.~$&+,/:;=@"
_PATH_ENCODED = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Url(values.Opaque):
    """A parsed URL; two are equal when their texts are equal."""

    scheme: str
    user: str
    host: str
    path: str  # escaped
    query: str
    opaque: str
    fragment: str

    @property
    def cel_type(self) -> CelType:  # type: ignore[override]  # the same for all, but a dataclass would make it a field
        """The type of every URL."""
        return _URL

    def hostname(self) -> str:
        """Return the host without port and brackets."""
        host = self.host
        colon = host.rfind(":")
        if colon >= 0 and _PORT.fullmatch(host[colon:]):
            host = host[:colon]
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    def port(self) -> str:
        """Return the port, or an empty text."""
        colon = self.host.rfind(":")
        return self.host[colon + 1 :] if colon >= 0 and _PORT.fullmatch(self.host[colon:]) else ""

    def query_values(self) -> dict[str, list[str]]:
        """Return the query parameters, unescaped, each with all its values."""
        found: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
                continue
            key, _, value = pair.partition("=")
            found.setdefault(urllib.parse.unquote_plus(key), []).append(urllib.parse.unquote_plus(value))
        return found


def check_request_uri(text: str) -> None:
    """Accept what url.ParseRequestURI accepts: an absolute URI or path; a ValueError has Go's text."""
    _read(text, whole=text, via_request=True)


def parse_url(text: str) -> Url:
    """Parse a text as url.Parse does; a ValueError has Go's text."""
    before, _, fragment = text.partition("#")
    parsed = _read(before, whole=before, via_request=False)
    return dataclasses.replace(parsed, fragment=fragment)


def _read(text: str, *, whole: str, via_request: bool) -> Url:
    try:
        return _parse(text, via_request=via_request)
    except ValueError as error:
        raise ValueError(f"parse {golang.quote(whole)}: {error}") from None


def _parse(text: str, *, via_request: bool) -> Url:
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and via_request:
        raise ValueError("empty url")
    if text == "*":
        return Url("", "", "", "*", "", "", "")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[0][:-1].lower() if match else ""
    rest, _, query = text[match.end() if match else 0 :].partition("?")
    user = host = ""
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, "", "", "", query, rest, "")
        if via_request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme or not (via_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(scheme, authority)
    return Url(scheme, user, host, _escaped_path(rest), query, "", "")


def _check_escapes(text: str) -> None:
    bad = _BAD_ESCAPE.search(text)
    if bad:
        raise ValueError(f"invalid URL escape {golang.quote(bad[0])}")


def _escaped_path(path: str) -> str:
    _check_escapes(path)
    if _PATH_ENCODED.fullmatch(path):
        return path
    return urllib.parse.quote(urllib.parse.unquote_to_bytes(path), safe=_PATH_SAFE)


def _authority(scheme: str, authority: str) -> tuple[str, str]:
    user, separator, host = authority.rpartition("@")
    host = _host(scheme, host)
    if separator:
        if not _USERINFO.fullmatch(user):
            raise ValueError("net/url: invalid userinfo")
        _check_escapes(user)
    return user, host


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {golang.quote(port)} after host")


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise ValueError("invalid IP-literal")
    if bracket == 0:
        inside, closing, port = host[1:].rpartition("]")
        if not closing:
            raise ValueError("missing ']' in host")
        _check_port(port)
        inside = _unescaped_host(inside)
        try:
            version = ipaddress.ip_address(inside).version
        except ValueError:
            raise ValueError(f"invalid host: ParseAddr({golang.quote(inside)}): unable to parse IP") from None
        if version == 4:
            raise ValueError("invalid IP-literal")
        return f"[{inside}]{port}"
    colon = host.find(":")
    if colon >= 0:
        if scheme not in {"http", "https"}:
            colon = host.rfind(":")
        _check_port(host[colon:])
    return _unescaped_host(host)


def _unescaped_host(host: str) -> str:
    _check_escapes(host)
    ascii_escape = _ASCII_ESCAPE.search(host)
    if ascii_escape:
        raise ValueError(f"invalid URL escape {golang.quote(ascii_escape[0])}")
    bad = _BAD_HOST_CHARACTER.search(host)
    if bad:
        raise ValueError(f"invalid character {golang.quote(bad[0])} in host name")
    return urllib.parse.unquote(host)


def _url(text: str) -> Url:
    try:
        check_request_uri(text)
        return parse_url(text)
    except ValueError as error:
        raise errors.EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        check_request_uri(text)
    except ValueError:
        return False
    return True


URLS = Library(
    "kubernetes.urls",
    overloads=(
        function("url", (STRING,), _URL, _url, costs.traversal),
        function("isURL", (STRING,), BOOL, _is_url),
        member("getScheme", (_URL,), STRING, lambda url: url.scheme),
        member("getHost", (_URL,), STRING, lambda url: url.host),
        member("getHostname", (_URL,), STRING, Url.hostname),
        member("getPort", (_URL,), STRING, Url.port),
        member("getEscapedPath", (_URL,), STRING, lambda url: url.path),
        member("getQuery", (_URL,), map_of(STRING, list_of(STRING)), Url.query_values),
    ),
)
