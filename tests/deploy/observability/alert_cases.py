"""When each alert fires, and when it does not: series of samples, one a minute, and the labels of what fires."""

from __future__ import annotations

from typing import NamedTuple

MINUTES = 90
"""So long every series lasts."""


class Case(NamedTuple):
    """``series``: selector -> samples in promtool's words. ``fires``: the labels of each firing alert; none: quiet.
    ``at``: the minute that is looked at."""

    alert: str
    series: dict[str, str]
    fires: tuple[dict[str, str], ...] = ()
    at: int = 40


def flat(value: float) -> str:
    """The same value all the time."""
    return f"{value}+0x{MINUTES}"


def rising(by: float, first: float = 0) -> str:
    """More by this much each minute."""
    return f"{first}+{by}x{MINUTES}"


def then(before: float, after: float, minute: int = 20) -> str:
    """One value, and another one from this minute on."""
    return f"{before}+0x{minute - 1} {after}+0x{MINUTES - minute}"


ALL_READY = {
    f'dovetail_ready{{service="{name}", pod="{name}-1"}}': flat(1)
    for name in ("watcher", "scheduler", "launcher", "terminator", "interruption")
}
ONE_LESS = {k: v for k, v in ALL_READY.items() if "launcher" not in k}
SCHEDULER = 'dovetail_ready{service="scheduler", pod="%s"}'
LEADER = 'leader_election_master_status{name="dovetail-watcher", pod="%s"}'
LOOP = 'dovetail_loop_failures_total{loop="mirror"}'
REJECTED = "dovetail_mirror_rejected_total"
DIFFERENCES = 'dovetail_watch_differences_total{kind="pods", direction="ghost"}'
UNSYNCED = "karpenter_cluster_state_unsynced_time_seconds"
DEAD = 'dovetail_dead_letters{stream="launches", pod="%s"}'
WAITS = 'workqueue_queue_duration_seconds_bucket{name="consume pods", controller="consume pods", le="%s"}'
DEPTH = 'workqueue_depth{name="consume pods", controller="consume pods"}'
ADDS = 'workqueue_adds_total{name="consume pods", controller="consume pods"}'
FOUND = 'dovetail_resync_found_work_total{loop="launcher"}'
REDIS, REDIS_LIMIT = "dovetail_redis_memory_bytes", "dovetail_redis_memory_limit_bytes"
FAILED = (
    "karpenter_cloudprovider_instance_launch_failures_total"
    '{zone="us-west-2a", zone_id="usw2-az1", capacity_type="spot", reason="%s"}'
)
AWS = (
    'karpenter_cloudprovider_errors_total{controller="launcher", method="CreateFleet", '
    'provider="aws", error="%s"}'
)
CREATED = 'karpenter_nodes_created_total{nodepool="default", zone="us-west-2a"}'
GAVE_UP = 'karpenter_nodeclaims_disrupted_total{reason="%s", nodepool="default"}'
WITHOUT_PLACE = 'karpenter_scheduler_unschedulable_pods_count{controller="provisioner"}'
UNBOUND = 'karpenter_pods_provisioning_unbound_time_seconds{name="web", namespace="default"}'
USAGE = 'karpenter_nodepools_usage{nodepool="default", resource_type="cpu"}'
LIMIT = 'karpenter_nodepools_limit{nodepool="default", resource_type="cpu"}'
COST = 'karpenter_nodepools_cost_total{nodepool="%s"}'
UNMATCHED = 'dovetail_unmatched_objects{promise="each node has a machine"}'
HELD = 'dovetail_deletions_held{direction="instances", nodepool="default"}'
DRAIN = 'dovetail_drain_seconds{node="n1"}'
LEFT = 'dovetail_drain_deadline_seconds{node="n1"}'
DUE = 'dovetail_interruption_deadline_seconds{machine="NodeClaim/a", node="n1", kind="spot_interrupted"}'
NOTICES = 'karpenter_interruption_message_queue_duration_seconds_bucket{le="%s"}'
NOT_ENDED = (
    "karpenter_cloudprovider_instance_termination_failures_total"
    '{zone="us-west-2a", zone_id="usw2-az1"}'
)
ROLLED_BACK = "karpenter_voluntary_disruption_queue_failures_total"
POOL, NODE = {"nodepool": "default"}, {"node": "n1"}
PLACE = {"zone": "us-west-2a", "capacity_type": "spot"}
CALL = {"method": "CreateFleet"}
QUEUE = {"name": "consume pods"}
FAST = {WAITS % "1": rising(60), WAITS % "+Inf": rising(60)}
SLOW = {WAITS % "1": flat(0), WAITS % "300": rising(60), WAITS % "+Inf": rising(60)}
LATE_NOTICES = {NOTICES % "1": flat(0), NOTICES % "60": rising(9), NOTICES % "+Inf": rising(9)}
SHORTAGE, THROTTLE = "InsufficientInstanceCapacity", "RequestLimitExceeded"

CASES = (
    Case("DovetailServiceDown", ONE_LESS, ({"service": "launcher"},)),
    Case("DovetailServiceDown", ALL_READY),
    Case("DovetailServiceNotReady", {SCHEDULER % "a": flat(0)}, ({"service": "scheduler"},)),
    Case("DovetailServiceNotReady", {SCHEDULER % "a": flat(0), SCHEDULER % "b": flat(1)}),
    Case(
        "DovetailLeaderMissing",
        {LEADER % "a": flat(0), LEADER % "b": flat(0)},
        ({"name": "dovetail-watcher"},),
    ),
    Case("DovetailLeaderMissing", {LEADER % "a": flat(0), LEADER % "b": flat(1)}),
    Case("DovetailLoopFails", {LOOP: rising(1)}, ({"loop": "mirror"},)),
    Case("DovetailLoopFails", {LOOP: then(0, 2)}),
    Case("DovetailWatchFaulty", {DIFFERENCES: then(0, 1)}, ({"kind": "pods"},)),
    Case("DovetailWatchFaulty", {DIFFERENCES: flat(3)}),
    Case("DovetailMirrorStale", {UNSYNCED: rising(60)}, ({},)),
    Case("DovetailMirrorStale", {UNSYNCED: flat(5)}),
    Case("DovetailMirrorForged", {REJECTED: then(0, 4, 35)}, ({},)),
    Case("DovetailMirrorForged", {REJECTED: flat(4)}),
    Case(
        "DovetailDeadLetters",
        {DEAD % "a": flat(2), DEAD % "b": flat(2)},
        ({"stream": "launches"},),
    ),
    Case("DovetailDeadLetters", {DEAD % "a": flat(0)}),
    Case("DovetailQueueSlow", SLOW, (QUEUE,)),
    Case("DovetailQueueSlow", FAST),
    Case("DovetailQueueStuck", {DEPTH: flat(7), ADDS: flat(100)}, (QUEUE,)),
    Case("DovetailQueueStuck", {DEPTH: flat(7), ADDS: rising(3)}),
    Case("DovetailMessagesLost", {FOUND: rising(2)}, ({"loop": "launcher"},), at=60),
    Case("DovetailMessagesLost", {FOUND: then(0, 9)}, at=60),
    Case("DovetailRedisMemory", {REDIS: flat(90), REDIS_LIMIT: flat(100)}, ({},)),
    Case("DovetailRedisMemory", {REDIS: flat(90), REDIS_LIMIT: flat(0)}),
    Case("DovetailNoCapacity", {FAILED % SHORTAGE: rising(2)}, (PLACE,)),
    Case("DovetailNoCapacity", {FAILED % "InvalidParameterValue": rising(2)}),
    Case("DovetailThrottled", {AWS % THROTTLE: rising(30)}, (CALL,)),
    Case("DovetailThrottled", {AWS % THROTTLE: rising(1)}),
    Case("DovetailUnauthorized", {AWS % "UnauthorizedOperation": rising(1)}, (CALL,)),
    Case("DovetailUnauthorized", {AWS % THROTTLE: rising(30)}),
    Case("DovetailLaunchesFail", {FAILED % SHORTAGE: rising(2)}, ({},), at=60),
    Case("DovetailLaunchesFail", {FAILED % SHORTAGE: rising(2), CREATED: rising(1)}, at=60),
    Case("DovetailNodesNeverJoin", {GAVE_UP % "registration_timeout": "_x20 1+0x50"}, (POOL,)),
    Case("DovetailNodesNeverJoin", {GAVE_UP % "registration_timeout": flat(5)}, at=80),
    Case(
        "DovetailPodsUnschedulable",
        {WITHOUT_PLACE: flat(3)},
        ({"controller": "provisioner"},),
    ),
    Case("DovetailPodsUnschedulable", {WITHOUT_PLACE: then(3, 0, 30)}),
    Case("DovetailPodsNotBound", {UNBOUND: rising(60)}, ({},)),
    Case("DovetailPodsNotBound", {UNBOUND: flat(60)}),
    Case(
        "DovetailPoolNearLimit",
        {USAGE: flat(95), LIMIT: flat(100)},
        ({**POOL, "resource_type": "cpu"},),
    ),
    Case("DovetailPoolNearLimit", {USAGE: flat(50), LIMIT: flat(100)}),
    Case("DovetailCostAboveLimit", {COST % "a": flat(70), COST % "b": flat(40)}, ({},)),
    Case("DovetailCostAboveLimit", {COST % "a": flat(70)}),
    Case("DovetailDeletionsHeld", {HELD: flat(6)}, ({**POOL, "direction": "instances"},)),
    Case("DovetailDeletionsHeld", {HELD: flat(0)}),
    Case("DovetailUnmatchedObjects", {UNMATCHED: flat(1)}, ({"promise": "each node has a machine"},)),
    Case("DovetailUnmatchedObjects", {UNMATCHED: then(1, 0)}),
    Case("DovetailDrainBlocked", {DRAIN: rising(60)}, (NODE,)),
    Case("DovetailDrainBlocked", {DRAIN: flat(90)}),
    Case("DovetailDrainNearDeadline", {LEFT: flat(200)}, (NODE,)),
    Case("DovetailDrainNearDeadline", {LEFT: flat(3600)}),
    Case("DovetailInterruptionNearDeadline", {DUE: flat(20)}, ({"machine": "NodeClaim/a"},)),
    Case("DovetailInterruptionNearDeadline", {DUE: flat(100)}),
    Case("DovetailInterruptionsSlow", LATE_NOTICES, ({},)),
    Case("DovetailInterruptionsSlow", {NOTICES % "1": rising(9), NOTICES % "+Inf": rising(9)}),
    Case("DovetailTerminationsFail", {NOT_ENDED: rising(1)}, ({},)),
    Case("DovetailTerminationsFail", {NOT_ENDED: then(0, 2)}),
    Case("DovetailReplacementsFail", {ROLLED_BACK: then(0, 5)}, ({},)),
    Case("DovetailReplacementsFail", {ROLLED_BACK: then(0, 2)}),
)  # fmt: skip
"""``vector(Inf)`` of the limit of cost is 100 here."""
