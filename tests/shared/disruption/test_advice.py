"""The advice for each reason why a machine is not disrupted."""

from __future__ import annotations

import pytest

from shared.disruption import candidates, pod_blocks, replacement_price
from shared.disruption.advice import (
    KEEPS_ROOM,
    NO_BUDGET,
    POOL_SWITCHED_OFF,
    SWITCHED_OFF,
    cause_of,
    change_for,
)
from shared.disruption.methods import consolidation
from shared.domain.pools.generations import V1, V1ALPHA5
from tests.support.planning.builders import make_machine

TEXTS = (
    SWITCHED_OFF,
    POOL_SWITCHED_OFF,
    f"{NO_BUDGET} Empty due to blocking budget",
    f"{KEEPS_ROOM} 2 pod(s) to come",
    candidates.NO_NODE,
    candidates.NOT_INITIALIZED,
    candidates.LEAVING,
    candidates.NOMINATED,
    candidates.ANNOTATED,
    candidates.BUSY,
    candidates.NO_POOL,
    pod_blocks.ANNOTATED,
    pod_blocks.PDB_BLOCKS,
    pod_blocks.TWO_PDBS,
    consolidation.DO_NOT_CONSOLIDATE,
    replacement_price.NOT_CHEAPER,
    replacement_price.SPOT_DISABLED,
    replacement_price.SPOT_BY_SPOT,
    'NodePool "default" has consolidation disabled',
    'NodePool "default" is static',
    'NodePool "default" has consolidation policy WhenEmpty, but node is not empty',
    "Can't remove without creating 2 candidates",
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("generation", [V1, V1ALPHA5])
def test_every_reason_of_ours_has_an_answer(text: str, generation: str) -> None:
    """Each reason has the smallest change that helps (DIS-10, DIS-11, CON-01..CON-08)."""
    machine = make_machine("m1", node_name="n1", generation_api=generation)
    change = change_for(text, machine, "shop/web-1")
    assert change
    assert "{" not in change


@pytest.mark.parametrize(
    ("text", "generation", "told"),
    [
        (pod_blocks.ANNOTATED, V1, "kubectl annotate pod -n shop web-1 karpenter.sh/do-not-disrupt-,"),
        (pod_blocks.ANNOTATED, V1ALPHA5, "karpenter.sh/do-not-evict-"),
        (candidates.ANNOTATED, V1, "kubectl annotate node n1 karpenter.sh/do-not-disrupt-"),
        (POOL_SWITCHED_OFF, V1, "dovetail resume --pool NodePool/default"),
        (POOL_SWITCHED_OFF, V1ALPHA5, "dovetail resume --pool Provisioner/default"),
        ("has consolidation disabled", V1ALPHA5, "spec.consolidation.enabled: true"),
        ("has consolidation disabled", V1, "spec.disruption.consolidateAfter"),
    ],
)  # fmt: skip
def test_the_answer_names_the_objects_in_the_words_of_their_generation(
    text: str, generation: str, told: str
) -> None:
    machine = make_machine("m1", node_name="n1", generation_api=generation)
    assert told in change_for(text, machine, "shop/web-1")


def test_a_text_that_nobody_knows_gets_no_guess() -> None:
    assert change_for("the moon is full", make_machine()) == ""


def test_reasons_that_differ_by_a_name_are_one_cause() -> None:
    """Else each of 50 nodes had an event about each node that is not ready yet."""
    first, second = (f"would schedule against uninitialized node {name}" for name in "ab")
    assert cause_of(first) == cause_of(second)
    assert cause_of(first) != cause_of("Can't replace with a cheaper node")
    assert cause_of("of nobody's table") == "of nobody's table"
