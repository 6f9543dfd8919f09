"""A kopf operator as the work of a term, whose handlers and writes are refused once the lease cannot be relied on.

kopf queues events. In a process that was stopped past its lease (SIGSTOP, a paused machine) its queued handlers would
run before it can notice that another leads. So every handler checks the term before it starts, and so does every
write that kopf itself sends. A handler that is in the middle is cancelled with the rest of the work; one that does not
end in time, such as a synchronous one, ends the process, as all work does.

kopf is not a dependency of Fairlead: install it beside.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from typing import TYPE_CHECKING, Any

import aiohttp

from kube_fairlead.election.term import Term

if TYPE_CHECKING:
    import kopf

__all__ = ["operate"]

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
# The handlers of a registry by what calls them. Activities are not among them: a cleanup has to run in any case.
_GUARDED = ("_watching", "_spawning", "_changing", "_webhooks")
_ACTIVITIES = "_activities"


async def operate(term: Term, *, registry: kopf.OperatorRegistry | None = None, **options: Any) -> None:
    """Run a kopf operator for one term.

    Args:
        term: what `lead` passes to its work.
        registry: the handlers; those that were declared with kopf's decorators unless given.
        options: as for `kopf.operator`. Peering is off, because the Lease takes its place.

    Raises:
        RuntimeError: this version of kopf keeps its handlers where they cannot be guarded.
    """
    import kopf  # not a dependency: only programs that use it have it

    handlers = _guarded(registry if registry is not None else kopf.get_default_registry(), term)
    await kopf.operator(registry=handlers, stop_flag=term.stopping, **{"standalone": True, **options})


def _guarded(registry: kopf.OperatorRegistry, term: Term) -> kopf.OperatorRegistry:
    """The same handlers, each of which checks the term first. The program's own registry stays as it is."""
    made = copy.copy(registry)
    for name in (*_GUARDED, _ACTIVITIES):
        part = getattr(registry, name, None)
        handlers = getattr(part, "_handlers", None)
        if part is None or not isinstance(handlers, list):
            raise RuntimeError("this version of kopf is not known here: its handlers cannot be guarded")
        twin = copy.copy(part)
        wrap = _fenced_activity if name == _ACTIVITIES else _checked
        vars(twin)["_handlers"] = [wrap(handler, term) for handler in handlers]
        setattr(made, name, twin)
    return made


def _checked(handler: Any, term: Term) -> Any:
    """The handler, after a check of the term. A synchronous one checks in its own thread, when it starts."""
    function = handler.fn
    if inspect.iscoroutinefunction(inspect.unwrap(function)):

        @functools.wraps(function)
        async def asynchronous(*arguments: Any, **keywords: Any) -> Any:
            term.check()
            return await function(*arguments, **keywords)

        return dataclasses.replace(handler, fn=asynchronous)

    @functools.wraps(function)
    def synchronous(*arguments: Any, **keywords: Any) -> Any:
        term.check()
        return function(*arguments, **keywords)

    return dataclasses.replace(handler, fn=synchronous)


def _fenced_activity(handler: Any, term: Term) -> Any:
    """Of the activities, a login: the credentials that it finds become a session that refuses writes after the term."""
    if handler.activity.value != "login":
        return handler
    function = handler.fn

    @functools.wraps(function)
    async def login(*arguments: Any, **keywords: Any) -> Any:
        found = function(*arguments, **keywords)
        return _fenced(await found if inspect.isawaitable(found) else found, term)

    return dataclasses.replace(handler, fn=login)


def _fenced(credentials: Any, term: Term) -> Any:
    import kopf

    async def ask(_session: aiohttp.ClientSession, _context: Any, request: aiohttp.TraceRequestStartParams) -> None:
        if request.method not in _READS:
            term.check()

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(ask)
    trace.freeze()
    if isinstance(credentials, kopf.AiohttpSession):  # the program's own
        credentials.aiohttp_session.trace_configs.append(trace)
        return credentials
    if not isinstance(credentials, kopf.ConnectionInfo):
        return credentials  # none were found
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=credentials.as_ssl_context()),
        headers=credentials.as_http_headers(),
        proxy=credentials.proxy_url,
        trust_env=credentials.trust_env,
        trace_configs=[trace],
    )
    return kopf.AiohttpSession(
        server=credentials.server,
        priority=credentials.priority,
        default_namespace=credentials.default_namespace,
        expiration=credentials.expiration,
        aiohttp_session=session,
    )
