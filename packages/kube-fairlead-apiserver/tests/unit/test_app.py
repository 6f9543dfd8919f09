"""An observer of requests that fails: what the request held is let go of all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead_apiserver.app import Application
from kube_fairlead_apiserver.http.messages import Query, Request, Response
from kube_fairlead_apiserver.http.streams import Stream
from tests.inprocess import serving


class Failing:
    """Passes everything on but the answer."""

    def begin(self, _request: object, _info: object) -> object:
        return None

    def identified(self, _token: object, _caller: object, _user: object) -> None:
        return None

    def end(self, _token: object, response: Response) -> Response:
        raise RuntimeError(f"cannot note the answer {response.status}")


class Body(Stream):
    over = False
    let_go = False

    def next_piece(self) -> bytes | None:
        return None

    def listen(self, listener: Callable[[], None] | None) -> None:
        del listener

    def _release(self) -> None:
        self.let_go = True


async def no_body() -> bytes:
    return b""


async def test_a_stream_is_closed(tmp_path: Path) -> None:
    async with serving(tmp_path, VirtualClock()) as server:
        made: list[Body] = []

        async def answer(_request: Request, _user: object) -> Response:
            made.append(Body())
            return Response(body=made[0])

        application = msgspec.structs.replace(server._application(), paths={"/version": answer}, observers=(Failing(),))
        assert isinstance(application, Application)
        with pytest.raises(RuntimeError, match="cannot note the answer 200"):
            await application.handle(Request("GET", "/version", Query({}), {}, no_body, target="/version"))
        assert made[0].let_go
