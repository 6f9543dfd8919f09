"""resourceVersion in requests: its meaning for reads.

Upstream: k8s.io/apiserver@v0.36.4/pkg/storage/api_object_versioner.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/internalversion/validation/validation.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/errors.go
"""

from __future__ import annotations

import contextlib

from kube_fairlead.api import errors, golang
from kube_fairlead_apiserver.operations.core import Core

__all__ = ["parse_version", "wait_for_version"]

# Time that a read waits for a version that the server has not reached yet.
_PATIENCE_SECONDS = 3
_DIGITS = 19  # of the largest 64-bit number


def parse_version(text: str) -> int:
    """Return a resource version as a number; 0 when it is absent."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        shown = golang.quote(text)
        raise errors.BadRequest(
            f"invalid resource version: resourceVersion: Invalid value: {shown}: "
            f"strconv.ParseUint: parsing {shown}: invalid syntax"
        )
    return int(text)


async def wait_for_version(core: Core, text: str) -> int:
    """Wait until the server has reached the requested version, for a limited time.

    A request that goes on waits for its user's turn, and the time for that may end meanwhile: what counts is whether
    the version is there.
    """
    version = parse_version(text)
    if version > core.store.revision:
        with contextlib.suppress(TimeoutError):
            async with core.clock.timeout(_PATIENCE_SECONDS):
                await core.store.wait_revision(version)
        if version > core.store.revision:
            raise errors.Timeout(
                f"Timeout: Too large resource version: {version}, current: {core.store.revision}",
                details={
                    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                    "retryAfterSeconds": 1,
                },
            )
    return version
