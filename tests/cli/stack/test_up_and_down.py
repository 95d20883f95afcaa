"""``dovetail up`` and ``dovetail down``: what is decided before anything is started or removed."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import commands
from cli.stack.up import _joined
from local.cluster.storage.store import Store
from local.foreign.objects import LABEL
from local.stack import ExistingCluster, Stack
from shared.errors import ConfigurationError, DovetailError
from tests.services.conftest import store_with_our_kinds
from tests.support.cluster.fixture import embedded_api_server, write_kubeconfig
from tests.support.cluster.local_cluster import LocalCluster
from tests.support.waiting import wait_until


def test_without_a_kubeconfig_the_stack_has_a_cluster_of_its_own() -> None:
    assert _joined(None, False) is None
    with pytest.raises(ConfigurationError, match="only with --kubeconfig"):
        _joined(None, True)


def test_a_kubeconfig_is_named_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor runs in another directory."""
    monkeypatch.chdir(tmp_path)
    whole = str(tmp_path.resolve() / "config")
    assert _joined(Path("config"), True) == ExistingCluster(whole, accept_any=True)


def test_a_stack_that_is_refused_prints_no_addresses(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("mine")
    done = CliRunner().invoke(commands, ["up", "--directory", str(tmp_path)])
    assert isinstance(done.exception, DovetailError)
    assert "files that no stack wrote (env)" in done.exception.message
    assert done.stdout == ""
    assert (tmp_path / "env").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_start_that_is_ended_by_a_signal_leaves_no_part_running(
    tmp_path: Path, number: signal.Signals
) -> None:
    """As by ``timeout 5 dovetail up --detach``: a stack that is half started must not go on."""
    stack = Stack(tmp_path / "stack")
    words = ("-m", "cli.main", "up", "--detach", "--directory", str(stack.directory))
    heeding = partial(signal.signal, number, signal.SIG_DFL)  # nohup lets SIGHUP be ignored
    starting = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=DEVNULL, preexec_fn=heeding
    )
    try:
        state = await wait_until(stack.state, "the first parts run")
        assert state is not None
        starting.send_signal(number)
        assert await asyncio.wait_for(starting.wait(), 60) == 128 + number
        assert [one for one in (state.supervisor, *state.identities()) if one.alive()] == []
        assert stack.state() is None
    finally:
        stack.stop()


def down(store: Store, tmp_path: Path) -> str:
    """What ``down --kubeconfig`` says of this cluster."""
    with embedded_api_server(store=store) as url:
        path = write_kubeconfig(tmp_path / "kubeconfig", url)
        done = CliRunner().invoke(commands, ["down", "--kubeconfig", str(path)])
    assert done.exit_code == 0
    return done.stdout


def test_what_a_stack_left_on_a_cluster_is_removed_by_its_label(tmp_path: Path) -> None:
    store = store_with_our_kinds()
    cluster = LocalCluster(store)
    cluster.node("theirs")
    assert down(store, tmp_path) == "nothing of a stack was found on this cluster\n"
    cluster.node("left", labels={LABEL: "one"})
    assert down(store, tmp_path) == "removed: Node\n"
    assert [one["metadata"]["name"] for one in store.list("nodes")] == ["theirs"]
