"""Decision records: what the scheduler keeps of each round.

A record has everything that a round decided with, beside the cluster itself: the question. The cluster is restored from
the log at the record's ``position`` (module ``restoring``). So the same question can be answered again later, by the
same or by another version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from shared.disruption.delays import Changes
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.records import Command, Proposal, Verdict
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.shortages import Shortages
from shared.domain.snapshot import OfferingKey
from shared.domain.workloads.scale_down import KARPENTERS, ScaleDownRules
from shared.simulation.decisions.changes import Versions
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import SolverSettings


class PlanQuestion(msgspec.Struct, frozen=True, tag="plan"):
    """One round of provisioning: place these pods."""

    now: float
    """Seconds since the epoch."""
    settings: SolverSettings
    moving: tuple[str, ...] = ()
    """UIDs of bound pods that need another node, sorted."""


class PassQuestion(msgspec.Struct, frozen=True, tag="pass"):
    """One pass of disruption over the machines of one generation of the API."""

    now: float
    """Seconds since the epoch."""
    generation: str
    """Name of the generation of the API."""
    settings: SolverSettings
    gates: FeatureGates
    consolidation: str
    """Of pools that do not say."""
    churn: Churn
    off: bool = False
    nominated: tuple[str, ...] = ()
    """Names of nodes and machines that pods are to run on, sorted."""
    busy: tuple[str, ...] = ()
    """UIDs of machines that a running command holds, sorted."""
    offered: tuple[str, ...] = ()
    """UIDs of machines of commands that wait for an approval, sorted."""
    spent: dict[str, int] = {}
    """Pool key -> disruptions of the last hour."""
    unseen: tuple[str, ...] = ()
    """Keys of machines that the pass before had no time for, sorted."""
    rules: ScaleDownRules = KARPENTERS
    """Of Cluster Autoscaler."""
    changes: dict[str, Changes] = {}
    """When machines came and went last, as the delays of scale-down ask: by pool key, and of the cluster."""
    drift_held: tuple[str, ...] = ()
    """Keys of pools whose drifted machines were left alone, sorted (DRF-09)."""
    quiet: bool = False
    """Consolidation was left out, because it found nothing on equal inputs."""


class ValidationQuestion(msgspec.Struct, frozen=True, tag="validation"):
    """Is this command still right?"""

    world: PassQuestion
    command: Command


Question = PlanQuestion | PassQuestion | ValidationQuestion


class Stay(msgspec.Struct, frozen=True):
    """Why machines are not disrupted, grouped by the reason."""

    method: str
    event: str
    reason: str
    text: str
    pod: str
    machines: tuple[str, ...]
    """Keys."""


class CommandOutcome(msgspec.Struct, frozen=True):
    """A command, with the keys of its machines."""

    method: str
    reason: str
    candidates: tuple[str, ...]
    replacements: tuple[PlannedMachine, ...]
    targets: tuple[str, ...]
    saving_micro_usd_per_hour: int
    moved_pods: int
    text: str


class PassOutcome(msgspec.Struct, frozen=True):
    """What a pass found: the command of the first method that has one, and why the other machines stay."""

    command: CommandOutcome | None
    stay: tuple[Stay, ...]
    unseen: tuple[str, ...] = ()


class ValidationOutcome(msgspec.Struct, frozen=True):
    """The valid part of a command; None: it was dropped, with cause and text."""

    command: CommandOutcome | None
    cause: str = ""
    text: str = ""


Outcome = Plan | PassOutcome | ValidationOutcome


class Overlay(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the scheduler knew beyond the mirror when it took a snapshot."""

    pods: dict[str, dict[str, Any]] = {}
    """UID -> fields that differ from the mirror: promised and nominated pods count on a node."""
    machines: tuple[msgspec.Raw, ...] = ()
    """Records of machines that it had created and the mirror did not show yet."""


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the snapshot is that a decision was made on."""

    digest: str
    """Of everything in the snapshot: equal for equal snapshots, whoever recorded them."""
    generation: int
    """Of the mirror."""
    catalogue: str
    """Digest of the encoded catalogue, which is the name of its blob."""
    unavailable: tuple[OfferingKey, ...] = ()
    overlay: Overlay = Overlay()
    shortages: Shortages = ()
    """What past shortages added to prices."""
    series: str = ""
    """The series of the log that has the cluster; empty: it was lost, and the decision cannot be made again."""
    position: int = 0
    """How many changes had been seen."""


class DecisionRecord(msgspec.Struct, frozen=True):
    """One round. Amounts are in US dollars an hour: positive for what was bought, negative for what is saved."""

    id: str
    """Of the plan or command; that of a pass without a command is the digest of its input."""
    kind: str
    """``plan``, ``pass`` or ``validation``."""
    at: float
    """When it was decided, in seconds since the epoch."""
    seconds: float
    """How long that took."""
    epoch: int
    """Of the scheduler's Lease; 0 without one."""
    cluster: str
    versions: Versions
    input: Input
    question: Question
    outcome_digest: str
    outcome: msgspec.Raw
    """``Plan``, ``PassOutcome`` or ``ValidationOutcome``; ``null``: the same as in an earlier record of the series."""
    text: str
    reason: str = ""
    cost: float | None = None
    bound: float | None = None
    """No plan that places the same pods on new machines can cost less; None: not computed."""
    created: tuple[str, ...] = ()
    """Names of the machines that were created, those that a command waits for included."""
    rejected: tuple[tuple[str, str], ...] = ()
    """(what was not done, why)."""
    pods: int = 0
    shadow: bool = False
    """Decided by a scheduler that acts on nothing."""
    timed_out: bool = False
    """The time for planning was over before all pods had been tried: planning again may place more."""


_OUTCOMES: dict[str, Any] = {
    "plan": msgspec.json.Decoder(Plan),
    "pass": msgspec.json.Decoder(PassOutcome),
    "validation": msgspec.json.Decoder(ValidationOutcome),
}


def encode_outcome(outcome: Outcome) -> bytes:
    """The bytes that replay compares: equal outcomes have equal bytes."""
    return msgspec.json.encode(outcome)


def decode_outcome(kind: str, outcome: bytes | msgspec.Raw) -> Outcome:
    """Inverse of ``encode_outcome`` for a record of this kind. Raises msgspec.ValidationError."""
    found: Outcome = _OUTCOMES[kind].decode(outcome)
    return found


def command_outcome(command: Command) -> CommandOutcome:
    """What is kept of a command."""
    return CommandOutcome(
        method=command.method,
        reason=command.reason,
        candidates=tuple(candidate.machine.key for candidate in command.candidates),
        replacements=command.replacements,
        targets=command.targets,
        saving_micro_usd_per_hour=command.saving_micro_usd_per_hour,
        moved_pods=command.moved_pods,
        text=command.text,
    )


def pass_outcome(tried: Iterable[tuple[str, Proposal]]) -> PassOutcome:
    """``tried``: (method, what it found), in the order in which they were tried."""
    command: CommandOutcome | None = None
    unseen: tuple[str, ...] = ()
    stay: dict[tuple[str, str, str, str, str], list[str]] = {}
    for method, proposal in tried:
        for one in proposal.rejections:
            group = (method, one.event, one.reason, one.text, one.pod)
            stay.setdefault(group, []).append(one.machine_key)
        unseen = proposal.unseen or unseen
        if proposal.commands and command is None:
            command = command_outcome(proposal.commands[0])
    grouped = tuple(Stay(*group, tuple(keys)) for group, keys in stay.items())
    return PassOutcome(command, grouped, unseen)


def validation_outcome(verdict: Verdict) -> ValidationOutcome:
    """What is kept of a validation."""
    command = None if verdict.command is None else command_outcome(verdict.command)
    return ValidationOutcome(command, str(verdict.cause or ""), verdict.text)
