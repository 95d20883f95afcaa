"""One owner for every effect, and one home for the time (SVC-01, SVC-02, SVC-07), as roles and sources show it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.texts.documents import documents

ROOT = Path(__file__).resolve().parents[2]
ROLES = {
    one["metadata"]["name"]: one["rules"]
    for file in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for one in documents(file)
    if one["kind"] == "ClusterRole"
}
SOURCES = {
    str(file.relative_to(ROOT)): file.read_text()
    for folder in ("services", "shared")
    for file in sorted((ROOT / folder).rglob("*.py"))
}
CLOCKS = re.compile(
    r"\btime\.(time|time_ns|monotonic|monotonic_ns|perf_counter|sleep)\(|\b(datetime|date)\.(now|utcnow|today)\("
)
EVENTS = (
    "Nominated", "FailedScheduling", "NoCompatibleInstanceTypes", "DisruptionBlocked", "DisruptionLaunching",
    "DisruptionTerminating", "DisruptionWaitingReadiness", "Unconsolidatable", "ConsolidationCandidate",
    "ConsolidationApproved", "ConsolidationRejected", "Evicted", "Disrupted", "FailedDraining",
    "AwaitingVolumeDetachment", "TerminationGracePeriodExpiring", "FailedTermination", "FailedConsistencyCheck",
    "InsufficientCapacityError", "UnregisteredTaintMissing", "NodeClassNotReady", "NodeRepairBlocked",
    "InvalidDoNotDisruptAnnotation", "DoNotDisruptUntil", "DoNotDisruptGracePeriodElapsed",
    "WaitingOnNodeClaimTermination", "SpotInterrupted", "SpotRebalanceRecommendation", "InstanceStopping",
    "InstanceTerminating", "InstanceUnhealthy", "TerminatingOnInterruption",
    "CapacityReservationInstanceInterrupted", "ZonalShiftActive", "ZonalShiftCleared",
)  # fmt: skip


def who_may(verb: str, resource: str) -> set[str]:
    return {
        name.removeprefix("dovetail-")
        for name, rules in ROLES.items()
        for rule in rules
        if resource in rule.get("resources", ()) and verb in rule["verbs"]
    }


@pytest.mark.parametrize(
    ("verb", "resource", "owner"),
    [
        ("create", "machines", "scheduler"),
        ("create", "nodeclaims", "scheduler"),
        ("create", "launchrecords", "launcher"),
        ("create", "pods/eviction", "terminator"),
        ("delete", "pods", "terminator"),
        ("patch", "provisioners/status", "watcher"),
        ("patch", "nodepools/status", "watcher"),
    ],
)
def test_svc_01_an_effect_has_one_owner(verb: str, resource: str, owner: str) -> None:
    """SVC-02: whoever may do it is the one who decides about it."""
    assert who_may(verb, resource) == {owner}


def test_sch_36_nobody_binds_pods() -> None:
    """That is kube-scheduler's, when the node is ready."""
    assert who_may("create", "pods/binding") == set()


def test_svc_07_only_the_clock_asks_for_the_time() -> None:
    """A timer that asks by itself cannot be tested with a clock that is stepped."""
    asking = {path for path, text in SOURCES.items() if CLOCKS.search(text)}
    assert asking == {"shared/concurrency/clock.py"}


def test_evt_02_every_event_that_people_watch_for_is_written_somewhere() -> None:
    """By its very name: alerts match on it."""
    text = "".join(SOURCES.values())
    assert [name for name in EVENTS if f'"{name}"' not in text] == []
