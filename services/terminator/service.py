"""The terminator: takes away what carries a deletion timestamp, and nothing else."""

from __future__ import annotations

from services.terminator.eviction import Evictions
from services.terminator.termination import Termination
from services.terminator.work import Work
from services.terminator.writing import Writer
from shared import streams
from shared.aws import open_cloud
from shared.environment import Entry, Environment
from shared.kube.machines import Machines
from shared.runtime import Loop, Service, periodic
from shared.settings import TerminatorSettings


async def build(env: Environment[TerminatorSettings]) -> Service:
    """Wire the terminator."""
    cloud = await open_cloud(env)
    machines = Machines(env.kube)
    writer = Writer(env.kube, machines, env.bus, env.clock, env.recorder, env.metrics)
    evictions = Evictions(env.kube, env.clock, writer, env.metrics)
    termination = Termination(
        env.kube, machines, cloud, env.clock, env.settings, env.metrics, writer, evictions
    )
    work = Work(termination, env.kube, env.metrics, env.settings.poll_seconds)
    loops = [
        Loop("terminations", work.run, progress=lambda: work.last_progress),
        env.consumer_loop(streams.TERMINATIONS, "terminator", work.handle),
        periodic(
            "resync", env.settings.resync_seconds, work.resync, clock=env.clock, jitter=env.random
        ),
    ]
    return Service("terminator", loops, env.metrics, lambda: {"open": work.open})


ENTRY = Entry("terminator", TerminatorSettings, build)
