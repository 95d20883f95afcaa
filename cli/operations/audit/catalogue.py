"""The promises that a live cluster is judged by, each with what must be read for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cli.operations.audit.finding import Finding, Graces
from cli.operations.audit.judging.deletions import deletions_end
from cli.operations.audit.judging.instances import (
    instances_have_machines,
    machines_have_instances,
    machines_have_nodes,
    nodes_have_machines,
    one_instance_each,
)
from cli.operations.audit.judging.machines import (
    machines_become_ready,
    nodes_are_open,
    records_end,
)
from cli.operations.audit.judging.pools import within_limits
from cli.operations.audit.judging.redis import (
    messages_are_handled,
    mirror_is_equal,
    mirror_is_fresh,
    queues_are_bounded,
)
from cli.operations.audit.picture import Input, Reading

Judge = Callable[[Reading, Graces], list[Finding]]
Result = Literal["holds", "broken", "not judged", "skipped"]


@dataclass(frozen=True)
class Promise:
    """``name``: what holds, as one short sentence. ``needs``: without one of them it is not judged."""

    name: str
    needs: tuple[Input, ...]
    judge: Judge


PROMISES = (
    Promise("each instance has a machine", ("instances", "machines", "records"), instances_have_machines),
    Promise("no machine has two instances", ("instances", "machines", "records"), one_instance_each),
    Promise("each launched machine has its instance", ("instances", "machines", "nodes"), machines_have_instances),
    Promise("each node has a machine", ("nodes", "machines"), nodes_have_machines),
    Promise("each registered machine has its node", ("nodes", "machines"), machines_have_nodes),
    Promise("machines become ready or go", ("machines",), machines_become_ready),
    Promise("nodes that stay are open for pods", ("nodes", "machines"), nodes_are_open),
    Promise("deletions end", ("machines", "nodes", "pools", "classes", "pods", "budgets"), deletions_end),
    Promise("launch records end", ("records", "machines"), records_end),
    Promise("no pool is above its limits", ("pools", "machines"), within_limits),
    Promise("queues are bounded", ("queues",), queues_are_bounded),
    Promise("messages are handled", ("queues",), messages_are_handled),
    Promise("the mirror is written", ("mirror",), mirror_is_fresh),
    Promise("the mirror equals the API server", ("mirror",), mirror_is_equal),
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """One promise by one reading. ``unread``: why it was not judged; empty when it was. ``skipped``: nor was it to
    be."""

    promise: str
    findings: tuple[Finding, ...] = ()
    unread: str = ""
    skipped: bool = False

    @property
    def broken(self) -> tuple[Finding, ...]:
        """What breaks it."""
        return tuple(one for one in self.findings if one.counts)

    @property
    def result(self) -> Result:
        """In one word or two."""
        if self.skipped:
            return "skipped"
        if self.unread:
            return "not judged"
        return "broken" if self.broken else "holds"


def judged(
    reading: Reading, graces: Graces, promises: Sequence[Promise] = PROMISES
) -> list[Verdict]:
    """Every promise by one reading. A finding that must be seen twice is among them."""
    return [_judged(promise, reading, graces) for promise in promises]


def _judged(promise: Promise, reading: Reading, graces: Graces) -> Verdict:
    if reading.skipped & set(promise.needs):
        return Verdict(promise.name, skipped=True)
    missing = dict.fromkeys(reading.unread[one] for one in promise.needs if one in reading.unread)
    if missing:
        return Verdict(promise.name, unread="; ".join(missing))
    return Verdict(promise.name, tuple(promise.judge(reading, graces)))


def confirmed(first: Sequence[Verdict], second: Sequence[Verdict]) -> list[Verdict]:
    """The second reading's verdicts, without what must be seen twice and was not in the first."""
    seen = {_identity(verdict, one) for verdict in first for one in verdict.findings}
    return [
        replace(
            verdict,
            findings=tuple(
                one for one in verdict.findings if not one.twice or _identity(verdict, one) in seen
            ),
        )
        for verdict in second
    ]


def _identity(verdict: Verdict, finding: Finding) -> tuple[str, str, str]:
    return verdict.promise, finding.subject, finding.version


def needs_second(verdicts: Sequence[Verdict]) -> bool:
    """Whether a second reading must decide."""
    return any(one.twice for verdict in verdicts for one in verdict.findings)
