"""What the scheduler hands to its recorder: each round with its inputs, outcome and reasons. Nothing decides by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from shared.redis.mirror import MirrorReader
from shared.runtime.archive.opening import open_store, versions_now
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.archive.recorder import Counts, DecisionRecorder
from shared.runtime.archive.writing import Draft, LogWriter, Taken
from shared.runtime.environment import Environment
from shared.settings import SchedulerSettings
from shared.simulation.decisions.names import role_of
from shared.simulation.decisions.records import (
    PassQuestion,
    PlanQuestion,
    ValidationQuestion,
    pass_outcome,
    validation_outcome,
)
from shared.simulation.decisions.retention import Retention
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
    """``recorder`` None: nothing is recorded. ``epoch``: of the Lease. ``shadow``: nothing is created, so records
    tell what would have been, and for how much."""

    recorder: DecisionRecorder | None
    view: View
    clock: Clock
    epoch: Callable[[], int]
    shadow: bool = False

    def taken(self, shown: Snapshot, snapshot: Snapshot | None = None) -> Taken | None:
        """To be called when the view has made ``shown``, before anything is awaited. ``snapshot``: what is decided on,
        where it differs."""
        if self.recorder is None:
            return None
        own = tuple(self.view.own_machines())
        return self.recorder.taken(shown, snapshot or shown, own)

    def plan(
        self,
        taken: Taken | None,
        plan: Plan,
        question: PlanQuestion,
        desired: Sequence[PlannedMachine],
        created: Sequence[PlannedMachine],
    ) -> None:
        """A round of provisioning. ``desired``: what was to be created."""
        if taken is None:
            return
        bought = desired if self.shadow else created
        document, rejected = plan_decision(plan, bought, taken.snapshot)
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


def recorder_of(
    env: Environment[SchedulerSettings], reader: MirrorReader
) -> DecisionRecorder | None:
    """None where nothing is recorded."""
    settings = env.settings
    if not settings.record_store:
        return None
    most_bytes = settings.record_max_megabytes * 1_000_000
    return DecisionRecorder(
        store=open_store(settings.record_store, endpoint_url=settings.record_endpoint_url),
        writer=LogWriter(
            cluster=settings.cluster_name,
            shadow=settings.shadow,
            versions=versions_now(),
            suffix=f"{env.random.getrandbits(32):08x}",
            series_bytes=most_bytes // 8,
        ),
        retention=Retention(settings.record_max_age, most_bytes),
        clock=env.clock,
        counts=Counts(
            records=env.metrics.decision_records.inc,
            stored_bytes=env.metrics.decision_record_bytes.inc,
            failures=env.metrics.decision_record_failures.inc,
            lost=env.metrics.decision_records_lost.inc,
            size=env.metrics.archive_bytes.set,
        ),
        contents=lambda: reader.kinds,
    )


def place_of(settings: SchedulerSettings) -> ArchivePlace:
    """Where this scheduler records."""
    return ArchivePlace(
        settings.record_store,
        settings.record_endpoint_url,
        settings.cluster_name,
        role_of(settings.shadow),
    )
