"""Wires the interruption service: sources put notices into one backlog, the worker takes the most urgent first."""

from __future__ import annotations

import contextlib
from functools import partial

from services.interruption.actions.webhook import Webhook
from services.interruption.actions.worker import NoticeHandling
from services.interruption.directory import KINDS, Directory, list_nodes
from services.interruption.self_managed_nodes.hook_keeper import (
    PERIOD_SECONDS as HOOK_PERIOD_SECONDS,
)
from services.interruption.self_managed_nodes.hook_keeper import HookKeeper
from services.interruption.self_managed_nodes.lifecycle_hooks import HookCalls, LifecycleHooks
from services.interruption.sources.instance_status import InstanceStatusSource
from services.interruption.sources.scheduled_events import PERIOD_SECONDS, ScheduledEventSource
from services.interruption.sources.sqs import SqsSource, keeping
from shared.cloud.client.session import Cloud
from shared.errors import NotFound, Unauthorized
from shared.kube.machines import Machines
from shared.kube.pools import read_pool
from shared.redis import streams
from shared.redis.mirror import MirrorReader
from shared.runtime.aws import open_cloud
from shared.runtime.environment import Entry, Environment
from shared.runtime.services import Loop, Service, periodic
from shared.settings import InterruptionSettings


async def build(env: Environment[InterruptionSettings]) -> Service:
    """Wire the service. Without a queue it says so and reads instance statuses only (INT-01, INT-30)."""
    cloud = await open_cloud(env, ping=lambda cloud: _ask_queue(cloud, env.settings))
    directory, mirror = _directory(env)
    webhook = Webhook(env.settings, env.clock, env.random)
    calls = HookCalls(cloud.autoscaling, cloud.ec2)
    hooks = LifecycleHooks(env, directory, webhook, calls)
    handling = NoticeHandling.of(env, directory, webhook, hooks.take)
    recent = handling.notifier.recent
    env.metrics.add_page(lambda: recent.deadline_text(directory.has_machine, now=env.clock.now()))
    keeper = HookKeeper(env, cloud.autoscaling, directory, webhook)
    keep = keeping(env.bus.dead_letters(streams.INTERRUPTIONS))
    queue = SqsSource(
        env.settings, cloud.sqs, handling.backlog, directory, keep,
        env.clock, env.random, env.metrics,
    )  # fmt: skip
    statuses = InstanceStatusSource(
        env.settings, cloud.instance_statuses, handling.backlog, directory, env.clock, env.metrics
    )
    events = ScheduledEventSource(env.settings, handling.backlog, directory, env.clock)
    timed = partial(periodic, clock=env.clock, jitter=env.random)
    loops = [
        Loop("mirror", mirror.run, progress=lambda: mirror.last_progress),
        Loop("queue", queue.run, progress=lambda: queue.last_progress or None),
        Loop("queue deletions", queue.run_deletions, progress=queue.deleting),
        Loop("queue renewals", queue.run_renewals, progress=lambda: queue.last_renewal or None),
        Loop("instance statuses", statuses.run, progress=statuses.progress),
        timed("scheduled events", PERIOD_SECONDS, events.check),
        timed("lifecycle hooks", HOOK_PERIOD_SECONDS, keeper.check),
        *handling.loops(),
    ]

    def status() -> dict[str, object]:
        read = {
            "queue": queue.url or None,
            "held": len(queue.deliveries),
            "instanceStatuses": statuses.problem or "read",
        }
        hooks = {"lifecycleHooks": {"waiting": keeper.waiting, "problem": keeper.problem}}
        return {**read, **hooks, **handling.status()}

    def missing() -> list[str]:
        return [*_missing(queue), *filter(None, [statuses.complaint()])]

    return Service("interruption", loops, env.metrics, status, missing)


def _directory(env: Environment[InterruptionSettings]) -> tuple[Directory, MirrorReader]:
    """The directory and the mirror's reader that it follows."""
    directory = Directory(
        Machines(env.kube), env.clock, partial(read_pool, env.kube), partial(list_nodes, env.kube)
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
    return directory, mirror


async def _ask_queue(cloud: Cloud, settings: InterruptionSettings) -> None:
    """Check that AWS answers. A missing or forbidden queue is no error here: the source reports it and tries again."""
    if settings.interruption_queue:
        with contextlib.suppress(NotFound, Unauthorized):
            await cloud.sqs.queue_url(settings.interruption_queue)


def _missing(queue: SqsSource) -> list[str]:
    """Why the service is not ready. An empty INTERRUPTION_QUEUE is a choice, not a fault (INT-01)."""
    if not queue.settings.interruption_queue:
        return []
    if queue.problem:
        return [f"the queue cannot be read: {queue.problem}"]
    if queue.undeleted:
        return [f"messages come again and again, they cannot be deleted: {queue.undeleted}"]
    return [] if queue.url else ["the queue is not found yet"]


ENTRY = Entry("interruption", InterruptionSettings, build)
