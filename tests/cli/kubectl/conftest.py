"""A cluster with Dovetail's console and scheduler behind Services, and a user with the rights of the documents."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from typer.testing import CliRunner

from cli.kubectl.command import completions, options_first, plugin
from local.cluster.builtin.services import create_services
from local.cluster.storage.store import Store
from services.scheduler.status.access import admission
from services.scheduler.status.explain import STANDBY
from shared.concurrency.clock import SystemClock
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.resources import SERVICE_ACCOUNTS
from shared.kube.token_access import TokenAccess
from shared.metrics import Metrics
from shared.runtime.services import Answer, Question, Service, json_answer
from shared.runtime.status import Listener, mount, server_loop
from tests.services.conftest import bus, clock, metrics, recorder, redis_url, store_with_our_kinds
from tests.services.console.conftest import start_console
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig
from tests.support.network.status_server import free_port, running

__all__ = ["bus", "clock", "metrics", "recorder", "redis_url", "start_console"]

PAGE = Path(__file__).parents[3] / "docs/operating/kubectl-plugin.md"
COMPLETE = "completions"
"""As a program: what ``kubectl_complete-dovetail`` prints, without a process."""
GROUP = "system:serviceaccounts:ops"
"""What ServiceAccounts of the namespace ``ops`` are, in the place of the documents' group."""
KINDS = {
    "ServiceAccount": ("serviceaccounts", ""), "Role": ("roles", "rbac.authorization.k8s.io"),
    "RoleBinding": ("rolebindings", "rbac.authorization.k8s.io"),
    "ClusterRole": ("clusterroles", "rbac.authorization.k8s.io"),
    "ClusterRoleBinding": ("clusterrolebindings", "rbac.authorization.k8s.io"),
}  # fmt: skip


@pytest.fixture
def store() -> Store:
    """Our kinds, the namespaces and accounts of a user and of Dovetail, and no rights of theirs."""
    made = store_with_our_kinds()
    for name in ("dovetail", "ops"):
        made.create("namespaces", {"metadata": {"name": name}})
    made.create("serviceaccounts", {"metadata": {"name": "ann"}}, namespace="ops")
    return made


def grant(store: Store) -> None:
    """The rights that the documents show, for ``GROUP``."""
    text = PAGE.read_text().partition("```yaml\n")[2].partition("```")[0]
    for document in yaml.safe_load_all(text.replace("dovetail-users", GROUP)):
        plural, group = KINDS[document["kind"]]
        place = document["metadata"].get("namespace")
        store.create(plural, document, group=group, namespace=place)


@pytest.fixture
def api_url(store: Store) -> Any:
    with embedded_api_server(store=store) as url:
        yield url


@pytest.fixture
async def kube(api_url: str, tmp_path: Path) -> AsyncIterator[Kube]:
    """The administrator."""
    client = await connect(write_kubeconfig(tmp_path / "admin", api_url))
    yield client
    await client.close()


@dataclass
class Done:
    """Exit code, output and errors of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Awaitable[Done]]


def _invoke(words: Sequence[str], variables: dict[str, str]) -> Done:
    """In this process, which costs a tenth, with these variables alone."""
    with patch.dict(os.environ, variables, clear=True):
        done = CliRunner().invoke(plugin, options_first(words))
    if isinstance(done.exception, DovetailError):
        return Done(1, done.stdout, f"dovetail: {done.exception.message}\n")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def _complete(words: Sequence[str], variables: dict[str, str]) -> Done:
    with patch.dict(os.environ, variables, clear=True):
        return Done(0, "\n".join(completions(words)), "")


@pytest.fixture
async def user(kube: Kube, api_url: str, tmp_path: Path) -> Run:
    """``await user(*words, **variables)``: the plugin, run by ann with her own token; with ``program`` in a process of
    its own."""
    head = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await kube.create(SERVICE_ACCOUNTS, head, "ops", owner="ann", subresource="token")
    path = write_kubeconfig(tmp_path / "ann", api_url)
    config = json.loads(path.read_text())
    config["users"][0]["user"] = {"token": made["status"]["token"]}
    path.write_text(json.dumps(config))

    async def run(*words: str, program: str = "", **variables: str) -> Done:
        given = {"COLUMNS": "200", "KUBECONFIG": str(path), **variables}
        if program == COMPLETE:
            return await asyncio.to_thread(_complete, words, given)
        if not program:
            return await asyncio.to_thread(_invoke, words, given)
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name(program)), *words,
            env={"PATH": os.environ["PATH"], **given},
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        return Done(process.returncode or 0, out.decode(), err.decode())

    return run


@asynccontextmanager
async def scheduler(
    kube: Kube, store: Store, mode: str = "authenticated", standby_answers: int = 0
) -> AsyncIterator[list[bytes]]:
    """A scheduler's status server behind its Service; ``mode`` as for QUESTIONS. The questions that it let in."""
    asked: list[bytes] = []

    async def answer(body: bytes, _query: Any) -> Answer:
        asked.append(body)
        if len(asked) <= standby_answers:
            return json_answer(503, {"error": STANDBY, "standby": True})
        return json_answer(200, {"pod": "shop/web", "state": "placeable"})

    admit = admission(mode, "/explain", TokenAccess(kube, SystemClock()))
    question = Question("/explain", "Why", answer, 4096, admit=admit)
    service = Service("scheduler", [], Metrics("scheduler"), dict, questions=[question])
    port = free_port()
    create_services(store, f"dovetail/dovetail-scheduler=http://127.0.0.1:{port}")
    app = mount([service], SystemClock())
    async with running(server_loop(Listener(app, "127.0.0.1", port)), port):
        yield asked
