"""Cost of plans by FewestNodes, Balanced and LowestCost, compared with a proved lower bound, on many workloads.

Run ``python -m bench.cost``. Cost is the hourly price of the planned machines, each at its cheapest offering. No plan
for the same pods can cost less than the bound; ``-`` where none was computed. The last tables count the seeded mixes in
which LowestCost costs more than FewestNodes (there must be none), and say how far above its stated bound it is on
seeded workloads of 300 pods and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

from msgspec.structs import replace

from bench.inputs import workloads
from bench.inputs.priced import realistic
from bench.report import Row, options, progress, save, show, timed
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.domain.instance_types.types import Catalogue, InstanceType
from shared.domain.snapshot import Snapshot
from shared.solver.plan import CONFIGURATION, Plan
from shared.solver.solve import SolverSettings, solve

FEWEST = SolverSettings()
EFFORTS = (200, 1000)
MIXES = 200
REALISTIC = 60
MICRO = 1_000_000


BALANCED = SolverSettings(packing_policy="Balanced")


def lowest(effort: int) -> SolverSettings:
    """LowestCost with this effort."""
    return SolverSettings(packing_policy="LowestCost", effort=effort)


def cases(aws: Catalogue, *, quick: bool) -> list[tuple[str, Snapshot]]:
    """(name of the workload, snapshot)."""
    general = workloads.pool(requirements=workloads.general_requirements())
    found = [
        (name, workloads.snapshot(pods, aws.types, pools=(general,)))
        for name, pods in workloads.bursts().items()
    ]
    found.append(("400 x 0.25 vCPU, agents", workloads.burst_beside_agents(aws.types)))
    wide = workloads.pool(requirements=workloads.many_types_wanted())
    small = workloads.replicas(300, "small", 500, 1024)
    found.append(
        ("300 x 0.5 vCPU, minValues 300", workloads.snapshot(small, aws.types, pools=(wide,)))
    )
    fake = workloads.karpenter_types()
    for size in (1000,) if quick else (1000, 10_000):
        mix = workloads.karpenter_mix(size)
        found.append((f"mix {size:,}, 400 types", workloads.snapshot(mix, fake)))
        found.append((f"mix {size:,}, AWS", workloads.snapshot(mix, aws.types, pools=(general,))))
    several = workloads.heterogeneous_pools()
    mixed = workloads.snapshot(workloads.heterogeneous(), aws.types, pools=several)
    found.append(("heterogeneous", mixed))
    realistic = [(1000, 11)] if quick else [(1000, 11), (1000, 12), (1000, 13), (10_000, 11)]
    for size, seed in realistic:
        pods = workloads.zipf(size, seed=seed)
        name = f"Zipf-200 {size:,}, seed {seed}"
        found.append((name, workloads.snapshot(pods, aws.types, pools=(general,))))
    return [(name, replace(snapshot, catalogue=aws)) if snapshot.catalogue.types is aws.types
            else (name, snapshot) for name, snapshot in found]  # fmt: skip


def measure(cases: Sequence[tuple[str, Snapshot]], efforts: Sequence[int] = EFFORTS) -> list[Row]:
    """One row per workload and policy."""
    rows: list[Row] = []
    for name, snapshot in progress(cases, "cost"):
        chosen = [("FewestNodes", FEWEST), ("Balanced", BALANCED)]
        chosen += [(f"LowestCost {effort}", lowest(effort)) for effort in efforts]
        plans = [
            (label, *timed(partial(solve, snapshot, now=0.0, settings=s), 1)) for label, s in chosen
        ]
        bounds = [plan.lower_bound_micro_usd_per_hour or 0 for _, _, plan in plans]
        reference = plans[0][2].cost_micro_usd_per_hour
        for label, seconds, plan in plans:
            rows.append(_row(name, label, seconds.cpu, plan, max(bounds), reference))
    return rows


def _row(workload: str, policy: str, seconds: float, plan: Plan, bound: int, reference: int) -> Row:
    cost = plan.cost_micro_usd_per_hour
    return {
        "workload": workload,
        "policy": policy,
        "$/h": round(cost / MICRO, 3),
        "bound $/h": round(bound / MICRO, 3) if bound else None,
        "x bound": round(cost / bound, 3) if bound else None,
        "x FewestNodes": round(cost / reference, 3) if reference else None,
        "machines": len(plan.machines),
        "without a place": len(plan.unschedulable),
        "cpu s": round(seconds, 2),
    }


def compare_mixes(types: tuple[InstanceType, ...], seeds: Sequence[int], effort: int) -> list[Row]:
    """One row: how often and by how much the costs differ, over the seeded mixes in which equally many pods fit."""
    dearer, cheaper, fewer, ratios = [], 0, [], []
    for seed in progress(seeds, "mixes"):
        snapshot = workloads.random_mix(seed, types)
        old = solve(snapshot, now=0.0, settings=FEWEST)
        new = solve(snapshot, now=0.0, settings=lowest(effort))
        if len(new.unschedulable) > len(old.unschedulable):
            fewer.append(seed)
        if len(new.unschedulable) == len(old.unschedulable):
            if new.cost_micro_usd_per_hour > old.cost_micro_usd_per_hour:
                dearer.append(seed)
            cheaper += new.cost_micro_usd_per_hour < old.cost_micro_usd_per_hour
            if old.cost_micro_usd_per_hour:
                ratios.append(new.cost_micro_usd_per_hour / old.cost_micro_usd_per_hour)
    return [{
        "mixes": len(seeds),
        "cheaper": cheaper,
        "dearer": len(dearer),
        "places fewer pods": len(fewer),
        "mean x FewestNodes": round(sum(ratios) / max(len(ratios), 1), 3),
        "seeds at fault": " ".join(map(str, sorted({*dearer, *fewer})[:10])) or "none",
    }]  # fmt: skip


def compare_with_bound(
    types: tuple[InstanceType, ...], seeds: Sequence[int], efforts: Sequence[int]
) -> list[Row]:
    """One row per effort: cost over the bound that the plan states, and how many state the configuration bound."""
    rows: list[Row] = []
    for effort in efforts:
        ratios, known, seconds = {}, 0, 0.0
        for seed in progress(seeds, f"bound at {effort}"):
            snapshot = realistic(seed, types)
            run = partial(solve, snapshot, now=0.0, settings=lowest(effort))
            spent, plan = timed(run, 1)
            seconds += spent.cpu
            known += plan.lower_bound_kind == CONFIGURATION
            if plan.lower_bound_micro_usd_per_hour:
                ratios[seed] = plan.cost_micro_usd_per_hour / plan.lower_bound_micro_usd_per_hour
        worst = max(ratios, key=lambda seed: ratios[seed])
        rows.append({
            "effort": effort,
            "workloads": len(seeds),
            "x bound, median": round(median(ratios.values()), 4),
            "worst": round(ratios[worst], 4),
            "seed of the worst": worst,
            "configuration bound": known,
            "cpu s": round(seconds, 1),
        })  # fmt: skip
    return rows


def main() -> None:
    """Measures and prints three tables."""
    chosen = options(__doc__)
    aws = bundled_catalogue()
    efforts = EFFORTS[:1] if chosen.quick else EFFORTS
    rows = measure(cases(aws, quick=chosen.quick), efforts)
    show("Cost of plans", rows)
    small = aws.types[::12]
    mixes = compare_mixes(small, range(20 if chosen.quick else MIXES), EFFORTS[0])
    show(f"LowestCost against FewestNodes, {len(small)} AWS types", mixes)
    seeds = range(4 if chosen.quick else REALISTIC)
    bounds = compare_with_bound(aws.types, seeds, efforts)
    show("LowestCost over its stated bound, 300 to 1,000 pods", bounds)
    save(chosen.json, {"cost": rows, "mixes": mixes, "bound": bounds})


if __name__ == "__main__":
    main()
