"""One series for each pod that there is, and how long pods take (MET-04)."""

from __future__ import annotations

from typing import Any

import pytest

from services.watcher.conversion import KINDS, Kind
from services.watcher.metrics.pods import PodGauges
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.metrics import Metrics
from tests.support.clock.fake import FakeClock
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_node

NOW = 1.7e9
KIND: dict[str, Kind] = {kind.resource.kind: kind for kind in KINDS}
STATE = "karpenter_pods_state"
STARTUP, BOUND = "karpenter_pods_startup_duration_seconds", "karpenter_pods_bound_duration_seconds"
UNSTARTED, UNBOUND = "karpenter_pods_unstarted_time_seconds", "karpenter_pods_unbound_time_seconds"


class Watched:
    """A watcher's view of pods that were created 100 seconds ago."""

    def __init__(self) -> None:
        self.metrics, self.clock, self.leads = Metrics("watcher"), FakeClock(wall=NOW), True
        self.gauges = PodGauges(self.metrics, self.clock, lambda: self.leads)
        self.metrics.add_page(self.gauges.text)

    def see(self, name: str = "web", *, first: bool = False, **changes: Any) -> None:
        """``bound`` and ``ready``: how many seconds ago; ``phase`` and ``node`` as they stand."""
        since = {"PodScheduled": changes.get("bound"), "Ready": changes.get("ready")}
        conditions = [
            {"type": type_, "status": "True", "lastTransitionTime": rfc3339(NOW - ago)}
            for type_, ago in since.items()
            if ago is not None
        ]
        meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
        raw = {
            "metadata": {
                **meta,
                "creationTimestamp": rfc3339(NOW - 100),
                "ownerReferences": changes.get("owners", []),
            },
            "spec": {"nodeName": changes.get("node", "")},
            "status": {"phase": changes.get("phase", "Pending"), "conditions": conditions},
        }
        self.gauges.note(KIND["Pod"], raw, first=first)

    def scrape(self) -> Scraped:
        return Scraped(self.metrics.text())


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_pod_tells_where_it_is_and_whose(watched: Watched) -> None:
    """Its owner as Karpenter writes it, its place as its node's labels say."""
    place = {
        keys.NODE_POOL: "default",
        keys.ZONE: "us-west-2b",
        keys.ARCH: "arm64",
        keys.CAPACITY_TYPE: "spot",
        keys.INSTANCE_TYPE: "m7g.large",
    }
    watched.gauges.note_node("n", make_node("n", labels=place))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u"}
    watched.see(node="n", phase="Running", bound=90, ready=60, owners=[owner])
    labels = {
        "name": "web",
        "namespace": "shop",
        "owner": "/apis/apps/v1/namespaces/shop/replicasets/web-1",
        "node": "n",
        "phase": "Running",
        "scheduled": "true",
        "ready": "true",
        "nodepool": "default",
        "provisioner": "N/A",
        "zone": "us-west-2b",
        "arch": "arm64",
        "capacity_type": "spot",
        "instance_type": "m7g.large",
        "managed": "true",
    }
    assert watched.scrape().value(STATE, **labels) == 1


def test_a_pod_without_a_node_belongs_to_no_pool(watched: Watched) -> None:
    watched.see()
    scraped = watched.scrape()
    said = {label: scraped.of(STATE, label).keys() for label in ("nodepool", "managed", "phase")}
    assert said == {"nodepool": {"N/A"}, "managed": {"false"}, "phase": {"Pending"}}


def test_a_pod_that_is_gone_has_no_series(watched: Watched) -> None:
    """MET-13: few series."""
    watched.see("a")
    watched.see("b")
    watched.gauges.forget(KIND["Pod"], "uid-a")
    for name in (STATE, UNSTARTED, UNBOUND):
        assert watched.scrape().of(name, "name").keys() == {"b"}


def test_a_pod_is_timed_once_on_its_way_to_run(watched: Watched) -> None:
    """From its creation, by what its conditions say; a pod that loses Ready does not start again."""
    watched.see()
    scraped = watched.scrape()
    assert scraped.of(UNBOUND, "name") == {"web": 100}
    assert scraped.of(UNSTARTED, "name") == {"web": 100}
    watched.see(node="n", bound=60)
    scraped = watched.scrape()
    assert scraped.of(UNBOUND, "name") == {}
    assert scraped.of(UNSTARTED, "name") == {"web": 100}
    assert scraped.value(f"{BOUND}_sum") == 40
    for ready in (25, None, 5):
        watched.see(node="n", phase="Running", bound=60, ready=ready)
    scraped = watched.scrape()
    assert scraped.of(UNSTARTED, "name") == {}
    assert scraped.value(f"{BOUND}_count") == 1
    assert scraped.value(f"{STARTUP}_count") == 1
    assert scraped.value(STARTUP, quantile="0.9") == 75
    assert scraped.value("karpenter_pods_startup_time_seconds", quantile="1") == 75


def test_a_pod_that_is_over_did_not_start(watched: Watched) -> None:
    """Its condition Ready says when it ended."""
    watched.see()
    watched.see(node="n", phase="Failed", bound=60)
    scraped = watched.scrape()
    assert scraped.value(f"{STARTUP}_count") == 0
    assert scraped.of(UNSTARTED, "name") == {}


def test_what_the_first_list_shows_was_timed_before(watched: Watched) -> None:
    watched.see("ran", first=True, node="n", phase="Running", bound=60, ready=30)
    watched.see("waits", first=True, node="n", bound=60)
    assert watched.scrape().value(f"{BOUND}_count") == 0
    watched.see("ran", node="n", phase="Running", bound=60, ready=5)
    watched.see("waits", node="n", phase="Running", bound=60, ready=5)
    scraped = watched.scrape()
    assert scraped.value(f"{BOUND}_count") == 0
    assert scraped.value(f"{STARTUP}_count") == 1


def test_a_standby_counts_and_serves_no_pods(watched: Watched) -> None:
    """MET-13: when it leads it knows what is there."""
    watched.leads = False
    watched.see(node="n", phase="Running", bound=60, ready=30)
    scraped = watched.scrape()
    assert scraped.of(STATE, "name") == {}
    assert scraped.value(f"{STARTUP}_count") == 0
    watched.leads = True
    assert watched.scrape().of(STATE, "name") == {"web": 1}


@pytest.mark.parametrize(
    "rubbish",
    [
        {"spec": None, "status": "x"},
        {"status": {"conditions": "x"}},
        {"status": {"conditions": [1, {"status": "True", "lastTransitionTime": "soon"}]}},
    ],
)
def test_rubbish_is_a_pod_that_waits(watched: Watched, rubbish: dict[str, Any]) -> None:
    meta = {"name": "a", "namespace": "b", "uid": "u", "ownerReferences": 7}
    watched.gauges.note(KIND["Pod"], {"metadata": meta, **rubbish}, first=False)
    assert watched.scrape().of(STATE, "phase") == {"Pending": 1}
