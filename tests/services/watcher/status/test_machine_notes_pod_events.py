"""When a node last got or lost a pod (DIS-21)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.watcher.mirror.members import Member, machine_member
from services.watcher.status.machine_notes import PodEvents, due_writes
from shared.api.v1.node_claims import parse_node_claim
from shared.domain.pools.generations import V1
from shared.domain.workloads.pods import Owner
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from tests.services.conftest import create_node_claim
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_bound_pod, make_machine, make_pod

NOW = 1_000_000.0


@pytest.fixture
def noted() -> PodEvents:
    return PodEvents(FakeClock(wall=NOW))


def claim(**changes: Any) -> Member:
    return machine_member(make_machine("c", **{"generation_api": V1, "node_name": "n", **changes}))


def taken(noted: PodEvents) -> dict[str, float]:
    """What is noted, which is then forgotten."""
    found = dict(noted.latest)
    noted.latest.clear()
    return found


def test_a_bound_pod_is_an_event_once(noted: PodEvents) -> None:
    noted.note(make_pod("p"), first=False)
    assert taken(noted) == {}
    noted.note(make_bound_pod("p", "n"), first=False)
    assert taken(noted) == {"n": NOW}
    noted.note(make_bound_pod("p", "n"), first=False)
    assert taken(noted) == {}


@pytest.mark.parametrize("change", [{"phase": "Succeeded"}, {"terminating": True}])
def test_the_end_of_a_pod_is_an_event(noted: PodEvents, change: dict[str, Any]) -> None:
    noted.note(make_bound_pod("p", "n", **change), first=False)
    assert taken(noted) == {"n": NOW}
    noted.forget("uid-p")
    assert taken(noted) == {}


def test_a_pod_that_vanishes_at_once_is_an_event(noted: PodEvents) -> None:
    noted.note(make_bound_pod("p", "n"), first=True)
    taken(noted)
    noted.forget("uid-p")
    assert taken(noted) == {"n": NOW}


def test_daemons_are_no_events(noted: PodEvents) -> None:
    daemon = make_bound_pod("d", "n", owner=Owner("DaemonSet", "d", "d"))
    noted.note(daemon, first=False)
    noted.forget(daemon.uid)
    assert taken(noted) == {}


def test_at_a_start_the_pods_own_time_counts(noted: PodEvents) -> None:
    """A restart of the watcher must not begin every wait anew."""
    noted.note(make_bound_pod("p", "n", started_at=500.0), first=True)
    noted.note(make_bound_pod("q", "n", started_at=400.0), first=True)
    assert taken(noted) == {"n": 500.0}


async def test_it_stands_in_the_status_of_the_claim(noted: PodEvents, kube: Kube) -> None:
    await create_node_claim(kube, "c")
    stored = parse_node_claim(await kube.get(NODE_CLAIMS, "c"))
    noted.note(make_bound_pod("p", "n"), first=False)
    await noted.write(kube, [machine_member(replace(stored, node_name="n"))])
    assert parse_node_claim(await kube.get(NODE_CLAIMS, "c")).last_pod_event_at == NOW
    assert noted.latest == {}


def test_a_claim_is_written_at_most_every_ten_seconds() -> None:
    """And only NodeClaims have the field."""
    assert due_writes([claim(last_pod_event_at=95.0)], {"n": 104.0}, now=105.0) == []
    assert len(due_writes([claim(last_pod_event_at=95.0)], {"n": 105.0}, now=105.0)) == 1
    unnoted = machine_member(make_machine(node_name="n"))
    assert due_writes([unnoted], {"n": 105.0}, now=105.0) == []
    assert due_writes([claim(terminating=True)], {"n": 105.0}, now=105.0) == []


def test_a_time_that_a_wrong_clock_wrote_is_written_over() -> None:
    """DIS-21: it lies so far ahead that no event would ever be later."""
    assert len(due_writes([claim(last_pod_event_at=3700.0)], {"n": 104.0}, now=105.0)) == 1
