"""Every message that crosses a service boundary.

A message says *which* object; its handler reads the object itself before it acts, so that a late, doubled or forged
message is harmless. A message is advice: it makes a receiver look sooner, and the receiver's own periodic resync finds
whatever no message announced. So one type may have several senders without a rule between them (``LaunchMachine`` has
two, ``TerminateMachine`` six), and a sender that Redis refuses goes on. Fields may be added within a version; unknown
fields are ignored, unknown types and versions are dead-lettered (F30). ``tests/golden`` holds one document per type
and version that must decode for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.concurrency.clock import Clock
from shared.domain.machines.machine import Machine
from shared.errors import TransientError
from shared.log import get_logger
from shared.redis.bus import BadMessage, Bus, Envelope

log = get_logger(__name__)

NAME = Field(min_length=1, max_length=253)


class Message(BaseModel):
    """What all messages share. ``key`` decides which messages are handled one after the other."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    version: ClassVar[int] = 1

    @property
    def key(self) -> str:
        raise NotImplementedError


class MachineMessage(Message):
    """A message about one machine, by its key such as ``NodeClaim/default-abc``; a bare name is a Machine's."""

    machine: str = NAME

    @property
    def key(self) -> str:
        return self.machine


class PodUnschedulable(Message):
    """watcher -> scheduler: this pod waits for capacity; the mirror shows it from ``generation`` on."""

    uid: str = NAME
    pod: str = NAME
    generation: int = Field(ge=0)

    @property
    def key(self) -> str:
        return self.uid


class LaunchMachine(MachineMessage):
    """scheduler -> launcher: this Machine has no instance yet."""


class LaunchFailed(MachineMessage):
    """launcher -> scheduler: no instance; the Machine is being deleted."""

    reason: str = Field(default="", max_length=256)


class NodeJoined(Message):
    """watcher -> launcher: a node with a provider id appeared or changed on its way to being ready."""

    node: str = NAME
    resource_version: str = Field(default="", max_length=64)

    @property
    def key(self) -> str:
        return self.node


class NodeClassChanged(Message):
    """watcher -> launcher: this node class is new or was edited; its subnets and images must be found.

    ``node_class`` is its key, such as ``EC2NodeClass/default``.
    """

    node_class: str = NAME
    generation: int = Field(default=0, ge=0)

    @property
    def key(self) -> str:
        return self.node_class


class NodePoolChanged(Message):
    """watcher -> launcher: this pool is new or was edited; its machines may be outdated (DRF-01).

    ``pool`` is its key, such as ``NodePool/default``.
    """

    pool: str = NAME
    generation: int = Field(default=0, ge=0)

    @property
    def key(self) -> str:
        return self.pool


class MachineTerminated(MachineMessage):
    """terminator -> scheduler: instance, node and record are gone."""


class TerminateMachine(Message):
    """anyone -> terminator: this Machine or node has a deletion timestamp (or soon will)."""

    kind: Literal["Machine", "NodeClaim", "Node"] = "Machine"
    name: str = NAME
    reason: str = Field(default="", max_length=256)
    resource_version: str = Field(default="", max_length=64)

    @classmethod
    def of(cls, machine: Machine, reason: str, resource_version: str = "") -> TerminateMachine:
        """For this machine, in its own generation."""
        return cls(
            kind=machine.api.machine_kind,
            name=machine.name,
            reason=reason,
            resource_version=resource_version,
        )

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}"


class DrainNode(Message):
    """interruption -> terminator: this node is not ours, and its annotation says until when it is drained."""

    node: str = NAME

    @property
    def key(self) -> str:
        return f"Node/{self.node}"


class EndInstance(Message):
    """launcher -> terminator: no machine owns this instance, or the launch that started it is wanted by nobody.

    The terminator reads for itself whose it is. Repeated by every look of the launcher that finds it again.
    """

    instance: str = Field(pattern=r"^i-[0-9a-f]{8,17}$")
    reason: str = Field(default="", max_length=256)

    @property
    def key(self) -> str:
        return f"Instance/{self.instance}"


class InterruptionReceived(Message):
    """interruption -> scheduler: EC2 takes these instances back."""

    kind: str = NAME
    instances: tuple[str, ...] = ()
    deadline: float | None = None
    event: str = NAME

    @property
    def key(self) -> str:
        return self.event


TYPES: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        PodUnschedulable, LaunchMachine, LaunchFailed, NodeJoined, NodeClassChanged,
        NodePoolChanged, MachineTerminated, TerminateMachine,
        InterruptionReceived, DrainNode, EndInstance,
    )
}  # fmt: skip

RETIRED = ("MachineLaunched", "MachineRegistered", "MachineInitialized", "PodResolved")
"""Types that nobody sends any more. After an upgrade a stream may still hold some that an older build sent: they are
acknowledged and dropped, where any other unknown type is dead-lettered."""


class Retired(Message):
    """Stands for a message of a retired type, whose content nobody needs."""

    type: str

    @property
    def key(self) -> str:
        return self.type


Kind = TypeVar("Kind", bound=Message)


def encode(message: Message, *, cause: str, clock: Clock) -> Envelope:
    """Wrap a message for a stream. The id follows from content and cause, so a repeat is dropped (F8)."""
    body = message.model_dump_json().encode()
    digest = hashlib.sha256(b"|".join((type(message).__name__.encode(), cause.encode(), body)))
    return Envelope(
        id=digest.hexdigest()[:32],
        type=type(message).__name__,
        version=message.version,
        key=message.key,
        cause=cause,
        at=clock.now(),
        body=body,
    )


def decode(envelope: Envelope) -> Message:
    """The message inside; ``Retired`` for one of a retired type, whatever its version and body.

    Raises BadMessage for an unknown type or version, or a body that does not validate.
    """
    if envelope.type in RETIRED:
        return Retired(type=envelope.type)
    kind = TYPES.get(envelope.type)
    if kind is None or envelope.version != kind.version:
        raise BadMessage(f"unknown message {envelope.type} version {envelope.version}")
    try:
        return kind.model_validate_json(envelope.body)
    except ValidationError as error:
        raise BadMessage(f"{envelope.type}: {error.error_count()} faults: {error}"[:512]) from error


class News(NamedTuple):
    """A message for a stream; ``cause`` tells repeats from new ones."""

    stream: str
    message: Message
    cause: str


async def send_all(bus: Bus, news: Sequence[News], clock: Clock) -> int:
    """Publish many in few round trips; returns how many Redis took or had already.

    What a stream refuses (it is full) is dropped: everybody lists its own. Raises TransientError when nobody knows
    what arrived: send the same again.
    """
    rings = [(one.stream, encode(one.message, cause=one.cause, clock=clock)) for one in news]
    refused = await bus.publish_all(rings)
    if refused:
        log.warning("cannot send", messages=len(refused), error=refused[0].message)
    return len(rings) - len(refused)


async def send(bus: Bus, stream: str, message: Message, *, cause: str, clock: Clock) -> bool:
    """Publish news. False when Redis does not take it: that costs time, never work, as everybody lists its own."""
    try:
        await bus.publish(stream, encode(message, cause=cause, clock=clock))
    except TransientError as error:
        log.warning("cannot send", stream=stream, type=type(message).__name__, error=error.message)
        return False
    return True
