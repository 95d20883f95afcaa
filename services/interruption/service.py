"""The interruption service: what EC2 announces -> Machines deleted in time.

Sources (queue, instance statuses) put notices into one backlog; the worker takes the most urgent first and writes to
Kubernetes; bells tell the others. It decides nothing that it could not repeat.
"""

from __future__ import annotations

import contextlib
from functools import partial

from services.interruption.composition import Hands
from services.interruption.directory import KINDS, Directory, list_nodes
from services.interruption.self_managed_nodes.hook_annotations import HookMarks
from services.interruption.self_managed_nodes.hook_keeper import PERIOD_SECONDS as LOOK_PERIOD
from services.interruption.self_managed_nodes.hook_keeper import HookKeeper
from services.interruption.self_managed_nodes.lifecycle_hooks import HookCalls
from services.interruption.sources.dead_letters import keeping
from services.interruption.sources.instance_status import StatusSource
from services.interruption.sources.scheduled_events import PERIOD_SECONDS, WaitingSource
from services.interruption.sources.sqs import QueueSource
from shared import streams
from shared.aws import open_cloud
from shared.cloud.session import Cloud
from shared.environment import Entry, Environment
from shared.errors import NotFound, Unauthorized
from shared.kube.machines import Machines
from shared.kube.pools import read_pool
from shared.mirror import MirrorReader
from shared.runtime import Loop, Service, periodic
from shared.settings import InterruptionSettings


async def build(env: Environment[InterruptionSettings]) -> Service:
    """Wire the interruption service. Without a queue it says so and reads instance statuses only (INT-01, INT-30)."""
    cloud = await open_cloud(env, ping=lambda cloud: _ask_queue(cloud, env.settings))
    directory = Directory(
        Machines(env.kube),
        env.clock,
        partial(read_pool, env.kube),
        partial(list_nodes, env.kube),
    )
    mirror = directory.reader = MirrorReader(
        env.settings.redis_url,
        env.bus.prefix,
        clock=env.clock,
        random=env.random,
        kinds=KINDS,
        on_change=directory.note,
        key=env.settings.mirror_key,
        on_rejected=env.metrics.mirror_rejected.inc,
    )
    hands = Hands.of(env, directory, HookCalls(cloud.autoscaling, cloud.ec2))
    keeper = HookKeeper(
        cloud.autoscaling,
        directory,
        HookMarks(env.kube),
        hands.webhook,
        env.clock,
        env.random,
        env.metrics,
        env.recorder,
    )
    queue = QueueSource(
        env.settings,
        cloud.sqs,
        hands.backlog,
        directory,
        keeping(env.bus.dead_letters(streams.INTERRUPTIONS)),
        env.clock,
        env.random,
        env.metrics,
    )
    statuses = StatusSource(
        env.settings, cloud.instance_statuses, hands.backlog, directory, env.clock, env.metrics
    )
    waiting = WaitingSource(env.settings, hands.backlog, directory, env.clock)
    loops = [
        Loop("mirror", mirror.run, progress=lambda: mirror.last_progress),
        Loop("queue", queue.run, progress=lambda: queue.last_progress or env.clock.monotonic()),
        Loop("queue deletions", queue.run_deletions, progress=env.clock.monotonic),
        Loop("instance statuses", statuses.run, progress=statuses.progress),
        periodic(
            "scheduled events", PERIOD_SECONDS, waiting.look, clock=env.clock, jitter=env.random
        ),
        periodic("lifecycle hooks", LOOK_PERIOD, keeper.look, clock=env.clock, jitter=env.random),
        *hands.loops(),
    ]

    def status() -> dict[str, object]:
        read = {"queue": queue.url or None, "instanceStatuses": statuses.problem or "read"}
        hooks = {"lifecycleHooks": {"waiting": keeper.waiting, "problem": keeper.problem}}
        return {**read, **hooks, **hands.status()}

    def missing() -> list[str]:
        return [*_missing(queue), *filter(None, [statuses.complaint()])]

    return Service("interruption", loops, env.metrics, status, missing)


async def _ask_queue(cloud: Cloud, settings: InterruptionSettings) -> None:
    """Is AWS there? A queue that is missing or forbidden is the source's to report: it looks again."""
    if settings.interruption_queue:
        with contextlib.suppress(NotFound, Unauthorized):
            await cloud.sqs.queue_url(settings.interruption_queue)


def _missing(queue: QueueSource) -> list[str]:
    """INT-01: an empty setting is a choice, not a fault."""
    if not queue.settings.interruption_queue:
        return []
    if queue.problem:
        return [f"the queue cannot be read: {queue.problem}"]
    if queue.undeleted:
        return [f"messages come again and again, they cannot be deleted: {queue.undeleted}"]
    return [] if queue.url else ["the queue is not found yet"]


ENTRY = Entry("interruption", InterruptionSettings, build)
