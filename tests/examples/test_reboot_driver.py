"""The reboot driver, on a machine that really goes down under it: driver and agent die in the middle of the call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from fairlead.testing import ControlPlane
from fairlead.testing.processes import ManagedProcess
from fairlead.testing.rawhttp import RawApi
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
        assert list((site.folder / "state").iterdir()) == []

        # A machine that cannot be rebooted says why.
        machine.button.unlink()
        machine.button.mkdir()  # nothing can be written there
        await site.ask(admin, name := unique_name("reboot"), "reboot")
        failed = (await story.until(name, "Failed"))["status"]
        assert machine.button.name in failed["message"]
        await story.until(name, "gone")
