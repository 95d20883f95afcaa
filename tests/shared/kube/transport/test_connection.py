"""Configuration errors name the path and the fix."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest

from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, Unreachable
from shared.kube.client import Kube
from shared.kube.resources import NODES
from tests.support.clock.fake import FakeClock
from tests.support.cluster.scripted_api import ScriptedApi, answer

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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is no kubeconfig"),
        ("[]", "it is no kubeconfig"),
        ("a: " + "[" * 5000, "it is nested too deeply"),
        ("a: [", "while parsing a flow node"),
    ],
)
async def test_what_is_wrong_with_a_kubeconfig_is_said_on_one_line(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words) as refusal:
        await connect(str(path))
    assert "\n" not in refusal.value.message


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


@pytest.mark.parametrize(("direct", "asked"), [("", "proxy"), ("api.example", "nobody")])
async def test_the_proxy_of_the_environment_is_used_unless_no_proxy_names_the_server(
    api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: str, asked: str
) -> None:
    """The scripted server plays the proxy; the API server's name does not exist."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", api.url)
    if direct:
        monkeypatch.setenv("no_proxy", direct)
    api.lists = [answer({"kind": "Node"})]
    path = tmp_path / "config"
    path.write_text(EXEC_CONFIG.format(url="http://api.example", token=tmp_path / "none"))
    (tmp_path / "none").write_text("token")
    kube = await connect(str(path))
    kube._first_backoff = 0.001
    with contextlib.suppress(Unreachable):
        await kube.get(NODES, "n1")
    await kube.close()
    assert ("proxy" if api.requests else "nobody") == asked


async def test_a_netrc_does_not_disturb_the_token(
    api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two authorizations at once would make every request fail."""
    netrc, path = tmp_path / "netrc", tmp_path / "config"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    (tmp_path / "token").write_text("ours")
    path.write_text(EXEC_CONFIG.format(url=api.url, token=tmp_path / "token"))
    api.lists = [answer({"kind": "Node"})]
    kube = await connect(str(path))
    await kube.get(NODES, "n1")
    await kube.close()
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer ours"]
