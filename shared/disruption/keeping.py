"""Which machines must stay so that their pools keep their minimum and headroom. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

import msgspec

from shared.domain.instance_types.types import InstanceType
from shared.domain.pools.kept_capacity import (
    Holding,
    Lacking,
    holding_of,
    holdings,
    keeps_capacity,
    lacking,
    required_headroom,
    required_minimum,
    smallest,
)
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import NODES
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import PlannedMachine

if TYPE_CHECKING:
    from shared.disruption.records import Candidate


class Keeping(msgspec.Struct, frozen=True):
    """What the pools that keep capacity have. Empty without such pools."""

    pools: dict[str, NodePool] = {}
    holdings: dict[str, Holding] = {}
    types: dict[str, InstanceType] = {}
    daemons: dict[str, list[Pod]] = {}
    """Node name -> its daemon and mirror pods, on nodes of these pools."""
    now: float = 0.0
    """Seconds since the epoch."""

    def required(self) -> tuple[tuple[str, str], ...]:
        """(pool key, what it keeps now as text), sorted: equal while nothing changes about it."""
        return tuple(
            (key, f"{required_minimum(pool, now=self.now)} "
             f"{required_headroom(pool, self.holdings[key], now=self.now)} {pool.closed}")
            for key, pool in sorted(self.pools.items())
        )  # fmt: skip

    def refusal(
        self, candidates: Sequence[Candidate], replacements: Iterable[PlannedMachine] = ()
    ) -> str:
        """Why these machines may not go for these replacements; empty: they may."""
        for key, short in self.short(candidates, replacements).items():
            pool = self.pools[key]
            return f'{pool.kind} "{pool.name}" keeps its minimum and headroom: it would be short of {short}'
        return ""

    def short(
        self, candidates: Sequence[Candidate], replacements: Iterable[PlannedMachine] = ()
    ) -> dict[str, Lacking]:
        """Pool key -> what the pool would be short of without these machines."""
        bought: dict[str, list[PlannedMachine]] = defaultdict(list)
        for planned in replacements:
            bought[planned.pool_key].append(planned)
        found = {}
        for key, going in _by_pool(candidates, self.pools).items():
            left = self.holdings[key]
            for index, candidate in enumerate(going):
                # The daemons of a machine that is replaced run on its replacement.
                left = left.minus(self._share(candidate, moves=index < len(bought[key])))
            for planned in bought[key]:
                capacity, allocatable = smallest(planned.instance_types, self.types)
                left = left.plus(Holding({**capacity, NODES: 1}, allocatable))
            short = lacking(self.pools[key], left, now=self.now)
            if short:
                found[key] = short
        return found

    def spare(
        self, candidates: Iterable[Candidate]
    ) -> tuple[tuple[Candidate, ...], dict[str, str]]:
        """(the first candidates that may all go without replacements, machine key -> why another may not)."""
        going: list[Candidate] = []
        mine: dict[str, list[Candidate]] = defaultdict(list)
        refused = {}
        for candidate in candidates:
            key = candidate.machine.pool_key
            if key in self.pools:
                text = self.refusal([*mine[key], candidate])
                if text:
                    refused[candidate.machine.key] = text
                    continue
                mine[key].append(candidate)
            going.append(candidate)
        return tuple(going), refused

    def _share(self, candidate: Candidate, *, moves: bool) -> Holding:
        """What the pool loses with this machine: its pods stay in the pool, wherever they go."""
        daemons = [] if moves else self.daemons.get(candidate.node.name, [])
        return holding_of(candidate.machine, daemons, self.types)


def keeping(snapshot: Snapshot, busy: Set[str], *, now: float) -> Keeping:
    """``busy``: UIDs of machines that running commands take away; ``now`` in seconds since the epoch."""
    pools = {pool.key: pool for pool in snapshot.pools if keeps_capacity(pool)}
    if not pools:
        return Keeping()
    names = {m.node_name for m in snapshot.machines if m.node_name and m.pool_key in pools}
    daemons: dict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods:
        if pod.node_name in names and (pod.is_daemon or pod.is_mirror):
            daemons[pod.node_name].append(pod)
    types = {kind.name: kind for kind in snapshot.catalogue.types}
    return Keeping(pools, holdings(snapshot, pools.keys(), busy), types, dict(daemons), now)


def _by_pool(
    candidates: Iterable[Candidate], pools: Mapping[str, NodePool]
) -> dict[str, list[Candidate]]:
    found: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        if candidate.machine.pool_key in pools:
            found[candidate.machine.pool_key].append(candidate)
    return found
