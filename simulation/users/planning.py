"""What people do in one run, drawn from the seed before it begins. Pure.

The plan follows its own picture of the cluster: which objects people created and did not delete. What the cluster made
of them (nodes, machines, instances) has no name here; an action on one of them chooses at the time it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from simulation.users import features, pools, workloads
from simulation.users.actions import Action, Json, What
from simulation.users.planner import Planner, UserSettings

FIRST_SECONDS = 8.0
"""Classes, pools and the first workloads exist after this."""
FIRST_WORKLOADS = 5
LAST_SECONDS = 60.0
"""Nobody does anything in the last minute of a run. After it pools get room that had none."""
REST_SECONDS = 120.0
"""In this time go the machines that the last actions emptied."""
LONGEST_PAUSE_SECONDS = 20.0
"""Between the two steps of one undertaking."""
LARGE_CPUS = ("6", "7500m", "12")
LATE_CPU, LATE_PODS = "7500m", 16
"""Pods on a node each, which a machine of 16 CPUs plainly has room for."""
LEAST_ROOM = 5
"""Fewer pods than this are no workload."""


def plan_users(random: Random, minutes: float, settings: UserSettings) -> list[Action]:
    """The actions of a run in order of their time. The same seed and settings give the same actions."""
    planner = Planner(random, settings)
    _begin(planner)
    end = minutes * 60.0 - LAST_SECONDS - LONGEST_PAUSE_SECONDS
    names = [*ACTIONS]
    weights = [settings.weights.get(name, ACTIONS[name][0]) for name in names]
    planner.at = FIRST_SECONDS
    while True:
        planner.at += random.expovariate(settings.actions_per_minute / 60.0)
        if planner.at >= end:
            planner.at = max(FIRST_SECONDS, end + LONGEST_PAUSE_SECONDS)
            _end(planner)
            return sorted(planner.actions, key=lambda action: action.at_seconds)
        (name,) = random.choices(names, weights)
        ACTIONS[name][1](planner)


def _begin(planner: Planner) -> None:
    """A class and a pool of each generation, and the first workloads."""
    for api in planner.settings.generations:
        planner.at += 0.5
        name = f"main-{api}"
        document = pools.node_class_of(api, name, planner.settings.cluster)
        planner.add(What.APPLY, pools.CLASSES[api], name, document)
        planner.at += 0.5
        _apply_pool(planner, name, api)
    for _ in range(FIRST_WORKLOADS):
        planner.at += 0.5
        _deploy(planner)


def _end(planner: Planner) -> None:
    """Machines expire no more: a cluster that replaces them for ever never comes to rest. Pools with tight limits get
    room when everything rests, and nothing happens any more that would make anybody look at the pods that wait for it.
    """
    if planner.tight:
        _wait_for_room(planner)
    features.give_up_room(planner)
    for name, api in sorted(planner.pools.items()):
        spec = pools.without_expiry(api)
        planner.add(What.PATCH, pools.POOLS[api], name, {"spec": spec}, until_done=True)
    planner.at += REST_SECONDS
    for name in sorted(planner.tight & planner.pools.keys()):
        api = planner.pools[name]
        spec = pools.wide_limits(api)
        planner.add(What.PATCH, pools.POOLS[api], name, {"spec": spec}, until_done=True)


def _wait_for_room(planner: Planner) -> None:
    """No pool has room, and pods come that need some: more than there are nodes with that much left over."""
    end = planner.at
    planner.at = max(FIRST_SECONDS, end - LONGEST_PAUSE_SECONDS / 2)
    for name, api in sorted(planner.pools.items()):
        planner.add(What.PATCH, pools.POOLS[api], name, {"spec": pools.no_room(api)})
    planner.tight |= planner.pools.keys()
    planner.at += 1.0
    name = planner.name("late")
    template = _large(planner, name, LATE_CPU)
    template["spec"] |= workloads.apart(name)
    planner.add(What.APPLY, "deployments", name, workloads.deployment(name, LATE_PODS, template))
    planner.at = end


def _apply_pool(planner: Planner, name: str, api: str) -> None:
    document = pools.pool_of(planner.random, api, name, f"main-{api}", planner.settings.zones)
    planner.add(What.APPLY, pools.POOLS[api], name, document)
    planner.pools[name] = api


def _deploy(planner: Planner) -> None:
    if len(planner.workloads) >= planner.settings.most_workloads or planner.room < LEAST_ROOM:
        _scale(planner)
        return
    random, name = planner.random, planner.name("web")
    template = _template(planner, name)
    if random.random() < 0.2:
        kind, body = (
            "statefulsets",
            workloads.stateful_set(name, min(planner.replicas(), 6), template),
        )
    else:
        kind, body = "deployments", workloads.deployment(name, planner.replicas(), template)
    planner.add(What.APPLY, kind, name, body)
    planner.workloads[name], planner.kinds[name] = body["spec"]["replicas"], kind


def _template(planner: Planner, name: str) -> Json:
    random = planner.random
    rules = workloads.rules(random, name, planner.settings.zones)
    return workloads.pod_template(random, name, rules, workloads.pod_annotations(random))


def _deploy_broken(planner: Planner) -> None:
    """Pods that can run nowhere; they stay few."""
    name = planner.name("broken")
    rules = workloads.broken_rules(planner.random, name)
    template = workloads.pod_template(planner.random, name, rules, {})
    planner.add(What.APPLY, "deployments", name, workloads.deployment(name, 2, template))


def _run_job(planner: Planner) -> None:
    if planner.room < LEAST_ROOM:
        return
    random, name = planner.random, planner.name("job")
    seconds = random.choice((5, 20, 60))
    body = workloads.job(name, random.randint(1, 5), seconds, _template(planner, name))
    planner.add(What.APPLY, "jobs", name, body)


def _workload(planner: Planner) -> str:
    return planner.random.choice(sorted(planner.workloads)) if planner.workloads else ""


def _scale(planner: Planner) -> None:
    name = _workload(planner)
    if not name:
        return
    planner.workloads[name] = 0
    random = planner.random
    replicas = 0 if random.random() < 0.2 else planner.replicas()
    planner.workloads[name] = replicas
    planner.add(What.SCALE, planner.kinds[name], name, {"spec": {"replicas": replicas}})


def _roll_out(planner: Planner) -> None:
    name = _workload(planner)
    if name:
        number = str(planner.random.randint(1, 99))
        metadata = {"annotations": {"example.com/restarted": number}}
        body = {"spec": {"template": {"metadata": metadata}}}
        planner.add(What.PATCH, planner.kinds[name], name, body)


def _delete_workload(planner: Planner) -> None:
    name = _workload(planner)
    if name:
        planner.add(What.DELETE, planner.kinds.pop(name), name)
        del planner.workloads[name]


def _delete_pods(planner: Planner) -> None:
    name = _workload(planner)
    if name:
        planner.add(What.DELETE_PODS, "pods", name)


def _protect(planner: Planner) -> None:
    name = _workload(planner)
    if name and name not in planner.budgets:
        body = workloads.pod_budget(planner.random, name)
        planner.add(What.APPLY, "poddisruptionbudgets", name, body)
        planner.budgets.append(name)


def _unprotect(planner: Planner) -> None:
    if planner.budgets:
        name = planner.budgets.pop(planner.random.randrange(len(planner.budgets)))
        planner.add(What.DELETE, "poddisruptionbudgets", name)


def _add_pool(planner: Planner) -> None:
    api = planner.random.choice(planner.settings.generations)
    if len(planner.pools) < 2 * len(planner.settings.generations) + 1:
        _apply_pool(planner, planner.name("pool"), api)


def _edit_pool(planner: Planner) -> None:
    name = planner.random.choice(sorted(planner.pools))
    api = planner.pools[name]
    patch = {"spec": pools.pool_edit(planner.random, api)}
    planner.add(What.PATCH, pools.POOLS[api], name, patch)


def _burst(planner: Planner, seconds: tuple[float, float] = (5.0, LONGEST_PAUSE_SECONDS)) -> None:
    """Pods so large that machines are bought for them, which are deleted after a while."""
    random, name = planner.random, planner.name("burst")
    template = _large(planner, name)
    begin = planner.at
    planner.add(
        What.APPLY, "deployments", name, workloads.deployment(name, random.randint(1, 4), template)
    )
    planner.at += random.uniform(*seconds)
    planner.add(What.DELETE, "deployments", name)
    planner.at = begin


def _large(planner: Planner, name: str, cpu: str = "") -> Json:
    """The template of pods that fill most of a machine."""
    template = workloads.pod_template(planner.random, name, {}, {})
    (container,) = template["spec"]["containers"]
    cpu = cpu or planner.random.choice(LARGE_CPUS)
    container["resources"]["requests"] = {"cpu": cpu, "memory": "4Gi"}
    return template


def _tighten_limits(planner: Planner) -> None:
    """Room in a pool, pods that use it, and soon after less room, while their machines are bought."""
    name = planner.random.choice(sorted(planner.pools))
    api = planner.pools[name]
    planner.add(What.PATCH, pools.POOLS[api], name, {"spec": pools.wide_limits(api)})
    planner.at += planner.random.uniform(0.2, 1.0)
    _burst(planner)
    planner.at += planner.random.uniform(1.0, 4.0)
    patch = {"spec": pools.tight_limits(planner.random, api)}
    planner.add(What.PATCH, pools.POOLS[api], name, patch)
    planner.tight.add(name)


def _change_mind(planner: Planner) -> None:
    """Pods that are deleted before or while machines are bought for them."""
    _burst(planner, (0.3, 3.0))


def _delete_pool(planner: Planner) -> None:
    """Pools that were added; the main ones stay, so that pods keep a place to run."""
    added = sorted(name for name in planner.pools if name.startswith("pool-"))
    if added:
        name = planner.random.choice(added)
        planner.add(What.DELETE, pools.POOLS[planner.pools.pop(name)], name)


def _replace_pool(planner: Planner) -> None:
    """Delete a main pool and apply another one of the same name at once, as a GitOps tool does."""
    api = planner.random.choice(planner.settings.generations)
    name = f"main-{api}"
    planner.add(What.DELETE, pools.POOLS[api], name)
    planner.at += planner.random.choice((0.1, 2.0, 10.0))
    _apply_pool(planner, name, api)


def _edit_class(planner: Planner) -> None:
    api = planner.random.choice(planner.settings.generations)
    patch = {"spec": pools.class_edit(planner.random, api)}
    planner.add(What.PATCH, pools.CLASSES[api], f"main-{api}", patch)


def _replace_class(planner: Planner) -> None:
    """Delete a class that machines use, and apply it again."""
    api = planner.random.choice(planner.settings.generations)
    name = f"main-{api}"
    planner.add(What.DELETE, pools.CLASSES[api], name)
    planner.at += planner.random.choice((1.0, 5.0, LONGEST_PAUSE_SECONDS))
    document = pools.node_class_of(api, name, planner.settings.cluster)
    planner.add(What.APPLY, pools.CLASSES[api], name, document)


def _break_pool(planner: Planner) -> None:
    random, api = planner.random, planner.random.choice(planner.settings.generations)
    name = planner.name("broken-pool")
    zones = planner.settings.zones
    document = pools.broken_pool(random, api, name, f"main-{api}", zones)
    planner.add(What.APPLY, pools.POOLS[api], name, document)


def _by_hand(what: What) -> Callable[[Planner], None]:
    return lambda planner: planner.add(what)


ACTIONS: Mapping[str, tuple[float, Callable[[Planner], None]]] = {
    "deploy": (12.0, _deploy),
    "scale": (22.0, _scale),
    "roll out": (8.0, _roll_out),
    "delete workload": (4.0, _delete_workload),
    "delete pods": (3.0, _delete_pods),
    "run job": (6.0, _run_job),
    "deploy broken": (2.0, _deploy_broken),
    "protect": (6.0, _protect),
    "unprotect": (4.0, _unprotect),
    "add pool": (3.0, _add_pool),
    "edit pool": (8.0, _edit_pool),
    "tighten limits": (0.0, _tighten_limits),
    "burst": (0.0, _burst),
    "change mind": (0.0, _change_mind),
    "delete pool": (2.0, _delete_pool),
    "replace pool": (1.0, _replace_pool),
    "break pool": (2.0, _break_pool),
    "edit class": (4.0, _edit_class),
    "replace class": (1.0, _replace_class),
    "delete node": (4.0, _by_hand(What.DELETE_NODE)),
    "delete machine": (4.0, _by_hand(What.DELETE_MACHINE)),
    "drain node": (3.0, _by_hand(What.DRAIN_NODE)),
    "cordon node": (1.0, _by_hand(What.CORDON_NODE)),
    "uncordon nodes": (1.0, _by_hand(What.UNCORDON_NODES)),
    "terminate instance": (4.0, _by_hand(What.TERMINATE_INSTANCE)),
    "stop instance": (1.0, _by_hand(What.STOP_INSTANCE)),
    **features.FEATURES,
}
"""Name -> (weight, what it adds to the plan)."""
