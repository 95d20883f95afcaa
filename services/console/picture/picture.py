"""The picture: all rows, kept equal to the mirror change by change, and what changed since the last look. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from services.console.picture.rows import NodeRow, PodRow, Words, node_id, node_row, pod_row
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.records import MACHINES, NODES, PODS, decode_record
from shared.domain.workloads.pods import Pod

KINDS = (MACHINES, NODES, PODS)
"""The kinds of the mirror that the picture is made of."""
SILENCE = Words("", "")


class Rows(msgspec.Struct, frozen=True):
    """Rows that are new or changed."""

    nodes: tuple[NodeRow, ...] = ()
    pods: tuple[PodRow, ...] = ()


class Gone(msgspec.Struct, frozen=True):
    """Ids of rows that are gone."""

    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


class Delta(msgspec.Struct, frozen=True):
    """What leads from one picture to the next: first remove what is gone, then put the rows."""

    put: Rows = Rows()
    gone: Gone = Gone()

    def __bool__(self) -> bool:
        return any((self.put.nodes, self.put.pods, self.gone.nodes, self.gone.pods))


@dataclass
class Picture:
    """Rows by id. ``note`` each change of the mirror, then ``take`` what changed."""

    nodes: dict[str, NodeRow] = field(default_factory=dict)
    pods: dict[str, PodRow] = field(default_factory=dict)
    _machines: dict[str, Machine] = field(default_factory=dict)
    _nodes: dict[str, Node] = field(default_factory=dict)
    _bound: dict[str, tuple[PodRow, str]] = field(default_factory=dict)
    """Pod -> its row without a node, and the name of its node."""
    _on_node: dict[str, set[str]] = field(default_factory=dict)
    """Name of a node -> its pods."""
    _machine_of: dict[str, str] = field(default_factory=dict)
    """Name of a node -> key of its machine."""
    _words: Mapping[str, Words] = field(default_factory=dict)
    """Pod -> why it has no place."""
    _changed_pods: set[str] = field(default_factory=set)
    _changed_nodes: set[str] = field(default_factory=set)
    """Ids of rows."""

    def note(self, kind: str, key: str, body: bytes | None) -> None:
        """A change of the mirror; ``body`` None: the object is gone. Other kinds than ``KINDS`` are ignored.

        Raises msgspec.ValidationError for a record of another version.
        """
        record = None if body is None else decode_record(kind, body)
        if kind == PODS:
            self._note_pod(key, record)
        elif kind == NODES:
            self._note_node(key, record)
        elif kind == MACHINES:
            self._note_machine(key, record)

    def _note_pod(self, key: str, pod: Pod | None) -> None:
        held = self._bound.pop(key, None)
        if held is not None:
            self._on_node.get(held[1], set()).discard(key)
        self._changed_pods.add(key)
        if pod is None or pod.is_terminal:
            return
        self._bound[key] = pod_row(key, pod, ""), pod.node_name
        if pod.node_name:
            self._on_node.setdefault(pod.node_name, set()).add(key)

    def _note_node(self, name: str, node: Node | None) -> None:
        self._touch_node(name)
        if node is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node
        self._touch_node(name)

    def _note_machine(self, key: str, machine: Machine | None) -> None:
        old = self._machines.pop(key, None)
        self._changed_nodes.add(key)
        self._join(old.node_name if old else "", None)
        if machine is not None:
            self._machines[key] = machine
            self._join(machine.node_name, key)

    def _join(self, node_name: str, machine_key: str | None) -> None:
        """This node belongs to this machine, or to none: its row and its pods change."""
        if not node_name:
            return
        self._touch_node(node_name)
        if machine_key is None:
            self._machine_of.pop(node_name, None)
        else:
            self._machine_of[node_name] = machine_key
        self._touch_node(node_name)

    def _touch_node(self, name: str) -> None:
        self._changed_nodes.add(self._id_of(name))
        self._changed_pods |= self._on_node.get(name, set())

    def _id_of(self, node_name: str) -> str:
        """The id of the row that has this node."""
        return self._machine_of.get(node_name) or f"Node/{node_name}"

    def take(self) -> Delta:
        """What changed since the last call."""
        nodes = self._take_nodes()
        pods = self._take_pods()
        return Delta(Rows(tuple(nodes[0]), tuple(pods[0])), Gone(tuple(nodes[1]), tuple(pods[1])))

    def _take_nodes(self) -> tuple[list[NodeRow], list[str]]:
        put, gone = [], []
        for key in sorted(self._changed_nodes):
            row = self._row_of(key)
            if row is None:
                gone += [key] if self.nodes.pop(key, None) is not None else []
            elif self.nodes.get(key) != row:
                self.nodes[key] = row
                put.append(row)
        self._changed_nodes.clear()
        return put, gone

    def _row_of(self, key: str) -> NodeRow | None:
        machine = self._machines.get(key)
        if machine is not None:
            return node_row(machine, self._nodes.get(machine.node_name))
        name = key.removeprefix("Node/")
        node = self._nodes.get(name)
        shown = node is not None and name not in self._machine_of and key == node_id(None, node)
        return node_row(None, node) if shown else None

    def _take_pods(self) -> tuple[list[PodRow], list[str]]:
        put, gone = [], []
        for key in sorted(self._changed_pods):
            row = self._pod_row_of(key)
            if row is None:
                gone += [key] if self.pods.pop(key, None) is not None else []
            elif self.pods.get(key) != row:
                self.pods[key] = row
                put.append(row)
        self._changed_pods.clear()
        self._forget_empty()
        return put, gone

    def _pod_row_of(self, key: str) -> PodRow | None:
        held = self._bound.get(key)
        if held is None:
            return None
        row, node_name = held
        there = (
            self._id_of(node_name)
            if node_name in self._nodes or node_name in self._machine_of
            else ""
        )
        said = self._words.get(key, SILENCE) if row.waits == "capacity" else SILENCE
        return msgspec.structs.replace(row, node=there, verdict=said.verdict, change=said.change)

    def explain(self, words: Mapping[str, Words]) -> None:
        """Why pods have no place. Replaces what was said before."""
        before, self._words = self._words, words
        self._changed_pods |= {
            key for key in before.keys() | words.keys() if before.get(key) != words.get(key)
        }

    def _forget_empty(self) -> None:
        for name in [name for name, pods in self._on_node.items() if not pods]:
            del self._on_node[name]

    def machine(self, key: str) -> Machine | None:
        """The machine behind a row."""
        return self._machines.get(key)

    def node(self, name: str) -> Node | None:
        """The node of this name."""
        return self._nodes.get(name)

    def pods_on(self, row_id: str) -> Iterable[PodRow]:
        """The pods of one node row."""
        row = self.nodes.get(row_id)
        keys = sorted(self._on_node.get(row.name, ())) if row else ()
        return [self.pods[key] for key in keys if key in self.pods]
