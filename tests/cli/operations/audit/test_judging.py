"""What ``dovetail audit`` says of a cluster: nothing of a healthy one, whatever it does, and each fault of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from msgspec import structs

from cli.operations.audit.catalogue import Verdict, confirmed, judged
from cli.operations.audit.finding import Graces, graces_of
from cli.operations.audit.picture import (
    Difference,
    Leaving,
    Mirror,
    Queue,
    Reading,
    Record,
    Unreadable,
)
from cli.operations.audit.rounds import changes
from shared.domain import labels as keys
from shared.domain.machines.machine import LAUNCHED, REGISTERED
from shared.domain.nodes import DISRUPTED, Node
from shared.domain.pools.generations import V1
from shared.errors import ConfigurationError
from tests.cli.operations.audit.clusters import (
    HOUR,
    NOW,
    SOUND,
    Parts,
    changed,
    draining,
    healthy_parts,
    held,
    instance_of,
    machine_of,
    ready,
)
from tests.support.cluster.others import OTHERS_LABELS

GRACES = Graces()
TAGS = {keys.NODE_POOL: "default", keys.NODE_CLASS: "default"}


def broken(reading: Reading, graces: Graces = GRACES) -> set[tuple[str, str]]:
    """(promise, object) of all that two equal readings show."""
    verdicts = judged(reading, graces)
    return {
        (one.promise, finding.subject)
        for one in confirmed(verdicts, verdicts)
        for finding in one.broken
    }


@given(healthy_parts())
def test_a_healthy_cluster_breaks_no_promise_whatever_it_does(parts: Parts) -> None:
    """OPS-14: nor does one reading by itself."""
    reading = parts.reading()
    assert broken(reading) == set()
    assert {one.result for one in judged(reading, GRACES)} == {"holds"}


@given(healthy_parts())
def test_a_node_of_eks_auto_mode_whose_deletion_lasts_breaks_no_promise(parts: Parts) -> None:
    """It has the label of a pool and the finalizer, as ours have, and no machine that we know."""
    theirs = Node("u-theirs", "theirs", labels=OTHERS_LABELS, terminating=True)
    one = Leaving("Node/theirs", NOW - HOUR, (keys.FINALIZER,))
    seen = replace(parts, nodes=[*parts.nodes, theirs], leaving=[*parts.leaving, one])
    assert broken(seen.reading()) == set()


def stray(parts: Parts) -> Reading:
    reading = parts.reading()
    one = instance_of("stray", 300, tags=TAGS)
    return replace(reading, instances=(*reading.instances, one))


def second(parts: Parts) -> Reading:
    reading = parts.reading()
    one = instance_of("second", 300, tags={**TAGS, keys.NODE_CLAIM_TAG: SOUND})
    return replace(reading, instances=(*reading.instances, one))


def shared_instance(parts: Parts) -> Reading:
    twin = structs.replace(parts.machines[0], name="twin", uid="twin")
    return replace(parts, machines=[*parts.machines, twin]).reading()


def lost(parts: Parts) -> Reading:
    ended = structs.replace(parts.instances[0], state="terminated", stopped_at=NOW - HOUR)
    return replace(parts, instances=[ended, *parts.instances[1:]]).reading()


def not_listed(parts: Parts) -> Reading:
    nodes = [structs.replace(parts.nodes[0], ready=False), *parts.nodes[1:]]
    return replace(parts, instances=parts.instances[1:], nodes=nodes).reading()


def without_machine(parts: Parts) -> Reading:
    return replace(parts, machines=parts.machines[1:], instances=parts.instances[1:]).reading()


def without_node(parts: Parts) -> Reading:
    return replace(parts, nodes=parts.nodes[1:]).reading()


def late(*conditions: str) -> Callable[[Parts], Reading]:
    """The machine has got no further than these conditions, for hours."""

    def spoil(parts: Parts) -> Reading:
        first = 0 if LAUNCHED in conditions else 1
        return replace(
            parts,
            machines=[machine_of(SOUND, V1, 5 * HOUR, conditions), *parts.machines[1:]],
            instances=parts.instances[first:],
            nodes=parts.nodes[first:],
        ).reading()

    return spoil


def closed(parts: Parts) -> Reading:
    nodes = [structs.replace(parts.nodes[0], taints=(DISRUPTED,)), *parts.nodes[1:]]
    return replace(parts, nodes=nodes).reading()


def stuck(parts: Parts) -> Reading:
    return changed(parts, terminating=True, deleted_at=NOW - HOUR).reading()


def stuck_after_its_deadline(parts: Parts) -> Reading:
    """A pod that a person's wish holds does not hold it any longer than terminationGracePeriod."""
    times = {"deleted_at": NOW - 2 * HOUR, "termination_grace_seconds": HOUR}
    extra = Parts()
    held(extra, SOUND, V1)
    return replace(
        changed(parts, terminating=True, **times), pods=[*parts.pods, *extra.pods]
    ).reading()


def stuck_node(parts: Parts) -> Reading:
    nodes = [structs.replace(parts.nodes[0], terminating=True), *parts.nodes[1:]]
    one = Leaving(f"Node/node-{SOUND}", NOW - HOUR, (keys.FINALIZER,))
    return replace(parts, nodes=nodes, leaving=[*parts.leaving, one]).reading()


def stuck_pool(parts: Parts) -> Reading:
    one = Leaving("NodePool/old", NOW - HOUR, (keys.FINALIZER,))
    return replace(parts, leaving=[*parts.leaving, one]).reading()


def left_record(parts: Parts) -> Reading:
    one = Record("token-old", NOW - HOUR, frozenset({"gone"}))
    return replace(parts, records=[*parts.records, one]).reading()


def above(parts: Parts) -> Reading:
    reading = parts.reading()
    pools = [
        structs.replace(one, limits={"cpu": 1000}) for one in reading.pools if one.api.name == V1
    ]
    return replace(reading, pools=tuple(pools))


def long_stream(parts: Parts) -> Reading:
    return replace(parts.reading(), queues=(Queue("launches", 60_000, 0, 0),))


def dead_letters(parts: Parts) -> Reading:
    return replace(parts.reading(), queues=(Queue("launches", 0, 2_000, 0),))


def unhandled(parts: Parts) -> Reading:
    return replace(parts.reading(), queues=(Queue("launches", 1, 0, 0, {"launcher": NOW - HOUR}),))


def old_mirror(parts: Parts) -> Reading:
    return replace(parts.reading(), mirror=Mirror(complete=True, age_seconds=90.0))


def other_mirror(parts: Parts) -> Reading:
    one = Difference("pods default/web", "stale", "17")
    return replace(parts.reading(), mirror=Mirror(True, 1.0, 0, (one,)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "promise", "subject"),
    [
        (stray, "each instance has a machine", "i-stray"),
        (second, "no machine has two instances", f"NodeClaim/{SOUND}"),
        (shared_instance, "no machine has two instances", f"i-{SOUND}"),
        (lost, "each launched machine has its instance", f"NodeClaim/{SOUND}"),
        (not_listed, "each launched machine has its instance", f"NodeClaim/{SOUND}"),
        (without_machine, "each node has a machine", f"Node/node-{SOUND}"),
        (without_node, "each registered machine has its node", f"NodeClaim/{SOUND}"),
        (late(), "machines become ready or go", f"NodeClaim/{SOUND}"),
        (late(LAUNCHED), "machines become ready or go", f"NodeClaim/{SOUND}"),
        (late(LAUNCHED, REGISTERED), "machines become ready or go", f"NodeClaim/{SOUND}"),
        (closed, "nodes that stay are open for pods", f"Node/node-{SOUND}"),
        (stuck, "deletions end", f"NodeClaim/{SOUND}"),
        (stuck_after_its_deadline, "deletions end", f"NodeClaim/{SOUND}"),
        (stuck_node, "deletions end", f"Node/node-{SOUND}"),
        (stuck_pool, "deletions end", "NodePool/old"),
        (left_record, "launch records end", "LaunchRecord/token-old"),
        (above, "no pool is above its limits", "NodePool/default"),
        (long_stream, "queues are bounded", "Stream/launches"),
        (dead_letters, "queues are bounded", "Stream/launches"),
        (unhandled, "messages are handled", "Stream/launches"),
        (old_mirror, "the mirror is written", "Mirror"),
        (other_mirror, "the mirror equals the API server", "pods default/web"),
    ],
)
@given(parts=healthy_parts())
def test_each_fault_breaks_its_promise_and_no_other(
    parts: Parts, spoil: Callable[[Parts], Reading], promise: str, subject: str
) -> None:
    """OPS-14, I1, I2, I3, I8: in any cluster around it. Each finding says what to do."""
    reading = spoil(parts)
    assert broken(reading) == {(promise, subject)}
    assert all(one.next_step for verdict in judged(reading, GRACES) for one in verdict.findings)


def test_what_a_persons_wish_holds_is_named_and_does_not_count() -> None:
    parts = Parts()
    held(parts, "a", V1)
    verdict = verdict_of(parts.reading(), "deletions end")
    assert verdict.result == "holds"
    assert [one.subject for one in verdict.findings] == ["NodeClaim/a"]
    assert "default/pod-a" in verdict.findings[0].found


def test_a_budget_that_lets_no_pod_go_is_such_a_wish() -> None:
    parts = Parts()
    draining(parts, "a", V1, 5 * HOUR)
    assert broken(parts.reading()) == {("deletions end", "NodeClaim/a")}
    from shared.domain.workloads.pdbs import PodDisruptionBudget

    budget = PodDisruptionBudget("uid", "default", "keep", allowed=0)
    reading = replace(parts.reading(), budgets=(budget,))
    assert broken(reading) == set()


def test_a_pool_whose_limits_were_lowered_is_named_only() -> None:
    """Nothing was launched above limits that held."""
    parts = Parts()
    ready(parts, SOUND, V1)
    reading = above(parts)
    assert broken(reading) == {("no pool is above its limits", "NodePool/default")}
    lowered = replace(reading, limits_at={"NodePool/default": NOW - HOUR})
    assert broken(lowered) == set()
    assert verdict_of(lowered, "no pool is above its limits").findings
    before = replace(reading, limits_at={"NodePool/default": NOW - 6 * HOUR})
    assert broken(before) == broken(reading)


def test_a_changed_pool_whose_api_server_does_not_say_when_is_named_only() -> None:
    """Clients of old may write without managedFields."""
    parts = Parts()
    ready(parts, SOUND, V1)
    reading = above(parts)
    changed_pools = tuple(structs.replace(one, generation=2) for one in reading.pools)
    assert broken(replace(reading, pools=changed_pools)) == set()


def test_what_has_no_age_of_its_own_must_be_in_two_readings() -> None:
    """A taint does not say since when it is there; a condition does."""
    parts = Parts()
    ready(parts, SOUND, V1)
    healthy = judged(parts.reading(), GRACES)
    first, late_ = judged(closed(parts), GRACES), judged(late()(parts), GRACES)
    assert results(confirmed(healthy, first)) == {"holds"}
    assert results(confirmed(first, first)) == {"holds", "broken"}
    assert results(confirmed(healthy, late_)) == {"holds", "broken"}


def test_an_entry_of_the_mirror_whose_object_changes_is_not_judged() -> None:
    """I8: the watcher may be about to write it."""
    parts = Parts()
    one, next_one = (
        replace(
            parts.reading(),
            mirror=Mirror(True, 1.0, 0, (Difference("pods default/web", "stale", version),)),
        )
        for version in ("17", "18")
    )
    assert results(confirmed(judged(one, GRACES), judged(next_one, GRACES))) == {"holds"}


def test_an_object_that_cannot_be_read_hides_no_other_and_may_own_an_instance() -> None:
    parts = Parts()
    ready(parts, SOUND, V1)
    reading = replace(stray(parts), machines=())
    owner = Unreadable(
        "NodeClaim/sound", "spec.taints: must be a list", "uid", f"aws:///us-west-2a/i-{SOUND}"
    )
    assert broken(replace(reading, unreadable=(owner,))) == {
        ("each instance has a machine", "i-stray")
    }


def test_what_could_not_be_read_is_not_judged_and_the_rest_is() -> None:
    parts = Parts()
    ready(parts, SOUND, V1)
    reading = replace(closed(parts), unread={"instances": "ec2:DescribeInstances"})
    verdicts = judged(reading, GRACES)
    unread = {one.promise for one in verdicts if one.result == "not judged"}
    assert unread == {
        "each instance has a machine",
        "no machine has two instances",
        "each launched machine has its instance",
    }
    assert broken(reading) == {("nodes that stay are open for pods", f"Node/node-{SOUND}")}


def test_changes_say_what_broke_what_holds_again_and_what_is_not_known() -> None:
    parts = Parts()
    ready(parts, SOUND, V1)
    holds, breaks = judged(parts.reading(), GRACES), judged(closed(parts), GRACES)
    unread = judged(replace(parts.reading(), unread={"nodes": "no right"}), GRACES)
    promise = "nodes that stay are open for pods"
    assert [(one.change, one.promise) for one in changes(holds, breaks, NOW)] == [
        ("broken", promise)
    ]
    assert changes(breaks, breaks, NOW) == []
    assert [(one.change, one.promise) for one in changes(breaks, holds, NOW)] == [
        ("holds again", promise)
    ]
    assert {one.change for one in changes(holds, unread, NOW)} == {"not judged"}
    assert {one.change for one in changes(unread, breaks, NOW)} == {"judged again", "broken"}


def test_graces_go_by_the_launchers_time_limits_and_by_the_option() -> None:
    graces = graces_of({"REGISTRATION_TIMEOUT": "30m"})
    assert (graces.registration, graces.launch, graces.apart) == (2100.0, 600.0, 30.0)
    assert graces_of({}, "5s") == Graces().at_most(5.0)
    assert graces_of({}, "5s").apart == 5.0
    with pytest.raises(ConfigurationError, match="--grace='soon' is no duration"):
        graces_of({}, "soon")


def verdict_of(reading: Reading, promise: str) -> Verdict:
    return next(one for one in judged(reading, GRACES) if one.promise == promise)


def results(verdicts: list[Verdict]) -> set[str]:
    return {one.result for one in verdicts}
