"""Advice for users: the smallest change that would let a machine be disrupted, by the reason why it is not.

No decision depends on it. A reason that is not in the table gets no advice.
"""

from __future__ import annotations

from shared.disruption import candidates, delays, pod_blocks, replacement_price
from shared.disruption.methods import consolidation
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1, V1ALPHA5

SWITCHED_OFF = "voluntary disruption is switched off for all pools (setting DISRUPTION=off)"
POOL_SWITCHED_OFF = (
    f"voluntary disruption is switched off for this pool ({keys.DISRUPTION_ANNOTATION}: off)"
)
KEEPS_ROOM = "it keeps room for"
NO_BUDGET = "No allowed disruptions for disruption reason"

_ADVICE = (
    (SWITCHED_OFF, "set DISRUPTION=on, or take the key disruption out of the settings' ConfigMap"),
    (POOL_SWITCHED_OFF, "dovetail resume --pool {pool_kind}/{pool}"),
    (NO_BUDGET, "{budgets}"),
    (candidates.NO_NODE, "wait until the node joins; see kubectl describe {kind} {machine}"),
    (
        candidates.NOT_INITIALIZED,
        "wait until the node is Ready, has its resources, and its startup taints are removed",
    ),
    (
        candidates.LEAVING,
        "nothing: the node is being deleted; kubectl describe node {node} shows what its drain waits for",
    ),
    (
        candidates.NOMINATED,
        "wait some seconds until the pods that are nominated to the node are bound",
    ),
    (candidates.ANNOTATED, f"kubectl annotate node {{node}} {keys.DO_NOT_DISRUPT}-"),
    (candidates.BUSY, "nothing: the machine is being disrupted"),
    (candidates.NO_POOL, "create {pool_kind} {pool} again, or kubectl delete node {node}"),
    (pod_blocks.ANNOTATED, "{unpin}, or wait until the pod ends"),
    (
        pod_blocks.PDB_BLOCKS,
        "kubectl get pdb -n {namespace}: let the budget of pod {pod} allow one more, or add a replica",
    ),
    (
        pod_blocks.TWO_PDBS,
        "kubectl get pdb -n {namespace}: leave one budget that selects pod {pod}",
    ),
    (
        delays.WAITS,
        "wait until the delay is over, or shorten SCALE_DOWN_DELAY_AFTER_ADD, _DELETE or _FAILURE, or the pool's "
        f"annotation {keys.DELAY_AFTER_ADD_ANNOTATION}, -delete or -failure",
    ),
    (
        KEEPS_ROOM,
        "kubectl get capacitybuffers,provisioningrequests -A: lower or delete what keeps room there",
    ),
    ("has consolidation disabled", "{enable}"),
    ("has consolidation policy WhenEmpty", "{underutilized}"),
    (
        consolidation.DO_NOT_CONSOLIDATE,
        f"kubectl annotate node {{node}} {keys.DO_NOT_CONSOLIDATE}-",
    ),
    (consolidation.IS_STATIC, "lower spec.replicas of {pool_kind} {pool}, or delete the pool"),
    ("Node does not have label", "put the label back on node {node}"),
    ("not all pods would schedule", "make room for that pod: the reason names what it lacks"),
    ("would schedule against uninitialized node", "wait until that node is initialised"),
    (
        "Can't remove without creating",
        "scale its pods down, or allow the pool larger types: they need more than one machine",
    ),
    (
        replacement_price.NOT_CHEAPER,
        "allow {pool_kind} {pool} cheaper offerings (types, zones, spot), or scale its pods down",
    ),
    (
        replacement_price.SPOT_DISABLED,
        "set FEATURE_GATES=SpotToSpotConsolidation=true on the scheduler",
    ),
    (
        replacement_price.SPOT_BY_SPOT,
        "use a NodePool with the gate SpotToSpotConsolidation; Provisioners do not support this",
    ),
    ("SpotToSpotConsolidation requires", "allow {pool_kind} {pool} more instance types"),
    (
        "saves too little",
        "set consolidationPolicy: WhenEmptyOrUnderutilized, which accepts smaller savings",
    ),
)

_ENABLE_OLD = "set spec.consolidation.enabled: true and remove spec.ttlSecondsAfterEmpty"
_WORDS = {
    V1ALPHA5: {
        "enable": _ENABLE_OLD,
        "underutilized": _ENABLE_OLD,
        "budgets": "wait, or raise the annotation dovetail.sh/disruptions-per-hour",
        "pins": f"{keys.DO_NOT_DISRUPT}- {keys.DO_NOT_EVICT}-",
    },
    V1: {
        "enable": "set spec.disruption.consolidateAfter to a duration such as 0s",
        "underutilized": "set spec.disruption.consolidationPolicy: WhenEmptyOrUnderutilized",
        "budgets": "wait, or raise spec.disruption.budgets (or dovetail.sh/disruptions-per-hour)",
        "pins": f"{keys.DO_NOT_DISRUPT}-",
    },
}
"""What advice names, by generation."""


def cause_of(text: str) -> str:
    """What reasons of this kind have in common, without names and numbers; the whole text of one that is not known."""
    return next((known for known, _ in _ADVICE if known in text), text)


def change_for(text: str, machine: Machine, pod: str = "") -> str:
    """The advice for this reason; empty when there is none. ``pod``: namespace/name of the pod that blocks."""
    advice = next((advice for known, advice in _ADVICE if known in text), "")
    namespace, _, name = pod.partition("/")
    words = _WORDS[machine.generation_api]
    return advice.format(
        **words,
        namespace=namespace,
        pod=name,
        unpin=f"kubectl annotate pod -n {namespace} {name} {words['pins']}",
        kind=machine.api.machine_noun,
        machine=machine.name,
        node=machine.node_name,
        pool=machine.pool,
        pool_kind=machine.api.pool_kind,
    )
