"""How long pods that a plan placed wait (MET-04)."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from services.scheduler.provisioning import pod_latency as timed
from services.scheduler.provisioning.pod_latency import PodLatency, placed_by, undecided_text
from shared.domain.records import PODS
from shared.domain.workloads.pods import Pod
from shared.metrics import Metrics
from shared.redis.mirror import Change
from tests.support.clock.fake import FakeClock
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_bound_pod, make_pod

PREFIX = "karpenter_pods_provisioning"
UNBOUND, UNSTARTED = f"{PREFIX}_unbound_time_seconds", f"{PREFIX}_unstarted_time_seconds"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def waits(clock: FakeClock) -> PodLatency:
    made = PodLatency(Metrics("scheduler"), clock)
    made.metrics.add_page(made.text)
    return made


def put(pod: Pod) -> Change:
    return Change(PODS, pod.key, msgspec.json.encode(pod))


def scrape(waits: PodLatency) -> Scraped:
    return Scraped(waits.metrics.text())


def test_a_placed_pod_is_timed_until_it_runs(waits: PodLatency, clock: FakeClock) -> None:
    """From the first plan that placed it."""
    pod, bound = make_pod("web"), make_bound_pod("web", "n")
    waits.place([pod])
    clock.advance(10)
    waits.place([pod])
    assert scrape(waits).of(UNBOUND, "name") == {"web": 10}
    waits.note(put(replace(bound, phase="Pending")))
    clock.advance(5)
    scraped = scrape(waits)
    assert scraped.of(UNBOUND, "name") == {}
    assert scraped.of(UNSTARTED, "name") == {"web": 15}
    waits.note(put(replace(bound, phase="Running")))
    scraped = scrape(waits)
    assert scraped.of(UNSTARTED, "name") == {}
    assert scraped.value(f"{PREFIX}_bound_duration_seconds_sum") == 10
    assert scraped.value(f"{PREFIX}_startup_duration_seconds_sum") == 15


def test_a_missed_change_is_found_at_the_next_look(waits: PodLatency) -> None:
    """And a pod that is gone, or was replaced by its namesake, is forgotten."""
    pods = [make_pod(name) for name in ("runs", "gone", "other", "over")]
    waits.place(pods)
    runs = replace(make_bound_pod("runs", "n"), phase="Running")
    other, over = replace(pods[2], uid="new"), replace(pods[3], phase="Failed")
    waits.check({pod.key: pod for pod in (runs, other, over)})
    scraped = scrape(waits)
    assert scraped.of(UNSTARTED, "name") == {}
    assert scraped.value(f"{PREFIX}_startup_duration_seconds_count") == 1


def test_pods_that_no_plan_placed_are_passed_by(waits: PodLatency) -> None:
    waits.note(put(replace(make_bound_pod("web", "n"), phase="Running")))
    waits.note(Change("nodes", "web", None))
    assert scrape(waits).value(f"{PREFIX}_startup_duration_seconds_count") == 0


def test_a_record_of_another_version_is_no_pod_to_time(waits: PodLatency) -> None:
    """It must not end the reading of the mirror."""
    pod = make_pod("web")
    waits.place([pod])
    waits.note(Change(PODS, pod.key, b'{"uid": 7}'))
    assert scrape(waits).of(UNSTARTED, "name") == {}


def test_what_is_remembered_has_a_bound(waits: PodLatency, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "MOST_PLACED", 1)
    waits.place([make_pod("a"), make_pod("b")])
    assert scrape(waits).of(UNSTARTED, "name").keys() == {"a"}
    waits.forget()
    assert scrape(waits).of(UNSTARTED, "name") == {}


def test_only_what_the_plan_places_is_placed() -> None:
    waiting = [make_pod("a"), make_pod("b"), make_pod("c")]
    targets = [[waiting[0].uid], [waiting[2].uid, "elsewhere"]]
    assert [pod.name for pod in placed_by(targets, waiting)] == ["a", "c"]


def test_undecided_pods_tell_how_long_they_wait() -> None:
    pods = [make_pod("new"), make_pod("decided"), make_bound_pod("bound", "n")]
    since = {pods[0].uid: 3.0, pods[2].uid: 3.0, "Machine/m": 3.0}
    page = Scraped(undecided_text(pods, since, now=10.0))
    name = f"{PREFIX}_scheduling_undecided_time_seconds"
    assert page.of(name, "name") == {"new": 7}
