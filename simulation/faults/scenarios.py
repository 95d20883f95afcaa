"""Scenarios: how often each kind of fault happens in a run, and how many replicas each service has.

In a mixed run only a share of the kinds takes part, another one for each seed. With every kind at once, one fault would
hide what another one broke: a message that a cut loses is found by the resync that a restart of Redis starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from simulation.faults import aws, cluster, launches, network, notices, processes, redis
from simulation.faults.fault import Fault

SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")

KINDS: Mapping[str, type[Fault]] = MappingProxyType(
    {
        one.kind: one
        for one in (
            processes.Kill,
            processes.Terminate,
            processes.Pause,
            processes.ClockSkew,
            processes.ClockJump,
            network.Cut,
            network.Partition,
            network.HalfOpen,
            network.Latency,
            network.SlowReader,
            redis.RedisRestart,
            redis.RedisFlush,
            redis.RedisFailover,
            redis.RedisStall,
            redis.RedisFull,
            redis.DiskFull,
            cluster.ApiDown,
            cluster.Relist,
            cluster.WatchTruncated,
            cluster.ApiRefusals,
            cluster.EtcdRollback,
            cluster.NeverJoins,
            cluster.KubeletsStop,
            aws.StaleLists,
            aws.Shortage,
            aws.Throttling,
            aws.AwsErrors,
            aws.LostAnswer,
            aws.PartialFleets,
            aws.RepeatedMessages,
            aws.InstancesDie,
            aws.InstancesStop,
            aws.SpotInterruptions,
            aws.Rebalance,
            aws.HealthEvent,
            aws.BrokenMessage,
            processes.LoopEnds,
            network.WatcherCutOff,
            network.WatcherLate,
            processes.LauncherKilled,
            processes.TerminatorKilled,
            processes.KilledInCommand,
            processes.LeaderPaused,
            processes.WatcherStopped,
            aws.Denied,
            aws.ListsLate,
            notices.NoticeAndKill,
            notices.NoticeRefused,
            notices.NoticesLost,
            launches.LaunchLost,
            launches.LaunchContested,
            launches.LaunchUnseen,
            launches.LaunchStopped,
            launches.LaunchOvertaken,
        )
    }
)
"""Every kind of fault, in the order in which a plan draws them."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """``per_minute`` has the mean number of faults of each kind in a minute of a run in which the kind takes part."""

    name: str
    text: str
    per_minute: Mapping[str, float]
    share: float = 1.0
    """The probability that a kind takes part in a run."""
    replicas: int = 1
    users: Mapping[str, float] = field(default_factory=dict)
    """How often people do something, by the name of the action, where it is not as usual."""
    actions_per_minute: float = 10.0
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the services, where settings are not the defaults."""

    def processes(self) -> tuple[str, ...]:
        """The names of all simulated processes."""
        return tuple(
            f"{service}-{number}" for service in SERVICES for number in range(self.replicas)
        )


CRASHES = {"kill": 2.0, "terminate": 0.5, "pause": 0.5}
NETWORK = {"cut": 6.0, "partition": 0.6, "half-open": 0.4, "latency": 0.6, "slow-reader": 0.3}
REDIS = {
    "redis-restart": 0.5,
    "redis-flush": 0.3,
    "redis-failover": 0.7,
    "redis-stall": 0.5,
    "redis-full": 0.3,
    "disk-full": 0.2,
}
API = {"api-down": 0.3, "relist": 0.8, "watch-truncated": 1.0, "api-refusals": 0.6}
NODES = {"never-joins": 0.3, "kubelets-stop": 0.2}
AWS = {
    "ec2-stale-lists": 0.4,
    "ec2-shortage": 0.5,
    "aws-throttling": 0.5,
    "aws-errors": 0.3,
    "aws-lost-answer": 2.0,
    "ec2-partial-fleets": 0.5,
    "sqs-repeats": 0.3,
    "ec2-instances-die": 0.6,
    "ec2-instances-stop": 0.2,
}
SPOT = {"spot-interruption": 1.0, "rebalance": 0.5, "health-event": 0.3, "sqs-broken-message": 0.3}
CLOCK = {"clock-skew": 1.0, "clock-jump": 0.5}
USUAL = CRASHES | NETWORK | REDIS | API | NODES | AWS | SPOT | CLOCK
"""What happens in any cluster; a run has a share of it."""
ROLLBACK = {"etcd-rollback": 0.5}
STALE = {"watcher-cut-off": 2.0, "watcher-late": 3.0}
MOVING = {
    "delete node": 25.0,
    "delete machine": 15.0,
    "drain node": 5.0,
    "protect": 40.0,
    "unprotect": 10.0,
    "edit class": 15.0,
    "terminate instance": 8.0,
}
"""What people do to nodes, more often than usual, and pods that are protected."""
REPLACING = {
    "edit class": 40.0,
    "scale": 60.0,
    "delete workload": 15.0,
    "delete node": 15.0,
    "delete machine": 15.0,
    "drain node": 0.0,
}
"""What people do so that machines are replaced and emptied."""
CHEAPEST = {"PACKING_POLICY": "LowestCost", "PACKING_EFFORT": "50"}
"""With this policy the scheduler consolidates by ``Global``."""
FEATURES = {
    "add static pool": 6.0,
    "resize static pool": 8.0,
    "delete static pool": 3.0,
    "run gang": 15.0,
    "apply overlay": 6.0,
    "keep room": 8.0,
    "resize room": 6.0,
    "reserve": 6.0,
    "keep data": 6.0,
    "add daemons": 3.0,
}
GATES = {"FEATURE_GATES": "CapacityBuffer=true,NodeOverlay=true,StaticCapacity=true"}
"""The gates that these actions need."""
ANNOTATING = {"annotate pool": 60.0, "edit class": 12.0, "edit pool": 12.0}
"""Machines drift, so that there is something to disrupt."""
LIMITING = {"tighten limits": 150.0, "burst": 20.0}
COMING_AND_GOING = {"burst": 150.0, "change mind": 75.0}
UNANSWERED = {"aws-lost-answer": 6.0}
UNSURE = UNANSWERED | {"aws-denied": 3.0}
DELETING = {"delete machine": 60.0, "burst": 60.0, "change mind": 20.0}

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        one.name: one
        for one in (
            Scenario("quiet", "users only, no fault", {}),
            Scenario("crashes", "services are killed, terminated and stopped", CRASHES),
            Scenario("network", "connections break, hang and are slow", NETWORK),
            Scenario("redis", "Redis restarts, forgets, stalls and refuses", REDIS),
            Scenario("api", "the API server is away, refuses and breaks watches", API),
            Scenario("aws", "EC2 and SQS refuse, forget and lag behind", AWS | NODES),
            Scenario(
                "spot",
                "instances are interrupted",
                SPOT | {"sqs-repeats": 0.5, "ec2-shortage": 0.5},
            ),
            Scenario("clock", "clocks of services are wrong", CLOCK | {"kill": 0.5}),
            Scenario("loops", "loops of services end", {"loop-ends": 2.0}),
            Scenario(
                "drains",
                "nodes are replaced and drained",
                {},
                users=MOVING,
                actions_per_minute=40.0,
            ),
            Scenario(
                "limits",
                "people tighten the limits of pools while launchers are killed",
                {"launcher-killed": 6.0},
                users=LIMITING,
                actions_per_minute=40.0,
            ),
            Scenario(
                "stale",
                "the mirror falls behind while pods come and go",
                STALE,
                users=COMING_AND_GOING,
                actions_per_minute=40.0,
            ),
            Scenario(
                "takeovers",
                "services are killed while nodes are replaced and drained",
                {"kill": 1.0, "terminator-killed": 3.0, "killed-in-command": 4.0},
                users=REPLACING,
                actions_per_minute=40.0,
            ),
            Scenario(
                "leaders",
                "leaders are stopped for longer than a Lease while pods come and go",
                {"leader-paused": 1.5},
                replicas=2,
                users=COMING_AND_GOING,
                actions_per_minute=40.0,
            ),
            Scenario(
                "no-answers",
                "answers of EC2 are lost while machines are deleted",
                UNANSWERED,
                users=DELETING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "unsure",
                "calls to EC2 get no answer and are forbidden then, and instances end",
                UNSURE | {"ec2-instances-die": 4.0},
                users=DELETING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "late-lists",
                "the same while EC2's lists are late",
                UNSURE | {"ec2-lists-late": 1.5, "never-joins": 0.7, "launch-unseen": 0.7},
                users=DELETING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "rivals",
                "two launchers wait for EC2, which throttles and does not answer",
                UNSURE | {"aws-throttling": 3.0, "launcher-killed": 2.0},
                replicas=2,
                users=COMING_AND_GOING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "lost-launches",
                "launchers are killed as EC2 starts instances, which end before anybody looks",
                {"launch-lost": 2.0},
                users=COMING_AND_GOING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "contested-launches",
                "two launchers look for instances that EC2 lists one after the other",
                {"launch-contested": 3.0},
                replicas=2,
                users=COMING_AND_GOING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "stopped-launches",
                "launchers are killed as EC2 starts instances, which somebody stops",
                {"launch-stopped": 3.0},
                users=COMING_AND_GOING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "overtaken-launches",
                "a launcher gets its answer when another one has bought again",
                {"launch-overtaken": 2.0},
                replicas=2,
                users=COMING_AND_GOING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "refusals",
                "the API server refuses requests and is away while pods come and go",
                {"api-refusals": 4.0, "api-down": 1.0},
                users=COMING_AND_GOING,
                actions_per_minute=30.0,
            ),
            Scenario(
                "old-mirror",
                "watchers are stopped while nodes are replaced",
                {"watcher-stopped": 0.5},
                users=MOVING,
                actions_per_minute=40.0,
            ),
            Scenario(
                "notices",
                "announcements of EC2 come while something else fails",
                {"notice-and-kill": 1.0, "notice-refused": 0.7},
            ),
            Scenario(
                "joining",
                "instances end, or never become nodes, and nobody says so",
                {"never-joins": 1.5, "ec2-instances-die": 2.0, "notices-lost": 1.0},
            ),
            Scenario("rollback", "etcd is restored from a backup", ROLLBACK | {"kill": 0.5}),
            Scenario(
                "mixed",
                "a different third of all kinds in each run, without restored backups",
                USUAL,
                share=1 / 3,
            ),
            Scenario(
                "two-replicas",
                "as mixed, with two replicas of each service",
                USUAL,
                share=1 / 3,
                replicas=2,
            ),
            Scenario(
                "lowest-cost",
                "as mixed, with LowestCost and Global consolidation",
                USUAL,
                share=1 / 3,
                variables=CHEAPEST,
            ),
            Scenario(
                "features",
                "as mixed, with static pools, gangs, overlays, kept room and reservations",
                USUAL,
                share=1 / 3,
                users=FEATURES,
                actions_per_minute=16.0,
                variables=GATES,
            ),
            Scenario(
                "annotations",
                "as mixed, with pools that keep room, close, wait for approval and are halted",
                USUAL,
                share=1 / 6,
                users=ANNOTATING,
                actions_per_minute=16.0,
            ),
        )
    }
)
DEFAULT = "mixed"
