"""Reads each object that the watches show, and hands it to every part that follows objects.

What may go wrong: the code fails on one object. That must not stop the watch of ten thousand others, nor repeat with
every list: it is counted, logged once per version of the object, and the object is unusable, like an invalid one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from services.watcher.conversion import Json, Kind
from services.watcher.metrics.conditions import Conditions
from services.watcher.metrics.pods import PodGauges
from services.watcher.mirror.journal import Journal
from services.watcher.object_faults import ObjectFaults, ObjectVersion
from services.watcher.status.controller import Statuses
from services.watcher.status.machine_notes import JoinedNodes, PodEvents
from shared.api.faults import Fault, Parsed
from shared.domain.records import NODES
from shared.domain.workloads.pods import Pod
from shared.kube.informer import Deleted, Event, key_of, known_of

Act = Callable[[], None]


@dataclass
class Intake:
    """Call ``take`` with every event of every watch; no event makes it raise."""

    journal: Journal
    statuses: Statuses
    conditions: Conditions
    pod_events: PodEvents
    joined_nodes: JoinedNodes
    faults: ObjectFaults
    pods: PodGauges

    def take(self, kind: Kind, event: Event, *, first: bool) -> None:
        """``first``: it comes from the first list."""
        if isinstance(event, Deleted):
            self._forget(kind, event)
        else:
            self._put(kind, event.object, first=first)

    def _put(self, kind: Kind, raw: dict[str, Any], *, first: bool) -> None:
        subject = ObjectVersion(kind, key_of(raw), known_of(raw).version)
        parsed = self._convert(subject, raw)
        with self.faults.contained(subject) as noting:
            self.journal.note(kind, raw, parsed.record)
        # An object that cannot be noted must not stay in its old state: readers would act on that.
        if noting.failed:
            self._each(subject, partial(self.journal.note, kind, raw, None))
        self._each(
            subject,
            partial(self.statuses.note, kind, raw, parsed),
            partial(self.conditions.note, kind, raw),
            partial(self.pods.note, kind, raw, first=first),
            partial(self._note_record, kind, subject.key.name, parsed.record, first=first),
        )

    def _forget(self, kind: Kind, gone: Deleted) -> None:
        self._each(
            ObjectVersion(kind, gone.key, gone.version),
            partial(self.journal.forget, kind, gone),
            partial(self.statuses.forget, kind, gone.key),
            partial(self.conditions.forget, kind, gone.uid),
            partial(self.pods.forget, kind, gone.uid),
            partial(self.pod_events.forget, gone.uid),
            partial(self._note_record, kind, gone.key.name, None),
        )
        self.faults.forget(kind, gone.key)

    def _convert(self, subject: ObjectVersion, raw: Json) -> Parsed[Any]:
        with self.faults.contained(subject):
            return subject.kind.convert(raw)
        return UNREADABLE

    def _note_record(self, kind: Kind, name: str, record: Any, *, first: bool = False) -> None:
        if isinstance(record, Pod):
            self.pod_events.note(record, first=first)
        if kind.name == NODES:
            self.joined_nodes.note(name, record)
            self.pods.note_node(name, record)

    def _each(self, subject: ObjectVersion, *acts: Act) -> None:
        """Call each of them, whatever the others raise."""
        for act in acts:
            with self.faults.contained(subject):
                act()


UNREADABLE: Parsed[Any] = Parsed(
    None,
    (Fault(("object",), "cannot be read because of a fault of Dovetail; its log says more"),),
)
