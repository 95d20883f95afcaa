"""One object that our code fails on stops nothing: it is unusable, counted, and logged once per version (F27)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.watcher.conversion import KINDS
from services.watcher.metrics.conditions import Conditions
from services.watcher.metrics.pods import PodGauges
from services.watcher.mirror.intake import Intake
from services.watcher.mirror.journal import Journal
from services.watcher.object_faults import ObjectFaults
from services.watcher.status.controller import Statuses
from services.watcher.status.inline_templates import InlineTemplates
from services.watcher.status.machine_notes import JoinedNodes, PodEvents
from shared.kube.client import Kube
from shared.kube.informer import Deleted, Event, Key, Put
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import NODE_POOLS
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror import MirrorWriter
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from shared.redis.mirror.writer import BODY_LIMIT_BYTES
from tests.services.conftest import create_node_pool
from tests.support.clock.fake import FakeClock

KIND = {kind.resource.kind: kind for kind in KINDS}
POD = {"containers": [{"name": "main", "image": "app"}]}


class Told:
    """An intake, and what it was told."""

    def __init__(self, intake: Intake, metrics: Metrics) -> None:
        self.intake, self._metrics = intake, metrics
        self.journal = intake.journal

    def put(self, name: str, version: int = 1, kind: str = "Pod", **metadata: Any) -> None:
        named = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        meta = {**named, "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
        meta["resourceVersion"] = str(version)
        self.tell(Put({"metadata": meta, "spec": POD}), kind)

    def tell(self, event: Event, kind: str = "Pod") -> None:
        self.intake.take(KIND[kind], event, first=False)

    def failures(self, kind: str = "Pod") -> float:
        name = "dovetail_watch_object_failures_total"
        return self._metrics.registry.get_sample_value(name, {"kind": kind}) or 0.0


@pytest.fixture
def told(kube: Kube, bus: Bus, recorder: Recorder, clock: FakeClock, metrics: Metrics) -> Told:
    journal = Journal(MirrorWriter(bus.redis, bus.prefix, epoch="a"), bus, clock)
    outcomes = RegistrationOutcomes(bus.redis, bus.prefix)
    inline = InlineTemplates(kube, recorder, clock)
    faults, machines = ObjectFaults(metrics), Machines(kube)
    statuses = Statuses(kube, machines, recorder, clock, journal, inline, outcomes, faults)
    conditions = Conditions(metrics, clock, lambda: True)
    pods = PodGauges(metrics, clock, lambda: True)
    intake = Intake(
        journal, statuses, conditions, PodEvents(clock), JoinedNodes(clock), faults, pods
    )
    return Told(intake, metrics)


def test_an_object_that_cannot_be_read_is_unusable_and_the_others_go_on(told: Told) -> None:
    told.put("good")
    told.put("bad")
    assert set(told.journal.records["pods"]) == {"default/good", "default/bad"}
    told.put("bad", 2, creationTimestamp=["no", "time"])
    told.put("next")
    assert set(told.journal.records["pods"]) == {"default/good", "default/next"}
    assert told.failures() == 1
    held = told.journal.held(KIND["Pod"])
    assert {key.name: known.version for key, known in held.items()} == {
        "good": "1",
        "bad": "2",
        "next": "1",
    }
    told.put("bad", 3)
    assert "default/bad" in told.journal.records["pods"], "mended, it is back"


def test_it_is_logged_with_its_name_once_per_version(told: Told) -> None:
    with capture_logs() as logs:
        for version in (1, 1, 2):
            told.put("bad", version, creationTimestamp=None)
        told.put("bad", 3)
    lines = [(line["kind"], line["object"], line["version"]) for line in logs]
    assert lines == [("Pod", "default/bad", "1"), ("Pod", "default/bad", "2")]
    assert told.failures() == 3


def test_a_deletion_needs_neither_spec_nor_times(told: Told) -> None:
    for kind in KINDS:
        key = Key("default" if kind.resource.namespaced else "", "gone")
        told.tell(Deleted(key, "uid-gone", "5"), kind.resource.kind)
        assert told.failures(kind.resource.kind) == 0
    told.put("p")
    told.tell(Deleted(Key("default", "p"), "uid-p", "2"))
    assert told.journal.records["pods"] == {}
    assert told.journal.held(KIND["Pod"]) == {}


def test_a_record_that_the_mirror_does_not_take_is_unusable(told: Told) -> None:
    """Or the writing of the mirror would fail for ever."""
    told.put("large")
    told.put("large", 2, labels={"much": "x" * BODY_LIMIT_BYTES})
    assert told.journal.records["pods"] == {}
    assert told.failures() == 1


async def test_a_pool_that_our_code_fails_on_says_so(told: Told, kube: Kube) -> None:
    await create_node_pool(kube)

    def fail(_raw: Any) -> Any:
        raise ZeroDivisionError

    broken = replace(KIND["NodePool"], convert=fail)
    told.intake.take(broken, Put(await kube.get(NODE_POOLS, "default")), first=True)
    await told.intake.statuses.refresh()
    status = (await kube.get(NODE_POOLS, "default"))["status"]
    (said,) = [one for one in status["conditions"] if one["type"] == "ValidationSucceeded"]
    assert said["status"] == "False"
    assert "cannot be read because of a fault of Dovetail" in said["message"]
