"""One real control plane for all tests of this folder, with everything of ``deploy/`` on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.real_cluster.binaries import missing
from tests.support.real_cluster.control_plane import ControlPlane, control_plane
from tests.support.real_cluster.stack import deploy

TIMEOUT = pytest.mark.timeout(900)
"""A story of the local stack, and time for the control plane to start, on a slow machine."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the programs of a control plane every test says how to get them."""
    reason = missing()
    for item in items:
        if item.get_closest_marker("kubernetes"):
            item.add_marker(TIMEOUT)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd, API server, controller manager and scheduler."""
    with control_plane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def deployed(plane: ControlPlane) -> ControlPlane:
    """With ``kubectl apply -k deploy``."""
    deploy(plane)
    return plane
