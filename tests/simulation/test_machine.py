"""What a process reads of its machine is simulated: else two runs of one seed would differ."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from random import Random

import pytest

from simulation import determinism
from simulation.loop import SimulatedLoop
from simulation.network.connections import Network
from simulation.owner import CURRENT, Owner
from simulation.runner.children import Died, run_all


def identity(name: str) -> tuple[str, int]:
    """Host and process id as the simulated process ``name`` reads them."""
    determinism.find_places()
    loop = SimulatedLoop(Random(1), Network(Random(2)))
    determinism.install(loop, Random(3))
    CURRENT.set(Owner(name))
    return socket.gethostname(), os.getpid()


@pytest.mark.slow
def test_the_name_of_the_host_and_the_process_id_are_those_of_a_pod() -> None:
    with closing(run_all(identity, ["watcher-0", "launcher-1"], jobs=1, cpu_seconds=20)) as found:
        read: dict[str, tuple[str, int] | Died] = dict(found)
    assert read == {"watcher-0": ("watcher-0", 1), "launcher-1": ("launcher-1", 1)}
