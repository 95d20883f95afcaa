"""The interruption service: what EC2 announces through EventBridge and SQS -> Machines deleted in time."""

from __future__ import annotations

import contextlib

from services.interruption.poller import Poller
from shared.aws import open_cloud
from shared.cloud.session import Cloud
from shared.domain.records import MACHINES
from shared.environment import Entry, Environment
from shared.errors import NotFound
from shared.kube.machines import Machines
from shared.log import get_logger
from shared.mirror import MirrorReader
from shared.mirror.offerings import UnavailableOfferings
from shared.runtime import Loop, Service, until_stopped
from shared.settings import InterruptionSettings

log = get_logger(__name__)


async def build(env: Environment[InterruptionSettings]) -> Service:
    """Wire the interruption service. Without a queue it idles and says so (INT-01, scenario 40)."""
    settings = env.settings
    if not settings.interruption_queue:
        log.warning("INTERRUPTION_QUEUE is empty: spot interruptions are not handled")
        return Service(
            "interruption",
            [Loop("idle", until_stopped, progress=env.clock.monotonic)],
            env.metrics,
            lambda: {"queue": None},
        )

    async def ask_queue(cloud: Cloud) -> None:
        # SQS only: the model of EC2 would cost this service its memory.
        with contextlib.suppress(NotFound):  # the poller says so and looks again
            await cloud.sqs.queue_url(settings.interruption_queue)

    cloud = await open_cloud(env, ping=ask_queue)
    mirror = MirrorReader(
        settings.redis_url, env.bus.prefix, clock=env.clock, random=env.random, kinds=(MACHINES,)
    )
    poller = Poller(
        settings=settings,
        cloud=cloud,
        machines=Machines(env.kube),
        bus=env.bus,
        clock=env.clock,
        metrics=env.metrics,
        recorder=env.recorder,
        unavailable=UnavailableOfferings(env.bus.redis, env.bus.prefix, env.clock),
        mirror=mirror,
    )

    def status() -> dict[str, object]:
        return {"queue": poller.url or None, "handled": poller.handled}

    def missing() -> list[str]:
        if poller.problem:
            return [f"the queue cannot be read: {poller.problem}"]
        return [] if poller.url else ["the queue is not found yet"]

    loops = [
        Loop("queue", poller.run, progress=lambda: poller.last_progress or env.clock.monotonic()),
        Loop("mirror", mirror.run, progress=lambda: mirror.last_progress),
    ]
    return Service("interruption", loops, env.metrics, status, missing)


ENTRY = Entry("interruption", InterruptionSettings, build)
