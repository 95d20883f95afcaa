"""Faults of AWS: refused and lost calls, stale lists, no capacity, a queue that repeats itself.

They use the emulator's control endpoint, so that the same faults strike an emulator in this process or in another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Self

from simulation.faults.fault import Fault, FaultyWorld, Span, later

THROTTLED = {
    "code": "RequestLimitExceeded",
    "message": "Request limit exceeded.",
    "status": 503,
}
FORBIDDEN = {
    "code": "UnauthorizedOperation",
    "message": "You are not authorized to perform this operation.",
    "status": 403,
}
EFFECTS = (
    "CreateFleet",
    "CreateFleet",
    "TerminateInstances",
    "CreateLaunchTemplate",
    "CreateTags",
    "DeleteMessage",
)
"""Actions whose answer may be lost after the effect; those that cost money count twice."""
LAGS = ("describeLagSeconds", "tagLagSeconds", "templateLagSeconds")
"""What EC2 shows late: instances, the first tags of an instance, launch templates."""
LARGEST_SEED = 2**31


@dataclass(frozen=True, slots=True)
class StaleLists(Fault):
    """Describe calls show each instance, its tags, its end and new launch templates up to three minutes late."""

    kind: ClassVar[str] = "ec2-stale-lists"
    lag_seconds: float
    seconds: float
    seed: int

    @property
    def text(self) -> str:
        return f"EC2's lists are up to {self.lag_seconds} s behind, for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        lag = round(random.uniform(1.0, 180.0), 1)
        return cls(
            span.begin, lag, span.seconds(random, 30.0, 240.0), random.randrange(LARGEST_SEED)
        )

    async def apply(self, world: FaultyWorld) -> None:
        lags = dict.fromkeys(LAGS, self.lag_seconds)
        world.aws.control("settings", {**lags, "describeLagSeed": self.seed})
        later(self.seconds, world.aws.control, "settings", dict.fromkeys(LAGS, 0))


@dataclass(frozen=True, slots=True)
class ListsLate(StaleLists):
    """As ``ec2-stale-lists``, by what EC2 is known to need: up to a minute and a half."""

    kind: ClassVar[str] = "ec2-lists-late"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        lag, seconds = round(random.uniform(60.0, 90.0), 1), span.seconds(random, 60.0, 120.0)
        return cls(span.begin, lag, seconds, random.randrange(LARGEST_SEED))


@dataclass(frozen=True, slots=True)
class Shortage(Fault):
    """EC2 has no capacity in a share of the offerings."""

    kind: ClassVar[str] = "ec2-shortage"
    zone: str
    capacity_type: str
    percent: float
    seconds: float
    seed: int

    @property
    def text(self) -> str:
        offerings = f"{self.percent:g} % of the offerings ({self.capacity_type} in {self.zone})"
        return f"EC2 has no capacity in {offerings} for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        zone = random.choice(("*", "*a", "*b"))
        capacity_type = random.choice(("*", "spot", "spot", "on-demand"))
        percent = random.choice((50.0, 90.0, 100.0))
        seconds = span.seconds(random, 20.0, 180.0)
        return cls(
            span.begin, zone, capacity_type, percent, seconds, random.randrange(LARGEST_SEED)
        )

    async def apply(self, world: FaultyWorld) -> None:
        body = {"instanceType": "*", "zone": self.zone, "capacityType": self.capacity_type}
        short = {**body, "available": 0, "percent": self.percent, "seed": self.seed}
        world.aws.control("capacity", short)
        later(self.seconds, world.aws.control, "capacity", {**body, "available": None})


@dataclass(frozen=True, slots=True)
class Throttling(Fault):
    """AWS refuses a share of the calls because there are too many."""

    kind: ClassVar[str] = "aws-throttling"
    action: str
    percent: float
    seconds: float
    seed: int

    @property
    def text(self) -> str:
        return f"AWS throttles {self.percent:g} % of the calls {self.action} for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        action = random.choice(("*", "CreateFleet", "Describe*", "TerminateInstances"))
        percent = random.choice((30.0, 90.0))
        seconds = span.seconds(random, 5.0, 90.0)
        return cls(span.begin, action, percent, seconds, random.randrange(LARGEST_SEED))

    async def apply(self, world: FaultyWorld) -> None:
        which = {"action": self.action, "percent": self.percent, "seed": self.seed}
        world.aws.control("faults", {**THROTTLED, **which, "seconds": self.seconds})


@dataclass(frozen=True, slots=True)
class AwsErrors(Throttling):
    """AWS answers 500 to a share of the calls, before any effect."""

    kind: ClassVar[str] = "aws-errors"

    @property
    def text(self) -> str:
        return (
            f"AWS answers 500 to {self.percent:g} % of the calls {self.action} for {self.seconds} s"
        )

    async def apply(self, world: FaultyWorld) -> None:
        which = {"action": self.action, "percent": self.percent, "seed": self.seed}
        world.aws.control("faults", {"status": 500, **which, "seconds": self.seconds})


@dataclass(frozen=True, slots=True)
class Denied(Fault):
    """AWS refuses calls that start instances for good, as when somebody takes a right away for a while."""

    kind: ClassVar[str] = "aws-denied"
    seconds: float

    @property
    def text(self) -> str:
        return f"AWS forbids CreateFleet for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, span.seconds(random, 2.0, 20.0))

    async def apply(self, world: FaultyWorld) -> None:
        which = {"action": "CreateFleet", "percent": 100.0, "seconds": self.seconds}
        world.aws.control("faults", {**FORBIDDEN, **which})


@dataclass(frozen=True, slots=True)
class LostAnswer(Fault):
    """A call has its effect, and its answer is lost or replaced by an error."""

    kind: ClassVar[str] = "aws-lost-answer"
    action: str
    calls: int
    status: int

    @property
    def text(self) -> str:
        answer = "no answer" if self.status == 0 else f"status {self.status}"
        return f"the next {self.calls} calls {self.action} have their effect and get {answer}"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(
            span.begin, random.choice(EFFECTS), random.randint(1, 4), random.choice((0, 0, 500))
        )

    async def apply(self, world: FaultyWorld) -> None:
        order = {"action": self.action, "count": self.calls, "status": self.status}
        world.aws.control("faults", {**order, "mode": "after"})


@dataclass(frozen=True, slots=True)
class PartialFleets(Fault):
    """The next fleets return fewer instances than requested."""

    kind: ClassVar[str] = "ec2-partial-fleets"
    instances: int
    fleets: int

    @property
    def text(self) -> str:
        return f"the next {self.fleets} fleets have at most {self.instances} instances"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, random.randint(0, 2), random.randint(1, 3))

    async def apply(self, world: FaultyWorld) -> None:
        world.aws.control("fleets", {"give": self.instances, "count": self.fleets})


@dataclass(frozen=True, slots=True)
class RepeatedMessages(Fault):
    """SQS delivers messages more than once and in another order."""

    kind: ClassVar[str] = "sqs-repeats"
    copies: int
    seconds: float

    @property
    def text(self) -> str:
        return f"SQS delivers each message {self.copies} times, out of order, for {self.seconds} s"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        return cls(span.begin, random.randint(2, 4), span.seconds(random, 30.0, 180.0))

    async def apply(self, world: FaultyWorld) -> None:
        world.aws.mix_messages(self.copies, self.seconds)


@dataclass(frozen=True, slots=True)
class _OnInstances(Fault):
    """A fault of one or some live instances, chosen by ``seed`` when it is applied."""

    percent: float
    seed: int

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        percent = random.choice((1.0, 1.0, 10.0, 50.0))  # At least one instance is chosen.
        return cls(span.begin, percent, random.randrange(LARGEST_SEED))

    def interrupt(self, world: FaultyWorld, kind: str, **fields: Any) -> None:
        """Send an event for the chosen instances."""
        where = {"percent": self.percent, "seed": self.seed, **fields.pop("where", {})}
        world.aws.control("interruptions", {"kind": kind, "where": where, **fields})

    @property
    def some(self) -> str:
        return "one instance" if self.percent <= 1 else f"{self.percent:g} % of the instances"


@dataclass(frozen=True, slots=True)
class InstancesDie(_OnInstances):
    """Instances end without notice, as when the host fails."""

    kind: ClassVar[str] = "ec2-instances-die"

    @property
    def text(self) -> str:
        return f"{self.some} terminate by themselves"

    async def apply(self, world: FaultyWorld) -> None:
        self.interrupt(world, "state-change", state="terminated")


@dataclass(frozen=True, slots=True)
class InstancesStop(_OnInstances):
    """Instances stop, and stay in EC2's lists."""

    kind: ClassVar[str] = "ec2-instances-stop"

    @property
    def text(self) -> str:
        return f"{self.some} stop by themselves"

    async def apply(self, world: FaultyWorld) -> None:
        self.interrupt(world, "state-change", state="stopping")


@dataclass(frozen=True, slots=True)
class SpotInterruptions(_OnInstances):
    """EC2 announces that spot instances end in two minutes, and ends them."""

    kind: ClassVar[str] = "spot-interruption"

    @property
    def text(self) -> str:
        return f"{self.some} (spot) get a notice of two minutes, twice"

    async def apply(self, world: FaultyWorld) -> None:
        self.interrupt(world, "spot", copies=2, where={"capacityType": "spot"})


@dataclass(frozen=True, slots=True)
class Rebalance(_OnInstances):
    """EC2 recommends to leave spot instances."""

    kind: ClassVar[str] = "rebalance"

    @property
    def text(self) -> str:
        return f"{self.some} (spot) get a rebalance recommendation"

    async def apply(self, world: FaultyWorld) -> None:
        self.interrupt(world, "rebalance", where={"capacityType": "spot"})


@dataclass(frozen=True, slots=True)
class HealthEvent(_OnInstances):
    """AWS Health announces maintenance."""

    kind: ClassVar[str] = "health-event"

    @property
    def text(self) -> str:
        return f"{self.some} get a health event"

    async def apply(self, world: FaultyWorld) -> None:
        self.interrupt(world, "health", copies=2)


@dataclass(frozen=True, slots=True)
class BrokenMessage(Fault):
    """The queue has a message that nobody can read."""

    kind: ClassVar[str] = "sqs-broken-message"
    malformed: str

    @property
    def text(self) -> str:
        return f"the queue has an unreadable message ({self.malformed})"

    @classmethod
    def draw(cls, random: Random, span: Span, processes: Sequence[str]) -> Self:
        names = ("not-json", "null", "detail-is-text", "unknown-kind", "bad-time", "surrogate")
        return cls(span.begin, random.choice(names))

    async def apply(self, world: FaultyWorld) -> None:
        world.aws.control("messages", {"malformed": self.malformed})
