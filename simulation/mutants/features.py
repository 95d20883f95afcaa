"""Faults in what only some clusters use: static pools, closed and halted pools, reservations and volumes."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

FEATURES = (
    Mutant(
        "static-pool-counts-ready-machines",
        "services/scheduler/static_capacity/adjustments.py",
        "        alive = [m for m in mine if not m.terminating and m.uid not in busy_uids]",
        "        alive = [m for m in mine if m.has(INITIALIZED) and m.uid not in busy_uids]",
        "a static pool buys again while its machines start",
        "features",
    ),
    Mutant(
        "static-pool-never-shrinks",
        "services/scheduler/static_capacity/adjustments.py",
        "        elif len(alive) > pool.replicas:",
        "        elif len(alive) > pool.replicas + 100:",
        "a static pool keeps its machines when somebody lowers its replicas",
        "features",
    ),
    Mutant(
        "reserved-label-kept",
        "services/launcher/catalogue/reservations.py",
        "            if not instance.capacity_reservation_id:",
        "            if not instance.id:",
        "machines stay labelled as reserved after their reservation",
        "features",
    ),
    Mutant(
        "zones-of-volumes-forgotten",
        "shared/solver/volumes/reach.py",
        "            found = _intersected(key, found, self._alternatives(claim))",
        "            found = _intersected(key, found, _ANYWHERE)",
        "machines are bought in zones that a pod's volumes are not in",
        "features",
    ),
    Mutant(
        "halted-pool-disrupted",
        "shared/disruption/budgets.py",
        "    if pool.disruption_off:",
        "    if pool.disruption_off and spent < 0:",
        "the scheduler disrupts machines of halted pools",
        "annotations",
    ),
    Mutant(
        "rate-without-those-in-flight",
        "shared/disruption/budgets.py",
        "_ceiling(pool, spent.get(pool.key, 0) + ahead[pool.key])",
        "_ceiling(pool, spent.get(pool.key, 0))",
        "the rate of an hour does not count what running commands will take",
        "annotations",
        missing="A second command in a pool with a rate of one or two, while the machines of the first have not gone.",
    ),
    Mutant(
        "hours-ignored",
        "shared/domain/pools/hours.py",
        "    texts = {pool.key: _closed(pool, now) for pool in snapshot.pools}",
        '    texts = {pool.key: "" for pool in snapshot.pools}',
        "a closed pool buys machines",
        "annotations",
    ),
)
