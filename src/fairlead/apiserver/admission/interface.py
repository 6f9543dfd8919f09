"""What an admission plugin sees, and what it may do."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from fairlead.apiserver.attributes import UserInfo
from fairlead.apiserver.registry.resource import Resource

__all__ = ["AdmissionPlugin", "Operation"]

Json = dict[str, Any]


@dataclasses.dataclass(slots=True)
class Operation:
    """One write on its way to storage. ``obj`` is None for DELETE and CONNECT without a body; ``old`` for CREATE."""

    operation: str  # CREATE UPDATE DELETE CONNECT
    resource: Resource
    user: UserInfo
    namespace: str
    name: str
    obj: Json | None
    old: Json | None
    subresource: str = ""
    options: Json = dataclasses.field(default_factory=dict)
    dry_run: bool = False
    warnings: list[str] = dataclasses.field(default_factory=list)
    # The kind of ``obj`` when it is not the resource's own (Eviction, Scale, Binding).
    kind: tuple[str, str, str] | None = None
    audit_annotations: dict[str, str] = dataclasses.field(default_factory=dict)


class AdmissionPlugin(Protocol):
    """One rule. Both methods raise an API error to refuse."""

    async def admit(self, operation: Operation) -> None:
        """Change ``operation.obj`` in place, or refuse."""
        ...

    async def validate(self, operation: Operation) -> None:
        """Look at the final object; refuse or do nothing."""
        ...
