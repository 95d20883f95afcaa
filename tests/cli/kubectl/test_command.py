"""``kubectl dovetail`` as its users run it: a program of its own, against a real API server that enforces roles."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cli.kubectl.command import FOR_CLUSTERS, options_first
from cli.operations import scheduler_status
from local.cluster.builtin.services import create_services
from local.cluster.storage.store import Store
from shared.kube.client import Kube
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from tests.cli.kubectl.conftest import COMPLETE, Run, grant, scheduler
from tests.services.console.conftest import NOBODY, Console, Start

PROGRAM = "kubectl-dovetail"
POD = ("explain", "pod", "shop/web")


@pytest.fixture
async def console(start_console: Start, store: Store) -> AsyncIterator[Console]:
    """A console that asks for tokens, behind its Service."""
    async with start_console(console_access="authenticated", **NOBODY) as made:
        create_services(store, f"dovetail/dovetail-console=http://127.0.0.1:{made.port}")
        yield made


async def test_a_question_is_asked_with_a_token_that_only_dovetail_accepts(
    kube: Kube, store: Store, user: Run
) -> None:
    grant(store)
    async with scheduler(kube, store) as asked:
        done = await user(*POD)
    assert (done.code, done.err) == (0, "")
    assert "The next round of the scheduler places it" in done.out
    assert [json.loads(one) for one in asked] == [{"pod": "shop/web"}]


async def test_a_standby_is_asked_and_then_the_leader(kube: Kube, store: Store, user: Run) -> None:
    grant(store)
    async with scheduler(kube, store, standby_answers=3) as asked:
        done = await user("explain", "pod", "shop/web")
    assert (done.code, done.err, len(asked)) == (0, "", 4)


async def test_a_scheduler_that_stands_still_is_noticed_before_the_question(
    store: Store, user: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes connections, as a stopped process does, and answers nothing; the question may take two minutes."""
    grant(store)
    monkeypatch.setattr(scheduler_status, "READ_TIMEOUT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        create_services(
            store, f"dovetail/dovetail-scheduler=http://127.0.0.1:{silent.getsockname()[1]}"
        )
        done = await user(*POD)
    assert done.code == 1
    assert done.err.startswith("dovetail: the scheduler does not answer at service://dovetail/")


async def test_without_the_rights_the_missing_rule_is_named(
    kube: Kube, store: Store, user: Run
) -> None:
    async with scheduler(kube, store) as asked:
        done = await user(*POD)
    assert (done.code, asked) == (1, [])
    assert 'grant verb "create" on resource "services/proxy"' in done.err


async def test_who_may_use_the_proxy_but_not_request_a_token_reads_what_to_do(
    kube: Kube, store: Store, user: Run
) -> None:
    grant(store)
    store.delete("serviceaccounts", "dovetail-user", namespace="dovetail")
    async with scheduler(kube, store) as asked:
        done = await user(*POD)
        assert (done.code, asked) == (1, [])
        assert "--audience dovetail" in done.err
        assert "Traceback" not in done.err


async def test_the_users_own_token_is_used_if_it_is_given(
    kube: Kube, store: Store, user: Run
) -> None:
    """A token for the API server is refused: a service must not be given one."""
    grant(store)
    async with scheduler(kube, store) as asked:
        done = await user(*POD, DOVETAIL_TOKEN="no-token-of-this-cluster")
    assert (done.code, asked) == (1, [])
    assert "does not accept this token" in done.err


async def test_status_shows_services_by_proxy_and_queues_by_the_console(
    kube: Kube, store: Store, user: Run, console: Console, bus: Bus
) -> None:
    grant(store)
    async with scheduler(kube, store):
        done = await user("status")
    rows = {line.split()[0]: line.split() for line in done.out.splitlines() if line.strip()}
    assert rows["scheduler"][1] == "yes"
    assert rows["launches"][:2] == ["launches", "launcher"]
    assert 'services "dovetail-watcher" not found' in " ".join(rows["watcher"])
    assert done.code == 1  # not all services answer


async def test_dead_letters_are_listed_and_shown_without_redis(
    store: Store, user: Run, console: Console, bus: Bus
) -> None:
    grant(store)
    stream = f"{bus.prefix}launches:dead"
    key = (await call(bus.redis, "add", "XADD", stream, "*", "group", "launcher")).decode()
    listed = await user("dead-letters", "list")
    assert (listed.code, listed.err) == (0, "")
    assert key in listed.out
    shown = await user("dead-letters", "show", "launches", key)
    assert (shown.code, f"id: {key}" in shown.out) == (0, True)
    replayed = await user("dead-letters", "replay", "launches", "--all")
    assert replayed.code == 1
    assert "kubectl port-forward -n dovetail deploy/dovetail-redis 6379" in replayed.err


@pytest.mark.slow
async def test_top_reads_the_console(store: Store, user: Run, console: Console) -> None:
    grant(store)
    # In a process of its own: the console of this one logs to the same standard output.
    done = await user("top", "-o", "json", program=PROGRAM)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["nodes"] == []


async def test_halt_writes_to_the_cluster_of_the_context(
    store: Store, user: Run, node_pool: dict[str, Any]
) -> None:
    grant(store)
    done = await user("halt", "--pool", "NodePool/default", "--context", "test")
    assert (done.code, done.err) == (0, "")
    pool = store.get("nodepools", "default", group="karpenter.sh")
    assert pool["metadata"]["annotations"]["dovetail.sh/disruption"] == "off"


@pytest.fixture
def node_pool(store: Store) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"requirements": [], "nodeClassRef": reference}}
    pool = {"metadata": {"name": "default"}, "spec": {"template": template}}
    return store.create("nodepools", pool, group="karpenter.sh")


@pytest.mark.slow
async def test_logs_of_every_replica(store: Store, user: Run) -> None:
    grant(store)
    labels = {"app.kubernetes.io/name": "dovetail", "app.kubernetes.io/component": "launcher"}
    for name in ("launcher-a", "launcher-b"):
        spec = {"containers": [{"name": "launcher", "image": "dovetail"}]}
        metadata = {"name": name, "labels": labels}
        store.create("pods", {"metadata": metadata, "spec": spec}, namespace="dovetail")
    done = await user("logs", "launcher", program=PROGRAM)
    assert (done.code, done.err) == (0, "")
    assert sorted(line.partition(":")[0] for line in done.out.splitlines()) == [
        "launcher-a", "launcher-b",
    ]  # fmt: skip
    missing = await user("--namespace", "ops", "logs", "launcher", program=PROGRAM)
    assert (missing.code, "no pod of launcher is in the namespace ops" in missing.err)[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--context", "nowhere", "status"), "check the context nowhere"),
        (("status", "--directory", "x"), "addresses the cluster of the kubeconfig"),
        (("logs", "redis"), "redis is not a service"),
    ],
)
async def test_a_wrong_word_is_one_line(user: Run, words: tuple[str, ...], told: str) -> None:
    done = await user(*words, program=PROGRAM)
    assert done.code == 1
    assert told in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.slow
async def test_completion_for_kubectl(store: Store, user: Run, node_pool: dict[str, Any]) -> None:
    grant(store)

    async def completed(*words: str, program: str = COMPLETE, **variables: str) -> list[str]:
        done = await user(*words, program=program, **variables)
        assert done.err == ""
        return [line.partition("\t")[0] for line in done.out.splitlines()]

    assert await completed("do", program="kubectl_complete-dovetail") == ["doctor", ":4"]
    assert await completed("halt", "--pool", "NodeP") == ["NodePool/default", ":4"]
    assert await completed("halt", "--po") == ["--pool", ":4"]
    assert await completed("logs", "w") == ["watcher", ":4"]
    assert await completed("--context", "") == ["test", ":4"]
    assert await completed("validate", "-f", "") == [":0"]
    assert await completed("halt", "--pool", "", KUBECONFIG="/nowhere") == [":0"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["halt", "--context", "a"], ["--context", "a", "halt"]),
        (["halt", "--kubeconfig=x", "-n", "b"], ["--kubeconfig=x", "halt", "-n", "b"]),
        (["x", "--", "--context", "a"], ["x", "--", "--context", "a"]),
        (["x", "--context"], ["--context", "x"]),
    ],
)
def test_options_of_the_cluster_may_stand_anywhere(words: list[str], found: list[str]) -> None:
    assert options_first(words) == found


async def test_only_commands_for_clusters_are_offered(user: Run) -> None:
    done = await user("--help")
    assert done.code == 0
    assert [name for name in (*FOR_CLUSTERS, "logs") if f"  {name} " not in done.out] == []
    assert "  up " not in done.out
