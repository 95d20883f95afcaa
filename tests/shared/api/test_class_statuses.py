"""What the launcher wrote to a node class' status comes back into its record (T-12, EC-15)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.class_statuses import with_status
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass


@pytest.mark.parametrize("generation", [V1ALPHA5, V1])
def test_the_images_of_a_class_are_known_by_id(generation: str) -> None:
    """EC-15, IT-12: sorted and each once, so that the same images are the same settings."""
    status = {"amis": [{"id": "ami-2"}, {"id": "ami-1", "name": "x"}, {"id": "ami-2"}]}
    found = with_status(NodeClass(uid="u", name="n", generation_api=generation), status)
    assert found.image_ids == ("ami-1", "ami-2")


@pytest.mark.parametrize("amis", [None, {}, "ami-1", [None, 1, {"id": 5}, {}, ["id"]]])
def test_images_that_cannot_be_read_are_none(amis: Any) -> None:
    assert with_status(NodeClass(uid="u", name="n"), {"amis": amis}).image_ids == ()
