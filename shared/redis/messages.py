"""Every message that crosses a service boundary.

A message names an object; its handler reads that object before it acts, so a late, duplicated or forged message is
harmless. A message only makes its receiver act sooner: the receiver's periodic resync finds every object without a
message too. So one type may have several senders without coordination (``LaunchMachine`` has two, ``TerminateMachine``
six), and a sender goes on when Redis refuses its message. Fields may be added within a version; unknown fields are
ignored, unknown types and versions become dead letters (F30). ``tests/golden`` holds one document per type and version,
which every later build must decode.
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
from shared.redis.bus.trace_context import current_trace

log = get_logger(__name__)

NAME = Field(min_length=1, max_length=253)


class Message(BaseModel):
    """The base of all messages. Messages with the same ``key`` are handled one after the other."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    version: ClassVar[int] = 1
    KEY: ClassVar[str]
    """The field that holds the key."""

    @property
    def key(self) -> str:
        return str(getattr(self, self.KEY))


class MachineMessage(Message):
    """A message about one machine, by its key such as ``NodeClaim/default-abc``; a bare name means a Machine."""

    KEY = "machine"
    machine: str = NAME


class PodUnschedulable(Message):
    """watcher -> scheduler: this pod is unschedulable; the mirror holds it from ``generation`` on."""

    KEY = "uid"
    uid: str = NAME
    pod: str = NAME
    generation: int = Field(ge=0)


class LaunchMachine(MachineMessage):
    """scheduler -> launcher: this Machine has no instance yet."""


class LaunchFailed(MachineMessage):
    """launcher -> scheduler: no instance; the Machine is being deleted."""

    reason: str = Field(default="", max_length=256)


class NodeJoined(Message):
    """watcher -> launcher: a node with a provider id appeared or changed on its way to being ready."""

    KEY = "node"
    node: str = NAME
    resource_version: str = Field(default="", max_length=64)


class NodeClassChanged(Message):
    """watcher -> launcher: this node class is new or was edited; its subnets and images must be resolved.

    ``node_class`` is its key, such as ``EC2NodeClass/default``.
    """

    KEY = "node_class"
    node_class: str = NAME
    generation: int = Field(default=0, ge=0)


class NodePoolChanged(Message):
    """watcher -> launcher: this pool is new or was edited; its machines may be outdated (DRF-01).

    ``pool`` is its key, such as ``NodePool/default``.
    """

    KEY = "pool"
    pool: str = NAME
    generation: int = Field(default=0, ge=0)


class MachineTerminated(MachineMessage):
    """terminator -> scheduler: the instance, the node and the machine object are gone."""


class TerminateMachine(Message):
    """any service -> terminator: this machine or node has a deletion timestamp, or will have one soon."""

    kind: Literal["Machine", "NodeClaim", "Node"] = "Machine"
    name: str = NAME
    reason: str = Field(default="", max_length=256)
    resource_version: str = Field(default="", max_length=64)

    @classmethod
    def of(cls, machine: Machine, reason: str, resource_version: str = "") -> TerminateMachine:
        """The message for ``machine``, with the kind of its API generation."""
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
    """interruption -> terminator: drain this node, which Dovetail did not launch; its annotation holds the deadline."""

    node: str = NAME

    @property
    def key(self) -> str:
        return f"Node/{self.node}"


class EndInstance(Message):
    """launcher -> terminator: no machine owns this instance, or its launch was abandoned.

    The terminator verifies the ownership itself. The launcher repeats the message at each scan that finds the instance.
    """

    instance: str = Field(pattern=r"^i-[0-9a-f]{8,17}$")
    reason: str = Field(default="", max_length=256)

    @property
    def key(self) -> str:
        return f"Instance/{self.instance}"


class InterruptionReceived(Message):
    """interruption -> scheduler: EC2 interrupts these instances."""

    KEY = "event"
    kind: str = NAME
    instances: tuple[str, ...] = ()
    deadline: float | None = None
    event: str = NAME


TYPES: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        PodUnschedulable, LaunchMachine, LaunchFailed, NodeJoined, NodeClassChanged,
        NodePoolChanged, MachineTerminated, TerminateMachine,
        InterruptionReceived, DrainNode, EndInstance,
    )
}  # fmt: skip

RETIRED = ("MachineLaunched", "MachineRegistered", "MachineInitialized", "PodResolved")
"""Types that no service sends any more. After an upgrade a stream may still hold some of them from an older build: they
are acknowledged and dropped, while any other unknown type becomes a dead letter."""


class Retired(Message):
    """A message of a retired type; its content is dropped."""

    KEY = "type"
    type: str


Kind = TypeVar("Kind", bound=Message)


def encode(message: Message, *, cause: str, clock: Clock, trace: str = "") -> Envelope:
    """The envelope of a message. Its id is a hash of content and cause, so a repeat is dropped (F8).

    ``trace``: the traceparent that it belongs to; "": that of the span that is open.
    """
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
        trace=trace or current_trace.get(),
    )


def decode(envelope: Envelope) -> Message:
    """The message in an envelope; ``Retired`` for a retired type, whatever its version and body.

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


class OutgoingMessage(NamedTuple):
    """A message for a stream; a repeat has the same ``cause``, a new message has another one."""

    stream: str
    message: Message
    cause: str
    trace: str = ""
    """As in ``encode``."""


async def send_all(bus: Bus, messages: Sequence[OutgoingMessage], clock: Clock) -> int:
    """Publish messages in few round trips; returns how many are on their streams now.

    A message that a full stream refuses is dropped: its receiver's resync finds the object. Raises TransientError when
    the outcome is unknown: send the same messages again.
    """
    encoded = [
        (one.stream, encode(one.message, cause=one.cause, clock=clock, trace=one.trace))
        for one in messages
    ]
    refused = await bus.publish_all(encoded)
    if refused:
        log.warning("cannot send", messages=len(refused), error=refused[0].message)
    return len(encoded) - len(refused)


async def send(
    bus: Bus, stream: str, message: Message, *, cause: str, clock: Clock, trace: str = ""
) -> bool:
    """Publish one message. False when Redis refuses it: the receiver then acts later, at its next resync.

    ``trace``: as in ``encode``.
    """
    try:
        await bus.publish(stream, encode(message, cause=cause, clock=clock, trace=trace))
    except TransientError as error:
        log.warning("cannot send", stream=stream, type=type(message).__name__, error=error.message)
        return False
    return True
