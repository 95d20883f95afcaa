"""The console's reports, as records.

Times are seconds since the epoch, prices US dollars an hour. As of ``cli.top.records``, every text is untrusted,
unknown fields are ignored and missing ones have a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Report(Struct, frozen=True, rename="camel"):
    """``problem``: why a part of the report is missing or old; empty for nothing."""

    problem: str = ""


class Rejection(Struct, frozen=True):
    """A pod, an offering or a node that was looked at and not taken."""

    what: str = ""
    why: str = ""


class PolicyPrice(Struct, frozen=True):
    """What the new machines of a decision cost by one packing policy."""

    cost: float
    machines: int = 0


class Decision(Struct, frozen=True):
    """A plan or a command. ``cost``: positive for what was bought, negative for what is saved."""

    at: float = 0.0
    kind: str = ""
    text: str = ""
    reason: str = ""
    pods: int = 0
    machines: tuple[str, ...] = ()
    cost: float | None = None
    bound: float | None = None
    """The least that new machines for the same pods can cost."""
    policies: Mapping[str, PolicyPrice] = field(default_factory=dict)
    rejected: tuple[Rejection, ...] = ()


class DecisionsReport(Report, frozen=True):
    """Newest first."""

    decisions: tuple[Decision, ...] = ()


class Costs(Struct, frozen=True, rename="camel"):
    """The cost of one moment, in three ways of dividing it."""

    total: float = 0.0
    by_pool: Mapping[str, float] = field(default_factory=dict)
    by_capacity_type: Mapping[str, float] = field(default_factory=dict)
    by_namespace: Mapping[str, float] = field(default_factory=dict)


class CostReport(Report, frozen=True):
    """``policies``: what new machines for the same pods would cost by each packing policy."""

    now: Costs = field(default_factory=Costs)
    bound: float | None = None
    bound_text: str = ""
    policies: Mapping[str, float] = field(default_factory=dict)


class Moving(Struct, frozen=True, rename="camel"):
    """A pod of an interrupted node. ``state``: there, left or moved. ``goes_to``: a node, empty for no place yet."""

    name: str = ""
    state: str = ""
    goes_to: str = ""
    type: str = ""


class Interruption(Struct, frozen=True, rename="camel"):
    """A node that AWS takes away."""

    node: str = ""
    name: str = ""
    kind: str = ""
    deadline: float | None = None
    since: float = 0.0
    state: str = ""
    gone_at: float | None = None
    pods: tuple[Moving, ...] = ()


class InterruptionsReport(Report, frozen=True):
    """What ends first stands first; what is gone stands last."""

    interruptions: tuple[Interruption, ...] = ()


class ConsumerGroup(Struct, frozen=True, rename="camel"):
    """A reader of a stream. ``waiting``: entries that it has not read, at least so many when ``waiting_more``."""

    name: str = ""
    waiting: int = 0
    waiting_more: bool = False
    pending: int = 0
    oldest_seconds: float | None = None
    consumers: int = 0


class Queue(Struct, frozen=True):
    """A stream. ``delayed``: messages that are delivered later. ``dead``: messages that were given up."""

    stream: str = ""
    length: int = 0
    delayed: int = 0
    dead: int = 0
    groups: tuple[ConsumerGroup, ...] = ()


class DeadLetter(Struct, frozen=True):
    """A message that was given up. ``replay``: the command that delivers it again."""

    stream: str = ""
    at: float = 0.0
    error: str = ""
    message: str = ""
    body: str = ""
    replay: str = ""


class QueuesReport(Report, frozen=True, rename="camel"):
    """All streams, and the newest dead letters."""

    queues: tuple[Queue, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()


class Service(Struct, frozen=True):
    """``leader``: leading or standby; None without leader election. ``problem``: why it does not answer."""

    name: str = ""
    ready: bool = False
    reasons: tuple[str, ...] = ()
    leader: str | None = None
    problem: str = ""


class Lease(Struct, frozen=True):
    """``renewed``: None when that cannot be read."""

    name: str = ""
    holder: str = ""
    renewed: float | None = None


class Mirror(Struct, frozen=True, rename="camel"):
    """The console's copy of the cluster. ``age_seconds``: None when the watcher was never heard."""

    ok: bool = False
    reason: str = ""
    age_seconds: float | None = None


class Watch(Struct, frozen=True, rename="camel"):
    """A watch of the watcher."""

    resource: str = ""
    sound: bool = False
    age_seconds: float | None = None


class HealthReport(Report, frozen=True):
    """Services, Leases, the mirror and its watches."""

    services: tuple[Service, ...] = ()
    leases: tuple[Lease, ...] = ()
    mirror: Mirror = field(default_factory=Mirror)
    watches: tuple[Watch, ...] = ()
