"""What the scheduler hands to its recorder: each round with its inputs, outcome and reasons. Nothing decides by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace

from services.scheduler.state.cluster import View
from services.scheduler.state.decisions import (
    Rejected,
    command_document,
    dropped_document,
    plan_decision,
)
from shared.concurrency.clock import Clock
from shared.disruption.records import Command, Proposal, Verdict
from shared.domain.snapshot import Snapshot
from shared.runtime.archive.recorder import DecisionRecorder
from shared.runtime.archive.writing import Draft, Taken
from shared.simulation.decisions.records import (
    PassQuestion,
    PlanQuestion,
    ValidationQuestion,
    pass_outcome,
    validation_outcome,
)
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.reasons import OUT_OF_TIME

NOTHING = "nothing to disrupt"


class Found(NamedTuple):
    """A command that a pass found. ``id``: that of its start, or its own while it waits for a validation; ``created``:
    names of its replacements once it starts; ``rejected``: what the pass decided against."""

    command: Command
    id: str
    created: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True)
class Recording:
    """``recorder`` None: nothing is recorded. ``epoch``: of the Lease."""

    recorder: DecisionRecorder | None
    view: View
    clock: Clock
    epoch: Callable[[], int]

    def taken(self, shown: Snapshot, snapshot: Snapshot | None = None) -> Taken | None:
        """To be called when the view has made ``shown``, before anything is awaited. ``snapshot``: what is decided on,
        where it differs."""
        if self.recorder is None:
            return None
        own = tuple(self.view.own_machines())
        return self.recorder.taken(_as_mirrored(shown), snapshot or shown, own)

    def plan(
        self,
        taken: Taken | None,
        plan: Plan,
        question: PlanQuestion,
        created: Sequence[PlannedMachine],
    ) -> None:
        """A round of provisioning."""
        if taken is None:
            return
        document, rejected = plan_decision(plan, created, taken.snapshot)
        names = tuple(machine.name for machine in created)
        timed_out = OUT_OF_TIME in plan.unschedulable.values()
        found = {"created": names, "rejected": rejected, "timed_out": timed_out}
        self._decided(taken, plan.id, question, plan, document, **found)

    def passed(
        self,
        taken: Taken | None,
        question: PassQuestion,
        tried: Sequence[tuple[str, Proposal]],
        found: Found | None,
    ) -> None:
        """A pass of disruption. ``found``: the command of the last of ``tried``."""
        if taken is None:
            return
        outcome = pass_outcome(tried)
        if found is None:
            self._decided(taken, "", question, outcome, {"text": NOTHING})
            return
        document = command_document(found.command)
        more = {"created": found.created, "rejected": found.rejected}
        self._decided(taken, found.id, question, outcome, document, **more)

    def validated(
        self,
        taken: Taken | None,
        question: ValidationQuestion,
        verdict: Verdict,
        found: Found | None,
    ) -> None:
        """A command was looked at again before its start. ``found``: as it starts."""
        if taken is None:
            return
        outcome = validation_outcome(verdict)
        if found is not None:
            document = command_document(found.command)
            more = {"created": found.created, "rejected": found.rejected}
            self._decided(taken, found.id, question, outcome, document, **more)
            return
        id_, document = dropped_document(question.command, verdict)
        rejected = [Rejected(**one) for one in document["rejected"]]
        self._decided(taken, id_, question, outcome, document, rejected=rejected)

    def _decided(
        self,
        taken: Taken,
        id_: str,
        question: Any,
        outcome: Any,
        document: dict[str, Any],
        **more: Any,
    ) -> None:
        assert self.recorder is not None
        now = self.clock.now()
        self.recorder.decided(
            Draft(
                taken=taken,
                id=id_,
                at=now,
                seconds=max(0.0, now - taken.at),
                epoch=self.epoch(),
                question=question,
                outcome=outcome,
                text=document["text"],
                reason=document.get("reason", ""),
                cost=document.get("cost"),
                bound=document.get("bound"),
                pods=document.get("pods", 0),
                rejected=tuple((one.what, one.why) for one in more.pop("rejected", ())),
                **more,
            )
        )


def _as_mirrored(shown: Snapshot) -> Snapshot:
    """Without what the settings made of its pods: the log has them as the watcher wrote them."""
    if not any(pod.expendable for pod in shown.pods):
        return shown
    pods = (replace(pod, expendable=False) if pod.expendable else pod for pod in shown.pods)
    return replace(shown, pods=tuple(pods))
