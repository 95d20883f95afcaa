"""What is imported and read once, before the process of a run is forked.

The catalogue is reduced to a few dozen instance types: enough for every rule of the planner, and small enough that a
restarted service reads it in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from local.aws.moto.resources import import_moto
from simulation.settings import REGION

import_moto(REGION)

from simulation.servers.catalogue import reduce_catalogue  # noqa: E402  # after import_moto

reduce_catalogue()

from services.interruption import service as interruption  # noqa: E402  # after import_moto
from services.launcher import service as launcher  # noqa: E402
from services.scheduler import service as scheduler  # noqa: E402
from services.terminator import service as terminator  # noqa: E402
from services.watcher import service as watcher  # noqa: E402
from shared.runtime.environment import Entry  # noqa: E402
from simulation import determinism  # noqa: E402
from simulation.servers.warming import (  # noqa: E402
    remember_pure_functions,
    skip_certificates,
    skip_signatures,
    warm_up,
)

ENTRIES: Mapping[str, Entry[Any]] = {
    "watcher": watcher.ENTRY,
    "scheduler": scheduler.ENTRY,
    "launcher": launcher.ENTRY,
    "terminator": terminator.ENTRY,
    "interruption": interruption.ENTRY,
}

skip_certificates()
skip_signatures()
remember_pure_functions()
warm_up()
determinism.find_places()
