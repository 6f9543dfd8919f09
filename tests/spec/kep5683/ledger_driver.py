"""A driver as a process, whose effects are lines in a file: what is in there twice was done twice.

What an event asks of it is in the event's annotations, `ledger.example.com/<option>`:
`hold: start|end` waits there until the file `go-<event>` is beside the ledger; `refuse: words` fails the end;
`report: 3` reports three steps of progress. The effect of a step is its line, so the driver sees what it has done in
any life before. Before it starts, it looks at the event through the API: were claim and finalizer stored?
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kube_fairlead import client
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.reserved import FINALIZER_CLAIMED, LIFECYCLE_GROUP
from kube_fairlead.api.scheme import Scheme
from kube_fairlead.base.clock import RealClock
from kube_fairlead.drivers import sdk

DRIVER = "example.com/ledger"
START, END = "LedgerOpened", "LedgerClosed"
OPTION = "ledger.example.com/"


class Ledger(sdk.Driver):
    name = DRIVER
    transitions = (
        sdk.Transition(name="ledger", start=START, end=END, sla="10m"),
        sdk.Transition(name="ledger-in-a-moment", start=START, end=END, sla="2s"),
        sdk.Transition(name="ledger-maintenance", start="MaintenanceInProgress", end="MaintenanceComplete"),
    )

    def __init__(self, path: Path, api: client.Client) -> None:
        self._path = path
        self._events = api.of(LifecycleEvent)

    async def start(self, work: sdk.Work) -> None:
        event = await self._events.get(work.event_name)
        if event.claim_status != "Claimed" or FINALIZER_CLAIMED not in event.metadata.finalizers:
            self._write(f"too-early {work.event_uid}")
        await self._do("start", work)

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        total = int(work.options.get("report", "0"))
        for done in range(1, total + 1):
            report(sdk.Progress(done=done, total=total, unit="lines", message=f"line {done}"))
        await self._do("end", work)

    async def _do(self, step: str, work: sdk.Work) -> None:
        self._write(f"called-{step} {work.event_uid}")
        if work.options.get("hold") == step:
            go = self._path.with_name(f"go-{work.event_name}")
            while not go.exists():
                await RealClock().sleep(0.02)
        if step == "end" and "refuse" in work.options:
            raise sdk.Refused(work.options["refuse"])
        line = f"{step} {work.event_uid}"
        if line not in lines(self._path):
            self._write(line)

    def _write(self, line: str) -> None:
        with self._path.open("a", encoding="ascii") as ledger:
            ledger.write(f"{line}\n")


def lines(path: Path) -> list[str]:
    """What was done."""
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--lifecycle-api-group", default=LIFECYCLE_GROUP)
    flags, others = parser.parse_known_args()
    api = client.connect(kubeconfig_path=flags.kubeconfig, scheme=Scheme(flags.lifecycle_api_group))
    sdk.main(Ledger(flags.ledger, api), others)
