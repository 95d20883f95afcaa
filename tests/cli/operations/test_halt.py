"""``dovetail halt`` and ``dovetail resume`` against an API server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientTimeout

from cli.kubectl.addresses import IN_CLUSTER
from cli.operations.halt import halt, resume
from cli.stack.environment import command_for
from local.process import ProcessIdentity, start_stamp
from local.stack import Stack
from local.stack_state import READY, StackState, write_state
from shared.domain.labels import DISRUPTION_ANNOTATION
from shared.errors import ConfigurationError, Unreachable
from shared.kube import raw_requests
from shared.kube.client import Kube
from shared.kube.resources import NODE_POOLS, PROVISIONERS
from tests.services.conftest import CRDS, our_definitions
from tests.support.cluster.fixture import (
    connect,
    embedded_api_server,
    frozen_api_server,
    write_kubeconfig,
)

NODE_POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [],
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
            }
        }
    },
}
PROVISIONER: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "batch"},
    "spec": {"providerRef": {"name": "default"}},
}


async def prepared(kubeconfig: Path) -> None:
    kube = await connect(kubeconfig)
    for definition in our_definitions():
        await kube.create(CRDS, definition)
    await kube.create(NODE_POOLS, NODE_POOL)
    await kube.create(PROVISIONERS, PROVISIONER)
    await kube.close()


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An API server with a NodePool and a Provisioner."""
    with embedded_api_server() as url:
        path = write_kubeconfig(tmp_path_factory.mktemp("halt") / "kubeconfig", url)
        asyncio.run(prepared(path))
        yield path


@pytest.fixture(autouse=True)
def here(kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without a stack, in a shell that knows the cluster; no pool is halted."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.delenv("DOVETAIL_SCHEDULER_URL", raising=False)
    resume(None, False, tmp_path)
    return tmp_path


def switches(kubeconfig: Path) -> dict[str, str | None]:
    """Pool -> what its annotation says."""

    async def read() -> dict[str, str | None]:
        kube: Kube = await connect(kubeconfig)
        found = {
            f"{raw['kind']}/{raw['metadata']['name']}": (
                raw["metadata"].get("annotations") or {}
            ).get(DISRUPTION_ANNOTATION)
            for resource in (NODE_POOLS, PROVISIONERS)
            for raw in (await kube.list(resource)).items
        }
        await kube.close()
        return found

    return asyncio.run(read())


def test_halt_switches_all_pools_off_and_resume_on_again(
    kubeconfig: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    halt(None, False, here)
    assert switches(kubeconfig) == {"NodePool/default": "off", "Provisioner/batch": "off"}
    told = capsys.readouterr().out
    assert "halted: NodePool/default, Provisioner/batch" in told
    assert "Interruptions" in told
    assert "Undo it with: dovetail resume" in told
    resume(None, True, here)
    assert switches(kubeconfig) == {"NodePool/default": None, "Provisioner/batch": None}


def test_one_pool_may_be_named_in_any_case_and_twice(
    kubeconfig: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    halt(["provisioner/batch", "Provisioner/batch"], False, here)
    assert "halted: Provisioner/batch (" in capsys.readouterr().out
    assert switches(kubeconfig) == {"NodePool/default": None, "Provisioner/batch": "off"}


@pytest.mark.parametrize(
    ("pool", "all_pools", "told"),
    [
        (["default"], False, "must be KIND/NAME"),
        (["Deployment/web"], False, "must be KIND/NAME"),
        (["NodePool/"], False, "must be KIND/NAME"),
        (["NodePool/default"], True, "not both"),
        (["NodePool/default", "NodePool/typo"], False, "there is no NodePool/typo; pools are: "),
    ],
)
def test_a_mistake_changes_nothing_and_says_what_to_do(
    kubeconfig: Path, here: Path, pool: list[str], all_pools: bool, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        halt(pool, all_pools, here)
    assert set(switches(kubeconfig).values()) == {None}


def test_without_a_cluster_the_next_step_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(ConfigurationError, match="dovetail up --detach"):
        halt(None, False, here)


def test_the_command_that_undoes_it_is_for_the_same_installation(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command_for(here, "resume") == "dovetail resume"
    us = ProcessIdentity(os.getpid(), str(start_stamp(os.getpid())))
    write_state(Stack(here).state_file, StackState(us, READY))
    assert command_for(here, "resume") == f"dovetail resume --directory {here}"
    monkeypatch.setenv(IN_CLUSTER, "1")
    assert command_for(here, "resume") == "kubectl dovetail resume"


@pytest.mark.parametrize("command", [halt, resume])
def test_a_frozen_api_server_is_not_waited_for(
    command: Callable[..., None], here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question with a short bound comes first; requests of their own would be repeated for two minutes."""
    monkeypatch.setattr(raw_requests, "SHORT", ClientTimeout(total=0.2))
    with frozen_api_server(tmp_path / "frozen") as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        with pytest.raises(Unreachable, match=r"nothing was changed.*kubectl get --raw /readyz"):
            command(directory=here)
