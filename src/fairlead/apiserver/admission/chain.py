"""The order of admission: every plugin may change the object, then every plugin looks at the result."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.apiserver.admission.interface import AdmissionPlugin, Operation

__all__ = ["Chain"]


class Chain:
    """Plugins in the order they are asked. The first refusal ends it."""

    def __init__(self, plugins: Sequence[AdmissionPlugin] = ()) -> None:
        self._plugins = tuple(plugins)

    async def admit(self, operation: Operation) -> None:
        """Let every plugin change the object."""
        for plugin in self._plugins:
            await plugin.admit(operation)

    async def validate(self, operation: Operation) -> None:
        """Show every plugin the final object."""
        for plugin in self._plugins:
            await plugin.validate(operation)
