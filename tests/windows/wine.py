"""A Windows machine of a test's own: a Wine prefix, an interpreter in it, and its service control manager."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

REPOSITORY = pathlib.Path(__file__).parents[2]
# Starting a program takes a second here; a machine that is busy with other things gets much longer.
PATIENCE_SECONDS = 300


def windows_path(path: pathlib.Path) -> str:
    """The same file, as a program in Wine sees it."""
    return "Z:" + str(path).replace("/", "\\")


class Wine:
    """Up from `boot` to `off`. What its programs print comes through pipes: a file as output ends some of them."""

    def __init__(self, parts: pathlib.Path) -> None:
        self._parts = parts
        # Beside the template, so that its files can be linked instead of copied.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="session-", dir=parts))
        self._environment = {
            **os.environ,
            "PATH": f"{parts / 'root/usr/lib/wine'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(parts / "root/usr/lib/x86_64-linux-gnu"),
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINEDEBUG": "-all",
        }
        self._environment.pop("DISPLAY", None)
        self._python = self.folder / "python"
        self.went_down = False
        self._asking: subprocess.Popen[str] | None = None

    def make(self) -> None:
        template = (self._parts / "prefix").resolve()
        subprocess.run(["cp", "-al", template, self.folder / "prefix"], check=True)
        for registry in (self.folder / "prefix").glob("*.reg"):  # these are written in place
            registry.unlink()
            shutil.copyfile(template / registry.name, registry)
        self._python.mkdir()
        binaries = [path for path in (self._parts / "python").iterdir() if path.is_file()]
        for path in [*binaries, self._parts / "built/bcryptprimitives.dll"]:
            (self._python / path.name).symlink_to(path)
        packages = sorted(REPOSITORY.glob("packages/*"))  # beside each one's `src` is its `tests`
        sources = [folder for package in packages for folder in (package / "src", package)]
        found = [self._parts / "python/Lib", (self._parts / "wheels").resolve(), *sources, REPOSITORY]
        lines = [*(windows_path(path) for path in found), ".", ""]
        (self._python / "python311._pth").write_text("\r\n".join(lines))

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def boot(self) -> None:
        """Up, with its own services started."""
        self._boot()
        deadline = time.monotonic() + PATIENCE_SECONDS
        running = ""
        while not all(name in running for name in ("Remote Procedure Call", "Plug and Play")):
            assert time.monotonic() < deadline, f"Wine's own services do not start; these run: {running}"
            self._run(["net", "start", "RpcSs"])  # which starts on demand; that it does shows that any service can
            _, running = self._run(["net", "start"])

    def _boot(self) -> None:
        # Persistent, or services would end with the last program; without our pipes, which daemons would keep open.
        self._server("-p")
        subprocess.run(
            ["wine64", "wineboot"],
            check=True,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
        )

    def off(self) -> None:
        if self._asking is not None:
            self._asking.communicate(timeout=PATIENCE_SECONDS)
            self._asking = None
        self._server("-k", check=False)
        self._server("-w", check=False)

    def come_up_again(self) -> None:
        """After it went down, if it did."""
        if self.went_down:
            self.off()
            self.boot()
            self.went_down = False

    def _server(self, flag: str, *, check: bool = True) -> None:
        subprocess.run(
            [self._parts / "root/usr/lib/wine/wineserver", flag],
            check=check,
            env=self._environment,
            timeout=PATIENCE_SECONDS,
        )

    @property
    def python_path(self) -> str:
        return windows_path(self._python / "python.exe")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Python there."""
        return subprocess.Popen(
            ["wine64", self.python_path, *arguments],
            env=self._environment,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def python(self, *arguments: str) -> tuple[int, str]:
        """Run Python there to its end: exit code and output."""
        return self._run([self.python_path, *arguments])

    def fairlead(self, *arguments: str) -> tuple[int, str]:
        return self.python("-m", "kube_fairlead.cli", *arguments)

    def ask(self, *question: str) -> Any:
        """Ask the service control manager, by another process than any service's."""
        if self._asking is None:
            self._asking = self.start("-m", "tests.windows.asking")
        asking = self._asking
        if asking.stdin is None or asking.stdout is None:
            raise AssertionError("it was started with pipes")
        asking.stdin.write(json.dumps(question) + "\n")
        asking.stdin.flush()
        line = asking.stdout.readline()
        assert line.startswith("{"), line + asking.stdout.read()
        said = json.loads(line)
        assert "failure" not in said, said["failure"]
        return said["answer"]

    def go_down(self, service: str, watched_ms: int) -> list[tuple[int, ...]]:
        """Tell every service that the machine goes down; what is seen of one: milliseconds, state, checkpoint, hint."""
        self.went_down = True
        trigger = windows_path(self._parts / "built/preshutdown.exe")
        code, output = self._run([trigger, service, str(watched_ms)])
        assert code == 0, output
        return [tuple(map(int, line.split())) for line in output.splitlines()]

    def _run(self, command: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            ["wine64", *command],
            check=False,
            env=self._environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_SECONDS,
        )
        return done.returncode, done.stdout.decode(errors="replace").replace("\r\n", "\n")
