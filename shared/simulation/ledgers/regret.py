"""What consolidations saved, against what they promised: from the course of a recorded period. Pure.

A command's account is open from its start until the next change of the nodes that its pods went to: a replacement or a
target goes. In that time it gets the price of each of its machines from the end of the instance on, and pays that of
its replacements from their launch on. A machine that is bought in the same pool meanwhile would not have been needed
with the room that is gone: its price counts against the latest commands first, as far as they still save anything.

Amounts are micro-USD (an hour, where the name says so); times are seconds since the epoch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from shared.disruption.candidates import Prices
from shared.domain.machines.commands import CommandRecord, holder
from shared.domain.machines.machine import INSTANCE_TERMINATING, Machine
from shared.domain.workloads.pods import Pod, is_reschedulable
from shared.simulation.decisions.records import (
    CommandOutcome,
    DecisionRecord,
    PassOutcome,
    PassQuestion,
    PlanQuestion,
    ValidationOutcome,
    decode_outcome,
)
from shared.simulation.ledgers.allocation import UNLABELLED, price_of
from shared.simulation.ledgers.instances import HOUR, end_of, launch_of

METHODS = frozenset({"emptiness", "multi-node", "single-node", "global"})
"""Those that promise to save."""
STILL = "still saves"
ROLLED_BACK = "rolled back"
BOUGHT_AGAIN = "bought again"


class Promise(NamedTuple):
    """What a command said when it was decided. ``move_cost``: assumed for one pod."""

    outcome: CommandOutcome
    move_cost: int


@dataclass
class Span:
    """An instance of a command. None: not begun, not ended yet."""

    micro_usd_per_hour: int = 0
    begun: float | None = None
    ended: float | None = None

    def seconds(self, end: float) -> float:
        """How long it was paid for up to ``end``."""
        if self.begun is None:
            return 0.0
        return max(0.0, min(end, self.ended if self.ended is not None else end) - self.begun)


@dataclass
class Account:
    """One command."""

    command: CommandRecord
    at: float
    pools: tuple[str, ...]
    promise: Promise | None
    """None: its decision is not recorded."""
    removed: dict[str, Span] = field(default_factory=dict)
    """By key: the machines that go."""
    added: dict[str, Span] = field(default_factory=dict)
    """By key: their replacements."""
    bought: list[tuple[float, int]] = field(default_factory=list)
    """(when, how much an hour) was bought again of what it saves."""
    moved_pods: int = 0
    ended: float | None = None
    why: str = STILL
    """Why the account was closed."""

    @property
    def promised_per_hour(self) -> int:
        return self.promise.outcome.saving_micro_usd_per_hour if self.promise else 0

    def rate(self) -> int:
        """How much it saves an hour once all its machines are gone, without what was bought again."""
        removed = sum(span.micro_usd_per_hour for span in self.removed.values())
        added = sum(span.micro_usd_per_hour for span in self.added.values())
        return removed - added - sum(amount for _, amount in self.bought)

    def until(self, end: float) -> float:
        """When the account was closed; ``end`` while it is open."""
        return end if self.ended is None else self.ended

    def promised(self, end: float) -> float:
        """At the promised rate, from its start until it was closed."""
        return self.promised_per_hour * (self.until(end) - self.at) / HOUR

    def saved(self, end: float) -> float:
        """Up to ``end``, or until it was closed."""
        until = self.until(end)
        without = sum(
            span.micro_usd_per_hour * (max(0.0, until - span.ended) if span.ended else 0.0)
            for span in self.removed.values()
        )
        paid = sum(span.micro_usd_per_hour * span.seconds(until) for span in self.added.values())
        again = sum(amount * max(0.0, until - at) for at, amount in self.bought)
        return (without - paid - again) / HOUR

    def move_cost(self) -> int:
        """Assumed for the pods that it moved."""
        return self.moved_pods * (self.promise.move_cost if self.promise else 0)

    def net(self, end: float) -> float:
        """What was saved, less the assumed cost of the moves: negative is a regret."""
        return self.saved(end) - self.move_cost()


class Total(NamedTuple):
    """All commands of one pool and reason."""

    pools: tuple[str, ...]
    reason: str
    commands: int
    promised: float
    saved: float
    moved_pods: int
    net: float
    regretted: int
    """Commands with a negative net."""


@dataclass
class Regret:
    """Follows a period. Feed it every change of machines and pods, decision and price, in order."""

    accounts: dict[str, Account] = field(default_factory=dict)
    """By id of the command, in the order of their starts."""
    _promises: dict[str, Promise] = field(default_factory=dict)
    _prices: Prices = field(default_factory=dict)
    _machines: dict[str, Machine] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)
    """Key of a pod that would move -> its node."""

    def priced(self, prices: Prices) -> None:
        """Offerings have these prices from now on."""
        self._prices = prices

    def decided(self, record: DecisionRecord) -> None:
        """A round was decided."""
        promise = promise_of(record)
        if promise is not None:
            self._promises[record.id] = promise

    def pod(self, key: str, pod: Pod | None) -> None:
        """A pod is like this now; None: it is gone."""
        if pod is not None and pod.node_name and is_reschedulable(pod):
            self._nodes[key] = pod.node_name
        else:
            self._nodes.pop(key, None)

    def machine(self, at: float, key: str, machine: Machine | None) -> None:
        """A machine is like this now; None: it is gone."""
        before = self._machines.get(key)
        if machine is None:
            self._machines.pop(key, None)
        else:
            self._machines[key] = machine
            self._begin(at, machine)
            if machine.provider_id and not (before and before.provider_id):
                self._launched(at, machine)
        if before is not None:
            self._roll_back(at, before, machine)
            self._go(at, before, machine)

    def _begin(self, at: float, machine: Machine) -> None:
        command = None if machine.terminating else holder(machine)
        if command is None or command.method not in METHODS or command.id in self.accounts:
            return
        known = [self._machines.get(key) for key in command.candidates]
        pools = tuple(sorted({m.pool_key or UNLABELLED for m in known if m is not None}))
        promise = self._promises.get(command.id)
        account = Account(command, command.begun_at or at, pools, promise)
        for one in filter(None, known):
            account.removed[one.key] = Span(price_of(one, self._prices) or 0)
        planned = promise.outcome.replacements if promise else ()
        for key, new in zip_longest(command.replacements, planned[: len(command.replacements)]):
            account.added[key] = Span(new.offering.price_micro_usd_per_hour if new else 0)
        self.accounts[command.id] = account

    def _launched(self, at: float, machine: Machine) -> None:
        begun = launch_of(at, machine)
        price = price_of(machine, self._prices) or 0
        for account in self._open():
            if machine.key in account.added:
                account.added[machine.key] = Span(price, begun)
                return
        for account in reversed(self._open()):
            if machine.pool_key in account.pools and account.at <= machine.created_at:
                price -= self._buy_again(account, begun, price)

    def _buy_again(self, account: Account, at: float, price: int) -> int:
        """How much of the price counts against this command."""
        amount = max(0, min(price, account.rate()))
        if amount:
            account.bought.append((at, amount))
            if account.rate() <= 0:
                account.ended, account.why = at, BOUGHT_AGAIN
        return amount

    def _open(self) -> list[Account]:
        return [account for account in self.accounts.values() if account.ended is None]

    def _roll_back(self, at: float, before: Machine, machine: Machine | None) -> None:
        command = holder(before)
        if command is None or machine is None or machine.terminating or holder(machine):
            return
        account = self.accounts.get(command.id)
        if account is not None and account.ended is None:
            account.ended, account.why = at, ROLLED_BACK

    def _go(self, at: float, before: Machine, machine: Machine | None) -> None:
        goes = (machine is None or machine.terminating) and not before.terminating
        ended = end_of(at, machine) if not before.has(INSTANCE_TERMINATING) else None
        for account in self._open():
            if goes and before.key in account.removed:
                account.moved_pods += sum(node == before.node_name for node in self._nodes.values())
            if ended is not None:
                self._note_end(account, before.key, ended)
            if goes and _took_pods(account, before):
                account.ended, account.why = at, f"{before.node_name or before.name} went"

    def _note_end(self, account: Account, key: str, ended: float) -> None:
        span = account.removed.get(key) or account.added.get(key)
        if span is not None and span.ended is None:
            span.ended = ended

    def totals(self, end: float) -> list[Total]:
        """By pool and reason, the largest regret first."""
        groups: defaultdict[tuple[tuple[str, ...], str], list[Account]] = defaultdict(list)
        for account in self.accounts.values():
            groups[account.pools, account.command.reason].append(account)
        found = [_total(pools, reason, own, end) for (pools, reason), own in groups.items()]
        return sorted(found, key=lambda one: (one.net, one.pools, one.reason))


def _total(pools: tuple[str, ...], reason: str, own: list[Account], end: float) -> Total:
    nets = [account.net(end) for account in own]
    return Total(
        pools=pools,
        reason=reason,
        commands=len(own),
        promised=sum(account.promised(end) for account in own),
        saved=sum(account.saved(end) for account in own),
        moved_pods=sum(account.moved_pods for account in own),
        net=sum(nets),
        regretted=sum(net < 0 for net in nets),
    )


def _took_pods(account: Account, machine: Machine) -> bool:
    targets = account.promise.outcome.targets if account.promise else ()
    return (
        machine.key in account.added or machine.node_name in targets or machine.name in targets
    ) and machine.key not in account.removed


def promise_of(record: DecisionRecord) -> Promise | None:
    """Of a round that found a command; also of one that has to be looked at again before it starts."""
    question = record.question
    if isinstance(question, PlanQuestion):
        return None
    outcome = decode_outcome(record.kind, record.outcome)
    assert isinstance(outcome, PassOutcome | ValidationOutcome)
    if outcome.command is None:
        return None
    world = question if isinstance(question, PassQuestion) else question.world
    return Promise(outcome.command, world.churn.move_cost_micro_usd)
