from __future__ import annotations

import json
import subprocess
import sys

import pytest

LIMIT_MEGABYTES = 40

IMPORTED = """
import json, sys
import kube_fairlead.client
print(json.dumps(sorted(sys.modules)))
"""

HELD = """
import asyncio
import kube_fairlead.client
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base import workqueue
from kube_fairlead.client import errors, informer, recorder, retry

async def main():
    access = kube_fairlead.client.Access(server="https://127.0.0.1:1")
    async with kube_fairlead.client.connect_to(access, retry_policy=retry.NEVER) as client:
        try:
            await client.of(GroupVersionResource("", "v1", "pods")).list()
        except errors.ServerUnreachable:
            pass
        with open("/proc/self/status") as status:
            print(next(line for line in status if line.startswith("VmRSS")).split()[1])

asyncio.run(main())
"""


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_importing_the_client_loads_nothing_that_it_may_not_need() -> None:
    loaded = set(json.loads(run(IMPORTED)))
    assert loaded.isdisjoint(
        {"aiohttp", "yaml", "cryptography", "prometheus_client", "uvicorn", "kube_fairlead.api.core_v1"}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_holding_a_client_is_cheap() -> None:
    run(HELD)  # the first run may compile, which costs memory that no later run pays
    assert int(run(HELD)) / 1024 < LIMIT_MEGABYTES
