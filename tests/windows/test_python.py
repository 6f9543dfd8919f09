"""The package on Windows' own CPython, with the wheels that exist for it."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from kube_fairlead_lab.testing import EmbeddedControlPlane
from tests.windows.site import Site
from tests.windows.wine import Wine, windows_path

pytestmark = pytest.mark.timeout(600)

IMPORTS = """
import importlib, pkgutil, kube_fairlead, kube_fairlead_apiserver, kube_fairlead_lab
failed = {}
packages = (kube_fairlead, kube_fairlead_apiserver, kube_fairlead_lab)
names = [one.name for each in packages for one in pkgutil.walk_packages(each.__path__, f"{each.__name__}.")]
names = [name for name in names if not name.endswith("__main__") and not name.startswith("kube_fairlead_lab.testing")]
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed[name] = str(error)
print(len(names), failed)
"""

REFUSALS = """
from kube_fairlead.cli.main import main
install = ["agent", "install-service", "--name=never"]
wrong = (["--no-such-flag"], ["--state-dir=here"], ["word"], [r"--kubeconfig=C:\\none"])
print("codes", [main([*install, *flags]) for flags in wrong])
short = "--name=short"
print("made", main(["agent", "install-service", short, "--no-start"]), main(["agent", "remove-service", short]))
print("early", main(["agent", "--v=4", "install-service", "--name=never"]))
print("code", main(["agent", "remove-service", "--name=never"]))
"""

PROTECTED = """
import ctypes, pathlib, sys
from kube_fairlead.agent.windows.folders import protect
folder = pathlib.Path(sys.argv[1]) / "new" / "folder"
pointer = ctypes.c_void_p

def rights():
    library = ctypes.WinDLL("advapi32")
    found, text = pointer(), ctypes.c_wchar_p()
    library.GetNamedSecurityInfoW.argtypes = [ctypes.c_wchar_p, ctypes.c_uint32, ctypes.c_uint32, *[pointer] * 5]
    assert library.GetNamedSecurityInfoW(str(folder), 1, 4, None, None, None, None, ctypes.byref(found)) == 0
    words = library.ConvertSecurityDescriptorToStringSecurityDescriptorW
    words.argtypes = [pointer, ctypes.c_uint32, ctypes.c_uint32, pointer, pointer]
    assert words(found, 1, 4, ctypes.byref(text), None)
    return text.value

folder.mkdir(parents=True)
print("everybody" if "WD" in rights() else "nobody")
protect(folder)
print("everybody" if "WD" in rights() else "nobody")
(folder / "mine").write_text("x")
protect(folder)
print((folder / "mine").read_text())
try:
    protect(folder / "mine")
except OSError as error:
    print(type(error).__name__)
"""

FILES = """
import pathlib, sys
from kube_fairlead.agent.shutdown.state_file import ShutdownState, StateFile
from kube_fairlead.base import files
folder = pathlib.Path(sys.argv[1])
path = folder / "a.json"
for content in (b"one\\n", b"two\\r\\n\\x1a"):
    files.write_atomically(path, content)
    assert path.read_bytes() == content
with path.open("rb"):
    try:
        files.write_atomically(path, b"three")
    except OSError:
        assert path.read_bytes() == content  # a reader in the way costs the new content, never the old
assert [one.name for one in folder.iterdir()] == ["a.json"]
state_file = StateFile(folder)
import datetime as dt
state = ShutdownState(boot_id="7", start_time=dt.datetime.now(dt.UTC), start_monotonic=1.0, owner="agent", periods=())
state_file.save(state)
assert state_file.load() == state
state_file.clear()
assert state_file.load() is None
with files.FileLock(folder / "lock"):
    try:
        files.FileLock(folder / "lock")
        raise SystemExit("locked twice")
    except files.LockTaken:
        pass
files.FileLock(folder / "lock").close()
print("whole")
"""


def test_the_agent_says_how_it_is_used(machine: Wine) -> None:
    code, output = machine.fairlead("agent", "--help")
    assert code == 0, output
    for word in ("--windows-service", "install-service", "remove-service", r"%ProgramData%\fairlead", "--config"):
        assert word in output
    assert "--registry-dir" not in output


def test_every_module_can_be_imported(machine: Wine) -> None:
    code, output = machine.python("-c", IMPORTS)
    assert code == 0, output
    number, _, failed = output.strip().partition(" ")
    assert int(number) > 500
    assert failed == "{}"


def test_files_are_whole_or_not_there_and_locks_are_one_process_only(machine: Wine, tmp_path: pathlib.Path) -> None:
    code, output = machine.python("-c", FILES, windows_path(tmp_path))
    assert (code, output.strip()) == (0, "whole")


def test_the_agents_folder_is_nobody_elses(machine: Wine, tmp_path: pathlib.Path) -> None:
    """Wine keeps of a list of rights what the modes of files can say; whether everybody is on it is among that."""
    code, output = machine.python("-c", PROTECTED, windows_path(tmp_path))
    assert code == 0, output
    assert output.split() == ["everybody", "nobody", "x", "FileExistsError"]


def test_a_service_that_could_not_start_is_not_made(machine: Wine) -> None:
    code, output = machine.python("-c", REFUSALS)
    assert code == 0, output
    said = " ".join(output.split())
    for words in (
        "No such option",
        "--state-dir here must be an absolute path",
        "takes no argument 'word'",
        "does not exist",
        "codes [2, 2, 2, 2]",
        "without --kubeconfig it finds a cluster only if KUBECONFIG is set",
        "made 0 0",
        "must come after install-service",
        "early 2",
        "opening the service never",
        "code 1",
    ):
        assert words in said
    assert machine.ask("facts", "never") is None


async def test_a_process_that_is_no_service_says_so_and_works_without_the_feature(
    machine: Wine, tmp_path: pathlib.Path, fairlead_shared_apiserver: EmbeddedControlPlane
) -> None:
    async with fairlead_shared_apiserver.client() as client:
        site = Site(machine, tmp_path, fairlead_shared_apiserver, client, "console")
        await site.register()
        flags = site.flags("shutdownGracePeriod: 30s\n")
        agent = machine.start("-m", "kube_fairlead.cli", "agent", "--windows-service", *flags)
        try:
            await site.until(lambda: "node lease acquired" in site.log(), "the agent works")
        finally:
            agent.terminate()
            await asyncio.to_thread(agent.communicate, timeout=60)
        assert (
            "this process is not a Windows service: the agent does not handle shutdowns of this machine" in site.log()
        )
        assert not (tmp_path / "state/shutdown").exists()
