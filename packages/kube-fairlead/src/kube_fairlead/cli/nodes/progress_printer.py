"""The progress of an operation on nodes, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from kube_fairlead.cli.nodes.console import Console
from kube_fairlead.operations import progress as p

__all__ = ["MaintenancePrinter", "ProgressPrinter"]

_DONE = {p.Operation.DRAIN: "drained", p.Operation.UNCORDON: "uncordoned"}


class ProgressPrinter:
    """Prints the progress of one operation, and remembers which nodes have not started.

    Args:
        console: where to print.
        verb: what the operation is called in errors, such as "drain".
        nodes: all nodes of the operation.
    """

    def __init__(self, console: Console, verb: str, nodes: Sequence[str] = ()) -> None:
        self._console = console
        self._verb = verb
        self.not_started = list(nodes)

    def __call__(self, progress: p.OperationProgress) -> None:
        """Print one step of progress."""
        say, warn = self._console.say, self._console.warn
        match progress:
            case p.Started(node):
                self.not_started.remove(node)
            case p.EventRequested(node, operation, event):
                say(f"node/{node}: {operation} requested (lifecycleevent/{event})")
            case p.EventJoined(node, operation, event, differences):
                say(f"node/{node}: {operation} is already in progress (lifecycleevent/{event})")
                if differences:
                    warn(f"node/{node}: it keeps its own options: {differences}")
            case p.EventChanged(node, _, _, summary, silence):
                self._console.status(node, f"{silence}; last known: {summary}" if silence else summary)
            case p.Unclaimed(node, _, reason):
                warn(f"node/{node}: {reason}")
            case p.TransitionEnded(node, operation, outcome):
                self._console.status(node, "")
                if not outcome.failed:
                    say(f"node/{node} {self._done(operation)}")
            case p.AwaitingReady(node):
                say(f"node/{node}: waiting for the node to be Ready")
            case p.HeldBack(unavailable):
                warn(f"waiting: cordoned or not Ready, and counted as unavailable: {', '.join(unavailable)}")
            case p.Ended(node, outcome):
                self._console.status(node, "")
                self._print_end(node, outcome)
            case p.StageReached(node, stage):
                self._enter(node, stage)
            case _ as never:
                assert_never(never)

    def _done(self, operation: p.Operation) -> str:
        return _DONE[operation]

    def _print_end(self, node: str, outcome: p.Outcome) -> None:
        if outcome.failed:
            line = f"error: unable to {self._verb} node {node!r}: {outcome.message}"
            self._console.warn("; ".join((line, *self._advice(node, outcome))))

    def _advice(self, node: str, outcome: p.Outcome) -> Iterator[str]:
        """What the user can do about a failure."""
        if outcome.open_event:
            yield f"`fairlead status {node}` shows the event, and the same command follows it again"

    def _enter(self, node: str, stage: p.MaintenanceStage) -> None:
        # Only a maintenance has stages; its printer overrides this.
        raise AssertionError(f"{self._verb} of {node} reported the stage {stage}")


class MaintenancePrinter(ProgressPrinter):
    """Prints the progress of a maintenance, and remembers the stage of each node."""

    def __init__(self, console: Console, nodes: Sequence[str] = ()) -> None:
        super().__init__(console, "maintain", nodes)
        self._stages: dict[str, p.MaintenanceStage] = {}

    def remains(self) -> Iterator[str]:
        """The state of each node after an interruption, a line each."""
        for node in self._at(p.MaintenanceStage.DRAINED):
            yield f"node/{node} is drained and stays drained; to make it schedulable: fairlead uncordon {node}"
        for node in self._at(p.MaintenanceStage.DRAINING):
            yield f"node/{node}: the drain continues; to make the node schedulable: fairlead uncordon {node}"
        for node in self._at(p.MaintenanceStage.UNCORDONING):
            yield f"node/{node}: the uncordon continues"
        if self.not_started:
            yield f"not started: {', '.join(self.not_started)}"

    def _at(self, stage: p.MaintenanceStage) -> list[str]:
        return [node for node, at in self._stages.items() if at is stage]

    def _enter(self, node: str, stage: p.MaintenanceStage) -> None:
        self._stages[node] = stage

    def _done(self, operation: p.Operation) -> str:
        return "maintenance complete" if operation is p.Operation.UNCORDON else super()._done(operation)

    def _print_end(self, node: str, outcome: p.Outcome) -> None:
        if outcome.result is p.Result.NOT_STARTED:
            self._console.warn(f"node/{node} was not started")
        else:
            super()._print_end(node, outcome)

    def _advice(self, node: str, outcome: p.Outcome) -> Iterator[str]:
        yield from super()._advice(node, outcome)
        if self._stages.get(node) is p.MaintenanceStage.DRAINED:
            yield f"it stays drained; to make it schedulable: fairlead uncordon {node}"
