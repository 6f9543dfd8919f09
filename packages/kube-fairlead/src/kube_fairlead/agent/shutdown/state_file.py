"""What the node's own disk remembers of a shutdown: enough to go on without asking anybody.

Every write is whole or not there (fsync and rename), and names the boot it speaks of. Times are kept twice: as wall
time, for people and for the API, and as seconds of the monotonic clock, which counts from the boot for every process
alike and does not jump.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from pathlib import Path
from typing import Final

import msgspec

from kube_fairlead.agent.shutdown.pod_runtime import RunningPod
from kube_fairlead.base import files, logs
from kube_fairlead.lifecycle.shutdown_config import Period
from kube_fairlead.lifecycle.shutdown_plan import Stage
from kube_fairlead.lifecycle.shutdown_recovery import Witness
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["EndedPod", "Machine", "ShutdownState", "StateFile"]

_FILE: Final = "shutdown-state.json"

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """Which boot this is."""

    boot_id: str
    booted_at: dt.datetime


class EndedPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod that was ended, and how far that is known. It stays here until the API knows."""

    uid: str  # in the API
    namespace: str
    name: str
    runtime_uid: str = ""  # in the container runtime, where that is another
    containers: dict[str, ContainerEnd] = {}  # those that were seen to end
    boot_id: str = ""  # the boot in which it was asked to end
    asked_time: dt.datetime | None = None
    problem: str = ""  # why the agent could not see it end

    def running(self) -> RunningPod:
        """The pod as the container runtime knows it."""
        return RunningPod(uid=self.runtime_uid or self.uid, namespace=self.namespace, name=self.name)


class ShutdownState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A shutdown as it stands."""

    boot_id: str
    start_time: dt.datetime
    start_monotonic: float
    owner: str  # who ends the pods: kubelet or agent
    periods: tuple[Period, ...]  # as they were when it began; a changed configuration counts for the next one
    stage: Stage | None = None  # the group under way
    complete_time: dt.datetime | None = None
    called_off: bool = False  # it is over; what it has left behind is being cleared away
    kubelet_held: bool = False  # it had a lock of its own
    kubelet_stopped: bool = False
    asked: dict[str, float] = {}  # when pods were asked to end, by the runtime's uid, in seconds since it began
    unseen: tuple[EndedPod, ...] = ()  # asked to end, and not seen to have ended
    ended: tuple[EndedPod, ...] = ()  # seen to have ended; the API does not know yet
    outcomes: dict[str, int] = {}  # pods by how they ended

    def elapsed(self, *, boot_id: str, now: dt.datetime, monotonic: float) -> float:
        """Seconds since it began."""
        if boot_id == self.boot_id and monotonic >= self.start_monotonic:
            return monotonic - self.start_monotonic
        return max(0.0, (now - self.start_time).total_seconds())

    def witness(self) -> Witness:
        """What a starting agent is told by it."""
        complete = self.complete_time is not None
        return Witness(self.start_time, self.boot_id, complete=complete, called_off=self.called_off)


class StateFile:
    """The file. Nobody else writes it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FILE
        self._unwritten: ShutdownState | None = None  # what this process knows and its disk does not

    def load(self) -> ShutdownState | None:
        """What is remembered; None when nothing is. A file that makes no sense is put aside, not believed."""
        if self._unwritten is not None:
            return self._unwritten
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=ShutdownState)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            aside = self.path.with_suffix(".broken")
            _log.error("the state of the shutdown is unreadable and is put aside", path=str(aside), error=str(error))
            with contextlib.suppress(OSError):
                self.path.replace(aside)
        except OSError as error:
            _log.error("the state of the shutdown cannot be read", path=str(self.path), error=str(error))
        return None

    def save(self, state: ShutdownState) -> None:
        """Remember, durably once this returns.

        Raises:
            OSError: the disk does not; as long as this process lives it is remembered all the same.
        """
        self._unwritten = state
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(self.path, msgspec.json.format(msgspec.json.encode(state), indent=1))
        self._unwritten = None

    def clear(self) -> None:
        """Forget: it is over. A file that cannot be removed is seen to be stale by the next process."""
        self._unwritten = None
        try:
            self.path.unlink()
            files.sync_folder(self.path.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            _log.error("the state of a shutdown that is over cannot be removed", path=str(self.path), error=str(error))
