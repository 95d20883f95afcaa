"""The entry point: documents in, one answer out (docs/spec/design.md).

Deterministic except for ``stats.seconds``: the same documents and options give the same answer, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shared.concurrency.clock import Clock
from shared.domain.instance_types.types import Catalogue
from shared.domain.snapshot import moving_pods
from shared.simulation.answer import answer_of, faults_of
from shared.simulation.inputs import read_inputs
from shared.simulation.objects import ObjectFault
from shared.simulation.regions import region_mismatch
from shared.simulation.workloads import MOST_PODS
from shared.solver.solve import SolverSettings, solve


@dataclass(frozen=True)
class Simulation:
    """``answer``: the JSON document. ``usable``: False when the plan uses no object of the inputs."""

    answer: dict[str, Any]
    usable: bool
    ignored: Counter[str]
    """Kind -> number of objects that planning does not use."""


def simulate(
    documents: Iterable[object],
    *,
    catalogue: Callable[[], Catalogue],
    settings: SolverSettings,
    clock: Clock,
    most_pods: int = MOST_PODS,
) -> Simulation:
    """Plans for these objects.

    ``catalogue``: called when the documents have no InstanceType. ``most_pods``: bound of all pods, given and made
    from controllers. Raises what ``catalogue`` raises.
    """
    given = list(documents)
    inputs = read_inputs(given, catalogue, most_pods)
    snapshot = inputs.snapshot
    problem = region_mismatch(snapshot.catalogue.region, given)
    faults = [*inputs.faults, *([ObjectFault("", "", "region", problem)] if problem else [])]
    started = clock.monotonic()
    plan = solve(snapshot, now=0.0, settings=settings, reschedule=moving_pods(snapshot))
    seconds = clock.monotonic() - started
    answer = answer_of(plan, snapshot, settings, seconds)
    return Simulation({**answer, "faults": faults_of(faults)}, inputs.usable > 0, inputs.ignored)
