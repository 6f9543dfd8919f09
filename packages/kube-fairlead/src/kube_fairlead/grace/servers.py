"""Whether an API server honours the grace period of custom resources by itself."""

from __future__ import annotations

import msgspec

from kube_fairlead.client import errors
from kube_fairlead.client.client import Client

__all__ = ["is_native", "is_native_version"]

# In the build metadata of the version, where semantic versioning has a distribution name itself.
_MARK = "+fairlead-"


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


_versions = msgspec.json.Decoder(_Version)


def is_native_version(git_version: str) -> bool:
    """Whether a server of this version does."""
    return _MARK in git_version


async def is_native(client: Client) -> bool:
    """Call it once, at the start of a controller, and pass the result on as ``native``.

    Raises:
        ApiError, ClientError: the server did not answer.
    """
    response = await client.request("GET", "/version")
    try:
        return is_native_version(_versions.decode(response.body).git_version)
    except msgspec.DecodeError as error:
        raise errors.AnswerInvalid(f"invalid answer to /version: {error}") from error
