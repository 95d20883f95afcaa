"""Tags that would not fit on an instance: said on the class, before a launch or the tagging after it fails."""

from __future__ import annotations

import pytest

from services.launcher.launch.fleet import addressed
from services.launcher.launch_template.content import instance_tags
from services.launcher.lifecycle.tagging import tags_due
from services.launcher.node_class.status import tag_problems
from shared.cloud.ec2.records import Instance, tag_specification, tags_from
from shared.domain.pools.generations import V1, V1ALPHA5
from tests.support.planning.builders import make_machine, make_node_class

MOST_OF_AN_INSTANCE = 50


def given(number: int, prefix: str = "team") -> dict[str, str]:
    return {f"{prefix}-{one}": "web" for one in range(number)}


def set_by_us(generation: str) -> set[str]:
    """What an instance has in the end that neither class nor operator gave it."""
    machine = make_machine("m", generation_api=generation, node_name="n")
    launched = instance_tags(machine, make_node_class(generation_api=generation), "dev")
    request = {
        "TargetCapacitySpecification": {},
        "TagSpecifications": [tag_specification("instance", launched)],
    }
    (asked,) = addressed(request, [machine], "token")["TagSpecifications"]
    tags = tags_from(asked["Tags"])
    if generation != V1:
        return set(tags)
    instance = Instance(
        "i-1", "m5.large", "us-west-2a", "on-demand", "ami-1", "running", 0.0, "", tags, "s", ()
    )
    return {*tags, *tags_due(machine, instance)}


@pytest.mark.parametrize("generation", [V1, V1ALPHA5])
def test_as_many_tags_as_an_instance_can_have_beside_ours_are_enough(generation: str) -> None:
    room = MOST_OF_AN_INSTANCE - len(set_by_us(generation))
    fits = make_node_class(generation_api=generation, tags=given(room))
    assert tag_problems(fits, {}) == []
    assert tag_problems(fits, given(room)) == [], "the same tags count once"
    (problem,) = tag_problems(fits, given(2, "cost"))
    assert problem.reason == "TagValidationFailed"
    assert problem.message == (
        f"spec.tags: {room + 2} tags with those of AWS_TAGS are too many: an instance has at most 50, and "
        f"Dovetail sets {50 - room} more; leave 2 out"
    )


@pytest.mark.parametrize("generation", [V1, V1ALPHA5])
def test_a_name_of_ones_own_takes_the_place_of_ours(generation: str) -> None:
    room = MOST_OF_AN_INSTANCE - len(set_by_us(generation))
    tags = {**given(room), "Name": "web"}
    assert tag_problems(make_node_class(generation_api=generation, tags=tags), {}) == []
