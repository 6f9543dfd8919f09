"""The state of a shutdown on the node's disk: a restarted agent continues from it without the API server.

Every write is atomic (fsync and rename) and contains the boot id. The start is stored twice: as wall clock time, for
users and the API server, and on the monotonic clock, which counts from the boot in every process and never jumps.
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
from kube_fairlead.lifecycle.shutdown_plan import ActiveGroup
from kube_fairlead.lifecycle.shutdown_recovery import ShutdownEvidence
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd

__all__ = ["Boot", "EndedPod", "ShutdownState", "StateFile"]

_FILE: Final = "shutdown-state.json"

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Boot:
    """The present boot of the node."""

    boot_id: str
    booted_at: dt.datetime


class EndedPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod that the agent terminates. It stays in the file until the API server has its final status."""

    uid: str  # in the API
    namespace: str
    name: str
    runtime_uid: str = ""  # in the container runtime, if it differs
    containers: dict[str, ContainerEnd] = {}  # whose exit the agent observed
    boot_id: str = ""  # the boot in which its termination began
    asked_time: dt.datetime | None = None
    problem: str = ""  # why the agent did not observe its end

    def running(self) -> RunningPod:
        """Return the pod as the container runtime knows it."""
        return RunningPod(uid=self.runtime_uid or self.uid, namespace=self.namespace, name=self.name)


class ShutdownState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of one shutdown."""

    boot_id: str
    start_time: dt.datetime
    start_monotonic: float
    owner: str  # which process terminates the pods: kubelet or agent
    periods: tuple[Period, ...]  # of the start; a changed configuration applies to the next shutdown
    stage: ActiveGroup | None = None  # the group that is being terminated
    complete_time: dt.datetime | None = None
    cancelled: bool = msgspec.field(default=False, name="calledOff")  # its effects are being reverted
    kubelet_held: bool = False  # the kubelet held a shutdown lock of its own
    kubelet_stopped: bool = False
    asked: dict[str, float] = {}  # when the termination of a pod began, in seconds since the start, by runtime uid
    unseen: tuple[EndedPod, ...] = ()  # terminating, and not observed to end
    ended: tuple[EndedPod, ...] = ()  # ended; the API server does not have the final status yet
    outcomes: dict[str, int] = {}  # number of pods by outcome

    def elapsed(self, *, boot_id: str, now: dt.datetime, monotonic: float) -> float:
        """Return the seconds since the shutdown began."""
        if boot_id == self.boot_id and monotonic >= self.start_monotonic:
            return monotonic - self.start_monotonic
        return max(0.0, (now - self.start_time).total_seconds())

    def evidence(self) -> ShutdownEvidence:
        """Return what this state says about a shutdown, for a starting agent."""
        complete = self.complete_time is not None
        return ShutdownEvidence(self.start_time, self.boot_id, complete=complete, cancelled=self.cancelled)


class StateFile:
    """The file. Only the agent of this node writes it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FILE
        self._unwritten: ShutdownState | None = None  # the state after a write that failed

    def load(self) -> ShutdownState | None:
        """Return the stored state; None when there is none. An invalid file is renamed and ignored."""
        if self._unwritten is not None:
            return self._unwritten
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=ShutdownState)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            aside = self.path.with_suffix(".broken")
            _log.error("shutdown state file invalid, renamed", path=str(aside), error=str(error))
            with contextlib.suppress(OSError):
                self.path.replace(aside)
        except OSError as error:
            _log.error("cannot read shutdown state file", path=str(self.path), error=str(error))
        return None

    def save(self, state: ShutdownState) -> None:
        """Store the state durably.

        Raises:
            OSError: the write failed; this process still returns the state from `load`.
        """
        self._unwritten = state
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(self.path, msgspec.json.format(msgspec.json.encode(state), indent=1))
        self._unwritten = None

    def clear(self) -> None:
        """Remove the file. If that fails, the next process detects by the boot id that the file is stale."""
        self._unwritten = None
        try:
            self.path.unlink()
            files.sync_folder(self.path.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            _log.error("cannot remove shutdown state file", path=str(self.path), error=str(error))
