"""What a service imports of kubernetes_asyncio: its loaders and its transport, none of its 800 models."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import shared.kube.transport.connection
from kubernetes_asyncio import client, config
assert client.ApiClient and client.Configuration and config.load_kube_config
loaded = [name for name in sys.modules if name.startswith("kubernetes_asyncio.client.models.")]
assert not loaded, loaded[:3]
assert not hasattr(client, "V1Pod")
# Who does want one may still have it.
from kubernetes_asyncio.client.models.v1_lease import V1Lease
assert V1Lease.openapi_types["kind"] == "str"
"""


@pytest.mark.slow
def test_the_typed_models_are_not_imported_and_could_be() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
