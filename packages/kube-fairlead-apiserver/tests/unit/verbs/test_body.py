"""Large bodies are read beside the event loop."""

from __future__ import annotations

import threading
import types
from typing import Any

import pytest

from kube_fairlead_apiserver.offload import LARGE_BYTES, Offload, begin_request
from kube_fairlead_apiserver.verbs import body


class _Read(Exception):
    """The body has got as far as its reader."""


@pytest.mark.parametrize(("size", "beside"), [(LARGE_BYTES - 1, False), (LARGE_BYTES, True)])
async def test_where_a_body_is_read(size: int, beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def parse(*_: Any, **__: Any) -> body.Body:
        threads.append(threading.get_ident())
        raise _Read

    async def read_body() -> bytes:
        return b" " * size

    monkeypatch.setattr(body, "parse", parse)
    resource = types.SimpleNamespace(group="", version="v1", kind="ConfigMap", is_custom=False)
    request = types.SimpleNamespace(read_body=read_body)
    call: Any = types.SimpleNamespace(core=types.SimpleNamespace(offload=Offload()), request=request, resource=resource)
    begin_request("alice")
    with pytest.raises(_Read):
        await body.read_object(call)
    assert (threads != [threading.get_ident()]) is beside
