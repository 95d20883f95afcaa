"""Configuration errors name the path and the fix."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from shared.clock import SystemClock
from shared.errors import ConfigurationError
from shared.kube.client import Kube
from shared.kube.resources import NODES
from tests.support.fake_clock import FakeClock
from tests.support.scripted_api import ScriptedApi, answer

EXEC_CONFIG = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
clusters: [{{name: a, cluster: {{server: "{url}"}}}}]
users: [{{name: a, user: {{tokenFile: "{token}"}}}}]
"""


async def connect(kubeconfig: str | None) -> Kube:
    return await Kube.connect(
        kubeconfig, clock=SystemClock(), random=Random(1), user_agent="dovetail-tests/1"
    )


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"KUBECONFIG names .*nowhere.*set it to"):
        await connect(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "a: [", "kind: Config", "{current-context: x, contexts: [], clusters: []}"],
)
async def test_a_broken_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"broken.*check current-context"):
        await connect(str(path))


async def test_without_kubeconfig_it_must_be_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match="set KUBECONFIG to a kubeconfig file"):
        await connect(None)


async def test_kubeconfig_credentials_are_loaded_again_after_a_minute(
    api: ScriptedApi, tmp_path: Path, clock: FakeClock
) -> None:
    """EKS tokens live 15 minutes."""
    token, config = tmp_path / "token", tmp_path / "config"
    token.write_text("first")
    config.write_text(EXEC_CONFIG.format(url=api.url, token=token))
    api.lists = [answer({"kind": "Node"})]
    kube = await Kube.connect(str(config), clock=clock, random=Random(1), user_agent="tests/1")
    await kube.get(NODES, "n1")
    token.write_text("second")
    await kube.get(NODES, "n1")
    clock.seconds += 61
    await kube.get(NODES, "n1")
    await kube.close()
    tokens = [request.headers["authorization"] for request in api.requests]
    assert tokens == ["Bearer first", "Bearer first", "Bearer second"]
