"""Health, readiness and version: paths that need no credentials.

Upstream: k8s.io/apiserver@v0.36.4/pkg/server/healthz/healthz.go,
    k8s.io/apiserver@v0.36.4/pkg/server/routes/version.go
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping

import kube_fairlead_apiserver
from kube_fairlead.api import errors
from kube_fairlead_apiserver.app import PathHandler
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.messages import Request, Response, json_response
from kube_fairlead_apiserver.types.resources import source_version

__all__ = ["Health", "version_info"]

# None when healthy, else the problem.
Check = Callable[[], str | None]


class Health:
    """Named checks behind /healthz, /livez and /readyz, as Kubernetes lays them out."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self._live = dict(live)
        self._ready = {**live, **ready}

    def paths(self) -> dict[str, PathHandler]:
        """Return the exact paths that this serves."""
        checks = dict.fromkeys(("/healthz", "/livez", "/readyz"), self._answer)
        return {**checks, "/version": self._version, "/version/": self._version}

    def prefixes(self) -> dict[str, PathHandler]:
        """Single checks, below the paths."""
        return {"/healthz/": self._single, "/livez/": self._single, "/readyz/": self._single}

    def _checks(self, path: str) -> Mapping[str, Check]:
        return self._ready if path.startswith("/readyz") else self._live

    async def _answer(self, request: Request, _user: UserInfo) -> Response:
        path = request.path
        excluded = set(request.query.all("exclude"))
        lines = []
        failed = False
        for name, check in self._checks(path).items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = check()
            failed = failed or problem is not None
            lines.append(f"[+]{name} ok" if problem is None else f"[-]{name} failed: {problem}")
        verdict = path.removeprefix("/") + " check " + ("failed" if failed else "passed")
        if failed:
            return Response(
                500,
                "\n".join([*lines, verdict, ""]).encode(),
                "text/plain; charset=utf-8",
                [("x-content-type-options", "nosniff")],
            )
        body = "\n".join([*lines, verdict, ""]) if "verbose" in request.query else "ok"
        return Response(200, body.encode(), "text/plain; charset=utf-8", [("x-content-type-options", "nosniff")])

    async def _single(self, request: Request, _user: UserInfo) -> Response:
        name = request.path.split("/", 2)[2]
        check = self._checks(request.path).get(name)
        if check is None:
            raise errors.NotFound("the server could not find the requested resource", details={})
        problem = check()
        if problem is not None:
            return Response(
                500,
                f"internal server error: {problem}\n".encode(),
                "text/plain; charset=utf-8",
                [("x-content-type-options", "nosniff")],
            )
        return Response(200, b"ok", "text/plain; charset=utf-8", [("x-content-type-options", "nosniff")])

    async def _version(self, _request: Request, _user: UserInfo) -> Response:
        return json_response(version_info())


def version_info() -> dict[str, str]:
    """Return the document of /version: the Kubernetes version, with this server in the build metadata."""
    spoken = source_version()
    major, minor, *_ = spoken.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{spoken}+fairlead-{kube_fairlead_apiserver.__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "CPython",
        "platform": f"linux/{_architecture()}",
    }


def _architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64", "AMD64": "amd64"}.get(machine, machine)
