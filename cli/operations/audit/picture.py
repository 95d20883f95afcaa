"""What one reading holds: plain values, by which the promises are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from shared.cloud.ec2.records import Instance
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.workloads.pdbs import PodDisruptionBudget
from shared.domain.workloads.pods import Pod

Input = Literal[
    "machines", "records", "nodes", "pools", "classes", "budgets", "pods", "instances", "queues", "mirror"
]  # fmt: skip
"""What is read, each by itself: one that cannot be read leaves the others."""


@dataclass(frozen=True)
class Leaving:
    """A node, pool or node class that is being deleted; ``deleted_at`` in seconds since the epoch."""

    key: str
    deleted_at: float
    finalizers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """A LaunchRecord. ``uids``: of the machines that its call is for."""

    token: str
    created_at: float
    uids: frozenset[str]


@dataclass(frozen=True)
class Unreadable:
    """An object that is not as its schema says. ``provider_id``: of a machine or node, where it has one."""

    key: str
    problem: str
    uid: str = ""
    provider_id: str = ""


@dataclass(frozen=True)
class Queue:
    """One stream. ``oldest``: group -> when the oldest message was sent that it has not acknowledged."""

    stream: str
    length: int
    dead: int
    delayed: int
    oldest: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """An entry of the mirror that is not as the API server has it. ``version``: of the object, or of the entry that
    should be gone; a change of the object gives another one."""

    entry: str
    what: Literal["missing", "surplus", "stale"]
    version: str


@dataclass(frozen=True)
class Mirror:
    """``age_seconds``: since the writer's last heartbeat, by Redis' clock; None without one."""

    complete: bool
    age_seconds: float | None
    length: int = 0
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Reading:
    """``at``: seconds since the epoch by the API server's clock, by which ages are judged.

    ``instances``: those of the cluster, and those that machines name, in every state. ``pods``: of nodes that are being
    deleted. ``limits_at``: pool -> when its limits were last written, where the API server says it.
    """

    at: float
    machines: tuple[Machine, ...] = ()
    records: tuple[Record, ...] = ()
    nodes: tuple[Node, ...] = ()
    pools: tuple[NodePool, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    pods: tuple[Pod, ...] = ()
    instances: tuple[Instance, ...] = ()
    queues: tuple[Queue, ...] = ()
    mirror: Mirror | None = None
    leaving: tuple[Leaving, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    limits_at: Mapping[str, float] = field(default_factory=dict)
    unread: Mapping[Input, str] = field(default_factory=dict)
    """What could not be read, and why."""
    skipped: frozenset[Input] = frozenset()
    """What was not to be read."""
