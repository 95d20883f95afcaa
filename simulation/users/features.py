"""What people do with kinds and fields of some clusters only: static pools, gangs, overlays, room for pods to come,
reservations, volumes, and annotations of pools. Pure.

Room for pods to come is given up before the end of a run, so that machines without pods are machines that go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shared.domain import labels
from shared.domain.pools.generations import V1
from shared.kube.resources import CAPACITY_BUFFERS, EC2_NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS
from simulation.users import pools, workloads
from simulation.users.actions import Json, What
from simulation.users.planner import Planner

STATIC, RESERVED, ANNOTATED = "static", "reserved", "annotated"
MOST_STATIC_POOLS, MOST_STATIC_NODES = 2, 4
MOST_OF_A_KIND, MOST_WITH_DATA = 3, 4
RESERVATION_TAGS = {"example.com/reserved-for": "simulated"}
CLASS = f"main-{V1}"
FOUR_OF_TEN_MINUTES = tuple(
    f'{{schedule: "{begin}-59/10 * * * *", duration: 4m}}' for begin in (0, 5)
)
"""A pool is closed for longer than a decision may be old."""
ANNOTATIONS: Mapping[str, tuple[str, ...]] = {
    labels.MINIMUM_ANNOTATION: ("{nodes: 2}", "{cpu: 8}", "{nodes: 1, memory: 16Gi}"),
    labels.HEADROOM_ANNOTATION: ("20%", "{cpu: 2}"),
    labels.HOURS_ANNOTATION: FOUR_OF_TEN_MINUTES,
    labels.OUTSIDE_HOURS_ANNOTATION: ("drain", "keep"),
    labels.DISRUPTION_ANNOTATION: ("off",),
    labels.DISRUPTIONS_PER_HOUR_ANNOTATION: ("1", "2", "20"),
    labels.APPROVAL_ANNOTATION: ("Drifted,Underutilized", "required"),
    labels.UTILIZATION_ANNOTATION: ("50%",),
    labels.DELAY_AFTER_ADD_ANNOTATION: ("30s",),
    labels.DELAY_AFTER_DELETE_ANNOTATION: ("20s",),
    labels.DELAY_AFTER_FAILURE_ANNOTATION: ("1m",),
    labels.PACKING_ANNOTATION: ("LowestCost", "Balanced"),
    labels.NODE_PRICE_ANNOTATION: ("0.02",),
    labels.CONSOLIDATION_ANNOTATION: ("Global", "Karpenter"),
    labels.REBALANCE_ANNOTATION: ("drain", "off"),
}
"""Annotation of a pool -> values."""


def give_up_room(planner: Planner) -> None:
    """Delete every buffer, and take annotations away, some of which keep machines or hold what is to end; static pools
    replace their machines for age no more."""
    for name in sorted({*planner.features.pop(ANNOTATED, [])} & planner.pools.keys()):
        patch = {"metadata": {"annotations": dict.fromkeys(ANNOTATIONS)}}
        planner.add(What.PATCH, pools.POOLS[planner.pools[name]], name, patch, until_done=True)
    for name in planner.features.pop(CAPACITY_BUFFERS.plural, []):
        planner.add(What.DELETE, CAPACITY_BUFFERS.plural, name, until_done=True)
    for name in planner.features.get(STATIC, []):
        spec = pools.without_expiry(V1)
        planner.add(What.PATCH, NODE_POOLS.plural, name, {"spec": spec}, until_done=True)


def _add_static_pool(planner: Planner) -> None:
    known = planner.features.setdefault(STATIC, [])
    if len(known) >= MOST_STATIC_POOLS:
        _resize_static_pool(planner)
        return
    random, name = planner.random, planner.name(STATIC)
    body = pools.pool_of(random, V1, name, CLASS, planner.settings.zones)
    for field in ("limits", "weight"):
        body["spec"].pop(field, None)
    body["spec"]["replicas"] = random.randint(0, MOST_STATIC_NODES)
    planner.add(What.APPLY, NODE_POOLS.plural, name, body)
    known.append(name)


def _resize_static_pool(planner: Planner) -> None:
    """One in four gets a limit of nodes, which may be less than its replicas."""
    if known := planner.features.get(STATIC):
        random = planner.random
        spec: Json = {"replicas": random.randint(0, MOST_STATIC_NODES)}
        if random.random() < 0.25:
            spec["limits"] = {"nodes": str(random.randint(1, MOST_STATIC_NODES))}
        planner.add(What.PATCH, NODE_POOLS.plural, random.choice(known), {"spec": spec})


def _delete_static_pool(planner: Planner) -> None:
    if known := planner.features.get(STATIC):
        name = known.pop(planner.random.randrange(len(known)))
        planner.add(What.DELETE, NODE_POOLS.plural, name)


def _run_gang(planner: Planner) -> None:
    """Pods that are useless unless all of them run; they are deleted after a while, some before they run."""
    random, name = planner.random, planner.name("gang")
    size = random.randint(2, 5)
    gang = {labels.GANG: name, labels.GANG_SIZE: str(size)}
    template = workloads.pod_template(random, name, {}, gang)
    begin = planner.at
    planner.add(What.APPLY, "deployments", name, workloads.deployment(name, size, template))
    planner.at += random.choice((1.0, 15.0, 60.0))
    planner.add(What.DELETE, "deployments", name)
    planner.at = begin


def _apply_overlay(planner: Planner) -> None:
    """Prices of some instance types are others than AWS says."""
    random, name = planner.random, planner.name("overlay")
    category = f"{labels.AWS_PREFIX}instance-category"
    body = {
        "apiVersion": NODE_OVERLAYS.api_version,
        "kind": NODE_OVERLAYS.kind,
        "metadata": {"name": name},
        "spec": {
            "weight": random.randint(1, 100),
            "requirements": [
                {"key": category, "operator": "In", "values": [random.choice(("c", "m", "r"))]}
            ],
            "priceAdjustment": random.choice(("+50%", "-30%", "+0.05")),
        },
    }
    _keep_few(planner, NODE_OVERLAYS.plural)
    planner.add(What.APPLY, NODE_OVERLAYS.plural, name, body)
    planner.features[NODE_OVERLAYS.plural].append(name)


def _keep_room(planner: Planner) -> None:
    """A buffer for pods of one workload, or of one that is gone."""
    random, name = planner.random, planner.name("buffer")
    deployments = sorted(one for one, kind in planner.kinds.items() if kind == "deployments")
    if not deployments:
        return
    body = {
        "apiVersion": CAPACITY_BUFFERS.api_version,
        "kind": CAPACITY_BUFFERS.kind,
        "metadata": {"name": name, "namespace": workloads.NAMESPACE},
        "spec": {
            "scalableRef": {
                "apiGroup": "apps",
                "kind": "Deployment",
                "name": random.choice(deployments),
            },
            "replicas": random.randint(1, 4),
        },
    }
    _keep_few(planner, CAPACITY_BUFFERS.plural)
    planner.add(What.APPLY, CAPACITY_BUFFERS.plural, name, body)
    planner.features[CAPACITY_BUFFERS.plural].append(name)


def _resize_room(planner: Planner) -> None:
    if known := planner.features.get(CAPACITY_BUFFERS.plural):
        spec = {"replicas": planner.random.randint(0, 6)}
        name = planner.random.choice(known)
        planner.add(What.PATCH, CAPACITY_BUFFERS.plural, name, {"spec": spec})


def _keep_few(planner: Planner, kind: str) -> None:
    """Delete the oldest of a kind when there are many."""
    known = planner.features.setdefault(kind, [])
    if len(known) >= MOST_OF_A_KIND:
        planner.add(What.DELETE, kind, known.pop(0), until_done=True)


def _reserve(planner: Planner) -> None:
    """A reservation, some of which end within the run, and a pool and class that may use it."""
    random = planner.random
    terms = {"spec": {"capacityReservationSelectorTerms": [{"tags": RESERVATION_TAGS}]}}
    planner.add(What.PATCH, EC2_NODE_CLASSES.plural, CLASS, terms)
    if RESERVED not in planner.pools:
        _apply_reserved_pool(planner)
    body = {
        "count": random.randint(1, 3),
        "seconds": random.choice((None, 60.0, 180.0)),
        "tags": RESERVATION_TAGS,
    }
    planner.add(What.RESERVE, body=body)


def _apply_reserved_pool(planner: Planner) -> None:
    body = pools.pool_of(planner.random, V1, RESERVED, CLASS, planner.settings.zones)
    for wanted in body["spec"]["template"]["spec"]["requirements"]:
        if wanted["key"] == labels.CAPACITY_TYPE:
            wanted["values"] = [labels.RESERVED, *wanted["values"]]
    planner.add(What.APPLY, NODE_POOLS.plural, RESERVED, body)
    planner.pools[RESERVED] = V1


def _keep_data(planner: Planner) -> None:
    """Pods with volumes, which come back in the zone of their volumes or not at all."""
    if len(planner.workloads) >= planner.settings.most_workloads or planner.room < MOST_WITH_DATA:
        return
    if not planner.features.setdefault("storageclasses", []):
        body = workloads.storage_class()
        planner.add(What.APPLY, "storageclasses", workloads.STORAGE_CLASS, body, until_done=True)
        planner.features["storageclasses"].append(workloads.STORAGE_CLASS)
    random, name = planner.random, planner.name("db")
    replicas = random.randint(1, MOST_WITH_DATA)
    template = workloads.pod_template(random, name, {}, {})
    body = workloads.with_volumes(workloads.stateful_set(name, replicas, template))
    planner.add(What.APPLY, "statefulsets", name, body)
    planner.workloads[name], planner.kinds[name] = replicas, "statefulsets"


def _add_daemons(planner: Planner) -> None:
    """Running nodes get one more pod, and new ones keep room for it."""
    known = planner.features.setdefault("daemonsets", [])
    if len(known) < MOST_OF_A_KIND:
        name = planner.name("agent")
        body = workloads.daemon_set(name, planner.random.choice(("20m", "100m")))
        planner.add(What.APPLY, "daemonsets", name, body)
        known.append(name)


def _annotate_pool(planner: Planner) -> None:
    """One annotation of a pool, which is taken away again in one case of four."""
    random = planner.random
    name, key = random.choice(sorted(planner.pools)), random.choice(sorted(ANNOTATIONS))
    value = None if random.random() < 0.25 else random.choice(ANNOTATIONS[key])
    patch = {"metadata": {"annotations": {key: value}}}
    planner.add(What.PATCH, pools.POOLS[planner.pools[name]], name, patch)
    planner.features.setdefault(ANNOTATED, []).append(name)


FEATURES: Mapping[str, tuple[float, Callable[[Planner], None]]] = {
    "add static pool": (0.0, _add_static_pool),
    "resize static pool": (0.0, _resize_static_pool),
    "delete static pool": (0.0, _delete_static_pool),
    "run gang": (0.0, _run_gang),
    "apply overlay": (0.0, _apply_overlay),
    "keep room": (0.0, _keep_room),
    "resize room": (0.0, _resize_room),
    "reserve": (0.0, _reserve),
    "keep data": (0.0, _keep_data),
    "add daemons": (0.0, _add_daemons),
    "annotate pool": (0.0, _annotate_pool),
}
"""As ``planning.ACTIONS``: done in the scenarios that say how often."""
