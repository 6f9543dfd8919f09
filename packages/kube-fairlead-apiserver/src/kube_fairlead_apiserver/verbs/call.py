"""One decoded and authorized request for a resource: the argument of every verb.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/rest.go
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.http.messages import Request
from kube_fairlead_apiserver.operations.core import Core, WriteOptions
from kube_fairlead_apiserver.patch.apply.managers import manager_name
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_apiserver.verbs.options import check_write_options

__all__ = ["Call"]


class Call(msgspec.Struct, eq=False):
    """A request for one resource (and subresource), by one user."""

    core: Core
    request: Request
    info: RequestInfo
    resource: Resource
    user: UserInfo
    require: Callable[[Attributes], None]
    warnings: list[str] = []
    headers_sent: bool = False  # the columns of a Table have been sent on this stream

    def require_create(self) -> None:
        """Raise Forbidden unless the user may create: a change may find no object and create it."""
        asked = self.info.attributes(self.user)
        self.require(msgspec.structs.replace(asked, verb="create", subresource="", fields=None))

    def check_named(self, obj: Json) -> None:
        """Raise BadRequest for the body of a PUT that names another object than its path."""
        wanted, name = self.info.name, (obj.get("metadata") or {}).get("name")
        if not name:
            raise errors.BadRequest(
                f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            )
        if name != wanted:
            raise errors.BadRequest(f"the name of the object ({name}) does not match the name on the URL ({wanted})")

    def write_options(self, wire_kind: str, *, dry_run: bool | None = None) -> WriteOptions:
        """The write options of this request."""
        query = self.request.query
        applies = self.request.header("content-type").startswith("application/apply-patch")
        check_write_options(wire_kind, query, applies=applies and wire_kind == "PatchOptions")
        asked = query.all("dryRun")
        # Admission sees a patch as the resulting update.
        shown_kind = "UpdateOptions" if wire_kind == "PatchOptions" else wire_kind
        wire: dict[str, object] = {"kind": shown_kind, "apiVersion": "meta.k8s.io/v1"}
        if asked:
            wire["dryRun"] = asked
        for parameter in ("fieldManager", "fieldValidation"):
            if parameter in query:
                wire[parameter] = query.get(parameter)
        return WriteOptions(
            user=self.user,
            field_manager=self.field_manager(),
            dry_run=bool(asked) if dry_run is None else dry_run,
            wire=wire,
            warnings=self.warnings,
            audit_annotations=self.request.audit_annotations,
        )

    def field_manager(self) -> str:
        """Return the field manager: the parameter, else the program's name in User-Agent."""
        return manager_name(self.request.query.get("fieldManager"), self.request.header("user-agent")) or "unknown"
