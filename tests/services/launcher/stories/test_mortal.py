"""The calls that can be the last one are calls that exist: a renamed method would never die unnoticed."""

from __future__ import annotations

import pytest

from shared.cloud.ec2.calls import Ec2
from shared.kube.client import Kube
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from tests.services.launcher.mortal import CHANGES


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_every_change_is_a_method_of_a_port(name: str) -> None:
    assert any(
        callable(getattr(port, name, None)) for port in (Kube, Ec2, Bus, UnavailableOfferings)
    )
