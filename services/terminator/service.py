"""The terminator: takes away what carries a deletion timestamp, and, by its gate, nodes that stay ill."""

from __future__ import annotations

from services.terminator.assembly import assemble
from services.terminator.repair.controller import LOOK_SECONDS, NodeRepair
from shared import streams
from shared.aws import open_cloud
from shared.environment import Entry, Environment
from shared.kube.machines import Machines
from shared.runtime import Loop, Service, periodic
from shared.settings import TerminatorSettings


async def build(env: Environment[TerminatorSettings]) -> Service:
    """Wire the terminator."""
    work = assemble(
        kube=env.kube,
        cloud=await open_cloud(env),
        bus=env.bus,
        clock=env.clock,
        settings=env.settings,
        metrics=env.metrics,
        recorder=env.recorder,
    )
    repair = NodeRepair(
        env.kube,
        Machines(env.kube),
        env.clock,
        env.recorder,
        env.metrics,
        enabled=lambda: env.settings.feature_gates.node_repair,
        add=work.add,
    )
    loops = [
        Loop("terminations", work.run, progress=lambda: work.last_progress),
        env.consumer_loop(streams.TERMINATIONS, "terminator", work.handle),
        periodic(
            "resync", env.settings.resync_seconds, work.resync, clock=env.clock, jitter=env.random
        ),
        periodic("repair", LOOK_SECONDS, repair.look, clock=env.clock, jitter=env.random),
    ]
    return Service("terminator", loops, env.metrics, lambda: {"open": work.open})


ENTRY = Entry("terminator", TerminatorSettings, build)
