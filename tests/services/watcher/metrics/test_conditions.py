"""Status conditions as metrics (MET-11)."""

from __future__ import annotations

from typing import Any

import pytest

from services.watcher.conversion import KINDS, Kind
from services.watcher.metrics import conditions as counted
from services.watcher.metrics.conditions import Conditions
from shared.concurrency.clock import rfc3339
from shared.metrics import Metrics
from tests.support.clock.fake import FakeClock
from tests.support.metrics.pages import Scraped

NOW = 1.7e9
BY_KIND = {kind.resource.kind: kind for kind in KINDS}
LAUNCHED = {"type": "Launched", "status": "True", "reason": "Launched"}


class Watched:
    """A watcher's view of some objects."""

    def __init__(self) -> None:
        self.metrics, self.clock, self.leads = Metrics("watcher"), FakeClock(wall=NOW), True
        self.conditions = Conditions(self.metrics, self.clock, lambda: self.leads)
        self.metrics.add_page(self.conditions.text)

    def see(self, *conditions: tuple[str, str, str, float], **changes: Any) -> None:
        """An object with these conditions: type, status, reason, how many seconds ago it changed."""
        kind: Kind = BY_KIND[changes.pop("kind", "NodeClaim")]
        name = changes.pop("name", "a")
        raw = {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": rfc3339(NOW - 100),
                **changes,
            },
            "status": {
                "conditions": [
                    {
                        "type": type_,
                        "status": status,
                        "reason": reason,
                        "message": "m",
                        "lastTransitionTime": rfc3339(NOW - ago),
                    }
                    for type_, status, reason, ago in conditions
                ]
            },
        }
        self.conditions.note(kind, raw)

    def lose(self, kind: str, name: str = "a") -> None:
        """An object is gone."""
        self.conditions.forget(BY_KIND[kind], f"uid-{name}")

    def scrape(self) -> Scraped:
        return Scraped(self.metrics.text())


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_objects_are_counted_by_what_they_say(watched: Watched) -> None:
    """And the time is that of the one that has said so longest."""
    watched.see(("Launched", "True", "Launched", 50), name="a")
    watched.see(("Launched", "True", "Launched", 20), name="b")
    watched.see(("Launched", "False", "LaunchFailed", 10), name="c")
    name = "operator_nodeclaim_status_condition"
    scraped = watched.scrape()
    failed = {"type": "Launched", "status": "False", "reason": "LaunchFailed"}
    assert scraped.value(f"{name}_count", **LAUNCHED) == 2
    assert scraped.value(f"{name}_count", **failed) == 1
    assert scraped.value(f"{name}_current_status_seconds", **LAUNCHED) == 50
    assert scraped.value(f"{name}_current_status_seconds", **failed) == 10


def test_each_object_tells_its_own_conditions(watched: Watched) -> None:
    """Namespace, name, group and kind name it; what it said before is not told any more."""
    watched.see(("Launched", "Unknown", "Waits", 50), name="a")
    watched.see(("Launched", "True", "Launched", 40), name="a")
    watched.see(("Ready", "True", "Ready", 20), name="b", kind="Machine")
    scraped, name = watched.scrape(), "operator_status_condition"
    claim = {"namespace": "", "name": "a", "group": "karpenter.sh", "kind": "NodeClaim"}
    assert scraped.value(f"{name}_count", **claim, **LAUNCHED) == 1
    assert scraped.value(f"{name}_current_status_seconds", **claim, **LAUNCHED) == 40
    assert scraped.of(f"{name}_count", "kind") == {"NodeClaim": 1, "Machine": 1}
    of = {"group": "karpenter.sh", "kind": "NodeClaim"}
    assert scraped.value(f"{name}_transitions_total", **of, **LAUNCHED) == 1
    before = {"type": "Launched", "status": "Unknown"}
    assert scraped.value(f"{name}_transition_seconds_sum", **of, **before) == 10


def test_an_object_that_goes_is_named(watched: Watched) -> None:
    watched.see(name="a", deletionTimestamp=rfc3339(NOW - 30))
    name = "operator_termination"
    assert watched.scrape().of(f"{name}_current_time_seconds", "name") == {"a": 30}
    watched.lose("NodeClaim")
    scraped, of = watched.scrape(), {"group": "karpenter.sh", "kind": "NodeClaim"}
    assert scraped.of(f"{name}_current_time_seconds", "name") == {}
    assert scraped.value(f"{name}_duration_seconds_sum", **of) == 30


def test_a_change_is_counted_with_the_time_before_it(watched: Watched) -> None:
    watched.see(("Ready", "False", "NotReady", 60), kind="Node")
    watched.see(("Ready", "False", "Worse", 60), kind="Node")
    watched.see(("Ready", "True", "KubeletReady", 20), kind="Node")
    scraped, name = watched.scrape(), "operator_node_status_condition"
    labels = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    assert scraped.value(f"{name}_transitions_total", **labels) == 1
    assert scraped.of(f"{name}_transitions_total", "status") == {"True": 1}
    before = {"type": "Ready", "status": "False"}
    assert scraped.value(f"{name}_transition_seconds_sum", **before) == 40


def test_a_condition_that_appears_was_unknown_since_the_object_was_made(watched: Watched) -> None:
    watched.see()
    watched.see(("Launched", "True", "Launched", 70))
    scraped, name = watched.scrape(), "operator_nodeclaim_status_condition"
    assert scraped.value(f"{name}_transitions_total", **LAUNCHED) == 1
    before = {"type": "Launched", "status": "Unknown"}
    assert scraped.value(f"{name}_transition_seconds_sum", **before) == 30


def test_the_first_sight_of_an_object_is_no_change(watched: Watched) -> None:
    """After a restart everything is seen for the first time."""
    watched.see(("Launched", "True", "Launched", 50))
    name = "operator_nodeclaim_status_condition_transitions_total"
    assert watched.scrape().of(name, "type") == {}


@pytest.mark.parametrize(
    ("kind", "observed"),
    [
        ("NodeClaim", "nodeclaim"),
        ("Machine", "nodeclaim"),
        ("Node", "node"),
        ("NodePool", "nodepool"),
        ("Provisioner", "nodepool"),
        ("EC2NodeClass", "ec2nodeclass"),
        ("AWSNodeTemplate", "ec2nodeclass"),
    ],
)
def test_an_object_that_goes_is_timed_and_forgotten(
    watched: Watched, kind: str, observed: str
) -> None:
    """Both generations, under v1's names; of what is gone its last word holds (F23)."""
    going = {"deletionTimestamp": rfc3339(NOW - 30)}
    watched.see(("Ready", "True", "Ready", 50), kind=kind, **going)
    name = f"operator_{observed}"
    scraped = watched.scrape()
    assert scraped.value(f"{name}_termination_current_time_seconds") == 30
    assert scraped.of(f"{name}_status_condition_count", "type") == {"Ready": 1}
    watched.clock.advance(15)
    watched.lose(kind)
    scraped = watched.scrape()
    assert scraped.value(f"{name}_termination_duration_seconds_sum") == 45
    assert scraped.value(f"{name}_termination_current_time_seconds") == 0
    assert scraped.of(f"{name}_status_condition_count", "type") == {}
    assert scraped.of(f"{name}_status_condition_current_status_seconds", "type") == {}


def test_other_kinds_are_passed_by(watched: Watched) -> None:
    before = watched.metrics.text()
    watched.see(("Ready", "True", "Ready", 50), kind="Pod")
    assert watched.metrics.text() == before


def test_a_standby_counts_and_serves_nothing(watched: Watched) -> None:
    """MET-13: no sum over replicas counts twice; when it leads it knows what is there."""
    watched.leads = False
    watched.see(("Launched", "False", "Waits", 50))
    watched.see(("Launched", "True", "Launched", 20))
    name = "operator_nodeclaim_status_condition"
    scraped = watched.scrape()
    assert scraped.of(f"{name}_transitions_total", "type") == {}
    assert scraped.value(f"{name}_count", **LAUNCHED) is None
    watched.leads = True
    assert watched.scrape().value(f"{name}_count", **LAUNCHED) == 1


def test_reasons_without_end_become_one(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """MET-13: few series."""
    monkeypatch.setattr(counted, "MOST_SERIES", 2)
    for number in range(5):
        watched.see(("Launched", "False", f"Request{number}", 5), name=f"n{number}")
    counts = watched.scrape().of("operator_nodeclaim_status_condition_count", "reason")
    assert counts == {"Request0": 1, "Request1": 1, "other": 3}


@pytest.mark.parametrize("status", [None, [], {"conditions": "x"}, {"conditions": [{"type": 1}]}])
def test_rubbish_counts_as_nothing_said(watched: Watched, status: object) -> None:
    raw = {"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "soon"}, "status": status}
    watched.conditions.note(BY_KIND["Node"], raw)
    watched.conditions.forget(BY_KIND["Node"], "u")
    assert watched.scrape().value("operator_node_termination_duration_seconds_count") == 0
