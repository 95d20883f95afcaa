"""Fills the caches of moto and of the embedded cluster once, before runs are forked."""

from __future__ import annotations

from random import Random

from moto.sqs.models import Queue

from shared.concurrency.clock import SystemClock
from simulation.loop import SimulatedLoop
from simulation.network.connections import Network
from simulation.servers import moto_time
from simulation.servers.aws import AwsServer
from simulation.servers.cluster import ClusterServer
from simulation.settings import RunSettings


def warm_up() -> None:
    """Make both servers and drop them: checked schemas, prices and data files stay in memory."""
    add_message = Queue.add_message
    loop, clock = SimulatedLoop(Random(0), Network(Random(0))), SystemClock()
    settings = RunSettings(seed=0)
    aws = AwsServer(settings, clock, loop, Random(0))
    ClusterServer(settings, clock, loop, Random(0), aws)
    loop.close()
    Queue.add_message = add_message
    moto_time.install(clock)
