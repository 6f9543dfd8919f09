"""The reboot driver, on a machine that really goes down under it: driver and agent die in the middle of the call."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kube_fairlead.drivers import sdk
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.examples.conftest import EXAMPLES
from tests.spec.kep5683.conftest import admin, lifecycle_plane, make_site
from tests.spec.kep5683.site import Site, condition, until

__all__ = ["admin", "lifecycle_plane"]  # fixtures

PROGRAM = EXAMPLES / "04-reboot-driver" / "reboot.py"


class Machine:
    """A node that can be rebooted: its boot id is a file, and its power button another."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.boot_id = site.folder / "boot_id"
        self.button = site.folder / "pressed"  # one line per press
        self._running: list[ManagedProcess] = []
        self._boots = 0

    def boot(self) -> None:
        """Power on: another boot id, and what is enabled is started."""
        self._boots += 1
        self.boot_id.write_text(f"boot-{self._boots}\n", encoding="ascii")
        driver = ManagedProcess(
            f"driver-{self._boots}",
            [
                sys.executable,
                str(PROGRAM),
                f"--registry-dir={self.site.folder / 'registry'}",
                f"--state-dir={self.site.folder / 'state'}",
                f"--boot-id-file={self.boot_id}",
                f"--reboot-command=sh -c 'echo >> {self.button}'",
            ],
            folder=self.site.folder,
        )
        driver.start()
        self._running = [driver, self.site.start_agent(f"agent-{self._boots}")]

    def power_off(self) -> None:
        for process in self._running:
            process.kill()

    @property
    def presses(self) -> int:
        return len(self.button.read_text(encoding="ascii").splitlines()) if self.button.exists() else 0


@pytest.fixture
def machine(lifecycle_plane: ControlPlane, unique_name: Callable[[str], str]) -> Iterator[Machine]:
    for site in make_site(lifecycle_plane, unique_name("machine")):
        made = Machine(site)
        made.boot()
        yield made
        made.power_off()


def work_of(uid: str) -> sdk.Work:
    return sdk.Work(
        event_uid=uid,
        event_name="e",
        node_name="n",
        node_uid="n-1",
        transition_name="reboot",
        start="Rebooting",
        end="Rebooted",
    )


def reboot_driver(folder: Path, boot_id: Path) -> sdk.Driver:
    module = runpy.run_path(str(PROGRAM))
    made: sdk.Driver = module["Reboot"](state=folder / "state", command=["false"], boot_id=boot_id)
    return made


async def test_a_reboot_that_is_done_stays_done_however_often_it_is_asked_for(tmp_path: Path) -> None:
    """Killed after the driver's answer and before the agent has stored it, driver and agent ask again."""
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("before", encoding="ascii")
    work = work_of("u-1")
    await reboot_driver(tmp_path, boot_id).start(work)
    boot_id.write_text("after", encoding="ascii")
    for _life in range(2):
        driver = reboot_driver(tmp_path, boot_id)
        await driver.start(work)
        await driver.end(work, lambda _progress: None)  # the command would fail


async def test_only_the_latest_records_are_kept(tmp_path: Path) -> None:
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("before", encoding="ascii")
    driver = reboot_driver(tmp_path, boot_id)
    for number in range(30):
        uid = f"u-{number:02}"
        await driver.start(work_of(uid))
        os.utime(tmp_path / "state" / uid, ns=(number, number))  # quicker than a file's time can tell
    assert sorted(record.name for record in (tmp_path / "state").iterdir()) == [
        f"u-{number}" for number in range(10, 30)
    ]


async def test_a_reboot_happens_once(machine: Machine, admin: RawApi, unique_name: Callable[[str], str]) -> None:
    site = machine.site
    async with site.watching(admin) as story:
        await site.ask(admin, name := unique_name("reboot"), "reboot")
        await until(lambda: machine.presses == 1)
        node = (await admin.get(site.node_path)).expect(200)
        assert condition(node)["reason"] == "Rebooting"
        machine.power_off()
        machine.boot()
        await story.until(name, "gone")
        assert story.seen[name] == ["Pending", "Claimed", "held", "Succeeded", "gone"]
        assert machine.presses == 1
        assert condition((await admin.get(site.node_path)).expect(200))["reason"] == "Rebooted"
        # A machine that cannot be rebooted says why.
        machine.button.unlink()
        machine.button.mkdir()  # nothing can be written there
        await site.ask(admin, name := unique_name("reboot"), "reboot")
        failed = (await story.until(name, "Failed"))["status"]
        assert machine.button.name in failed["message"]
        await story.until(name, "gone")
