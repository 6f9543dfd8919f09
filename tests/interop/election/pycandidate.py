"""A candidate on kube_fairlead.election, as a process: while it leads, it writes to the ConfigMap `written`.

`--no-check` leaves it to the API server's fence to stop it when its lease ran out while it was frozen.
"""

from __future__ import annotations

import argparse
import json
import pathlib

from kube_fairlead import client
from kube_fairlead.api import core_v1
from kube_fairlead.api import errors as api_errors
from kube_fairlead.base import process
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import errors, retry
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.election import Lock, Rules, StopReason, Term, Timing, guarded, lead


def tell(event: str, why: str = "") -> None:
    print(json.dumps({"event": event, "why": why}), flush=True)  # noqa: T201 - what its test reads


async def campaign(options: argparse.Namespace) -> None:
    timing = Timing(
        lease_duration_seconds=options.lease_duration,
        renew_deadline_seconds=options.renew_deadline,
        retry_period_seconds=options.retry_period,
    )
    async with client.connect(kubeconfig_path=options.kubeconfig, environment=Environment({})) as connected:

        async def work(term: Term) -> None:
            tell("leading")
            writer = (guarded(connected, term) if options.check else connected).with_retry(retry.NEVER)
            maps = writer.of(core_v1.ConfigMap)

            async def write(count: int) -> None:
                patch = MergePatch({"data": {"by": options.identity, "count": str(count)}})
                try:
                    await maps.patch("written", patch, namespace=options.namespace)
                except (api_errors.ApiError, errors.ClientError) as error:
                    tell("refused", str(error))

            count = 0
            try:
                while not term.stopping.is_set():
                    await write(count)
                    count += 1
                    await connected.clock.sleep(options.write_interval)
                tell("stopping", str(term.stop_reason))
            finally:
                if not options.check and term.stop_reason is StopReason.LOST:
                    # The worst of controllers: its lease is lost, it is cancelled, and it writes all the same.
                    await write(count)
                    tell("ended")

        lock = Lock(options.namespace, options.lease)
        await lead(connected, lock, work, identity=options.identity, timing=timing, rules=Rules())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=pathlib.Path, required=True)
    for name in ("namespace", "lease", "identity"):
        parser.add_argument(f"--{name}", required=True)
    for name, default in (
        ("lease-duration", 15),
        ("renew-deadline", 10),
        ("retry-period", 2),
        ("write-interval", 0.05),
    ):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--no-check", dest="check", action="store_false")
    options = parser.parse_args()
    process.run(lambda: campaign(options))
    tell("stopped")


if __name__ == "__main__":
    main()
