"""``dovetail up`` and ``dovetail down``: what is decided before anything is started or removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import commands
from cli.stack.up import _joined
from local.cluster.storage.store import Store
from local.foreign.objects import LABEL
from local.stack import ExistingCluster
from shared.errors import ConfigurationError, DovetailError
from tests.services.conftest import store_with_our_kinds
from tests.support.cluster.fixture import embedded_api_server, write_kubeconfig
from tests.support.cluster.local_cluster import LocalCluster


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
