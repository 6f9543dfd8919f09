"""A lifecycle driver that reboots its node, once per event, however often it is asked.

A reboot is the hardest thing to do once: it kills the driver and the agent in the middle of the call. So the driver
writes down under which boot an event began, before anything else. When it is asked again after the reboot, the machine
says that it runs under another boot, and there is nothing left to do.

That is true however often it is asked: driver and agent may be killed once more before the agent has stored that the
event succeeded. So the record outlives its event, and only the latest few are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from kube_fairlead.drivers import sdk

KEPT = 20
"""How many events' records are kept. A node carries out one event at a time, so one would almost do."""


class Reboot(sdk.Driver):
    """Offers the transition `reboot`, from Rebooting to Rebooted."""

    name = "example.com/reboot"
    transitions = (sdk.Transition(name="reboot", start="Rebooting", end="Rebooted", sla="15m"),)

    def __init__(self, *, state: Path, command: Sequence[str], boot_id: Path) -> None:
        self._state = state
        self._command = command
        self._boot_id = boot_id

    async def start(self, work: sdk.Work) -> None:
        """Remember under which boot it began. A second call for the same event changes nothing."""
        self._state.mkdir(parents=True, exist_ok=True)
        begun = self._state / work.event_uid
        if not begun.exists():
            _write_durably(begun, self._current_boot())
            self._prune(begun)

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        """Reboot, unless that has happened since the start."""
        begun = self._state / work.event_uid
        if not begun.exists():
            # The files of this driver were lost on the way. Doing nothing is the only thing that is surely not wrong.
            raise sdk.Refused("it is not known any more under which boot this began; nothing was rebooted")
        if begun.read_text(encoding="utf-8") == self._current_boot():
            report(sdk.Progress(message="rebooting now"))
            await self._reboot()

    async def _reboot(self) -> None:
        process = await asyncio.create_subprocess_exec(*self._command, stderr=asyncio.subprocess.PIPE)
        _, said = await process.communicate()
        if process.returncode:
            raise sdk.Refused(f"{shlex.join(self._command)}: {said.decode(errors='replace').strip()[-500:]}")
        # The machine goes down under this process. If it does not, the deadline of the event ends the wait.
        await asyncio.Event().wait()

    def _prune(self, begun: Path) -> None:
        """Forget events that ended long ago; never the one that has begun, whatever the clock says after a boot."""
        others = [record for record in self._state.iterdir() if record != begun]
        others.sort(key=lambda record: record.stat().st_mtime_ns, reverse=True)
        for record in others[KEPT - 1 :]:
            record.unlink()

    def _current_boot(self) -> str:
        return self._boot_id.read_text(encoding="utf-8").strip()


def _write_durably(path: Path, text: str) -> None:
    """Written down means: it is still there after the power was cut."""
    unfinished = path.with_suffix(".new")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def main() -> None:
    """Serve until SIGTERM. The SDK's own flags, such as --registry-dir, are taken too."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--state-dir", type=Path, default=Path("/var/lib/reboot-driver"))
    parser.add_argument("--reboot-command", default="systemctl reboot")
    parser.add_argument("--boot-id-file", type=Path, default=Path("/proc/sys/kernel/random/boot_id"))
    own, others = parser.parse_known_args()
    driver = Reboot(state=own.state_dir, command=shlex.split(own.reboot_command), boot_id=own.boot_id_file)
    sdk.main(driver, others)


if __name__ == "__main__":
    main()
