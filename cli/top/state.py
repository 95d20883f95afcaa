"""What is known of the cluster and of the connection after each message. Pure: ``now`` is a parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cli.top.records import Beat, Change, Message, Node, Pod, Snapshot, Trust

Item = TypeVar("Item", Node, Pod)


@dataclass(frozen=True)
class Picture:
    """The cluster at the console's time ``at``, seconds since the epoch. Nodes and pods by their id."""

    at: float
    trusted: Trust
    cluster: str = ""
    version: str = ""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: Mapping[str, Pod] = field(default_factory=dict)


@dataclass(frozen=True)
class Lost:
    """The connection ended, why, and in how many seconds the next attempt begins."""

    problem: str
    seconds: float


@dataclass(frozen=True)
class Received:
    """The last picture and the state of the connection. Times are monotonic seconds of this machine."""

    picture: Picture | None = None
    heard: float = 0.0
    """When the last message came."""
    problem: str = ""
    """Why there is no connection; empty while there is one."""
    retry: float = 0.0
    """When the next attempt to connect begins."""


def received(before: Received, update: Message | Lost, now: float) -> Received:
    """The state after ``update``, which came at the monotonic time ``now``."""
    if isinstance(update, Lost):
        return replace(before, problem=update.problem, retry=now + update.seconds)
    return Received(picture_after(before.picture, update), heard=now)


def picture_after(before: Picture | None, message: Message) -> Picture | None:
    """The picture after one message. A snapshot replaces everything; without a picture nothing else has a meaning."""
    if isinstance(message, Snapshot):
        return _whole(message)
    if before is None:
        return None
    if isinstance(message, Beat):
        return replace(before, at=message.at, trusted=message.trusted)
    return _changed(before, message)


def _whole(snapshot: Snapshot) -> Picture:
    return Picture(
        at=snapshot.at,
        trusted=snapshot.trusted,
        cluster=snapshot.cluster,
        version=snapshot.version,
        nodes={node.id: node for node in snapshot.nodes},
        pods={pod.id: pod for pod in snapshot.pods},
    )


def _changed(before: Picture, change: Change) -> Picture:
    return replace(
        before,
        at=change.at,
        trusted=change.trusted,
        nodes=_merged(before.nodes, change.gone.nodes, change.put.nodes),
        pods=_merged(before.pods, change.gone.pods, change.put.pods),
    )


def _merged(
    before: Mapping[str, Item], gone: Iterable[str], put: Iterable[Item]
) -> Mapping[str, Item]:
    """``put`` after ``gone``: an object that was deleted and created again within one message exists."""
    after = dict(before)
    for name in gone:
        after.pop(name, None)
    after.update((item.id, item) for item in put)
    return after
