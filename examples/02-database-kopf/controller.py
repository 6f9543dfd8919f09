"""A controller of databases, written with kopf, that honours the grace period of a deletion.

Run it with `kopf run controller.py`. Deleting a Database drains its connections within the grace period:

- `--grace-period=600`, maintenance: transactions may take up to ten minutes;
- `--grace-period=10`, an emergency: the same, and clients are asked to finish soon;
- `--grace-period=0 --force`: connections are cut at once.

The running handler obeys a later delete with less time: `grace.follow` watches for it, because kopf notifies only the
next handler.
"""

from __future__ import annotations

from typing import Any

import kopf
from database import Database

from kube_fairlead import client, grace
from kube_fairlead.api.gvk import GroupVersionResource

DATABASES = GroupVersionResource("db.example.com", "v1", "databases")
KIND = (DATABASES.group, DATABASES.version, DATABASES.resource)
# Below this grace period, clients are asked to finish soon.
HURRY_SECONDS = 30


@kopf.on.startup()
async def connect(memo: kopf.Memo, **_: Any) -> None:
    """What the handlers below share."""
    memo.client = client.connect(component="database-controller")
    memo.native = await grace.is_native(memo.client)
    memo.databases = {}


@kopf.on.cleanup()
async def disconnect(memo: kopf.Memo, **_: Any) -> None:
    """Databases end with the process that runs them."""
    for database in memo.databases.values():
        database.cut()
    await memo.client.close()


@kopf.on.create(*KIND)
@kopf.on.resume(*KIND)
async def serve(uid: str, memo: kopf.Memo, **_: Any) -> dict[str, int]:
    """Start the database; its port is in the status."""
    database = memo.databases[uid] = Database()
    await database.start()
    return {"port": database.port}


@kopf.on.delete(*KIND)
async def drain(body: kopf.Body, uid: str, memo: kopf.Memo, logger: kopf.Logger, **_: Any) -> None:
    """Give connections the time that was granted. Then kopf removes its finalizer, and the object goes."""
    database: Database | None = memo.databases.pop(uid, None)
    if database is None:
        return  # it ended with an earlier run of this process
    api = memo.client.of(DATABASES)
    default_seconds = body["spec"]["drainSeconds"]
    async with grace.follow(api, body, native=memo.native, default_seconds=default_seconds) as countdown:
        if countdown.is_forced:
            logger.info("forced: %d connections cut", database.cut())
            return
        left = countdown.remaining
        hurry = left is not None and left < HURRY_SECONDS
        logger.info("draining, %s", "in a hurry" if hurry else "without haste")
        try:
            await countdown.within(database.drain(hurry=hurry))
        except grace.DeadlinePassed:
            logger.info("the time is over: %d connections cut", database.cut())
        else:
            logger.info("drained")
