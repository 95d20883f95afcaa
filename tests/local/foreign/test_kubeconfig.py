"""The current context is read, relative paths keep their meaning, and each fault is named with its fix."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from local.foreign.kubeconfig import read_context, write_private
from shared.errors import ConfigurationError


def config(**changes: Any) -> dict[str, Any]:
    cluster = {"server": "https://127.0.0.1:6443", "certificate-authority": "pki/ca.crt"}
    return {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [
            {"name": "u", "user": {"client-certificate": "/etc/a.crt", "client-key": "a.key"}}
        ],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changes,
    }


def written(folder: Path, document: Any) -> Path:
    path = folder / "config"
    path.write_text(json.dumps(document))
    return path


def test_files_are_named_as_seen_from_the_kubeconfig(tmp_path: Path) -> None:
    found = read_context(written(tmp_path, config()))
    assert found.host == "127.0.0.1"
    assert found.cluster["certificate-authority"] == str(tmp_path / "pki/ca.crt")
    assert found.user == {
        "client-certificate": "/etc/a.crt",
        "client-key": str(tmp_path / "a.key"),
    }


def test_a_copy_for_another_user_names_the_same_cluster_and_is_private(tmp_path: Path) -> None:
    first = read_context(written(tmp_path, config()))
    copy = tmp_path / "deep" / "copy"
    write_private(copy, first.document({"token": "secret"}, "dovetail"))
    found = read_context(copy)
    assert (found.cluster, found.user) == (first.cluster, {"token": "secret"})
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (config(**{"current-context": ""}), "has no current-context"),
        ([1, 2], "has no current-context"),
        (config(**{"current-context": "other"}), "has no context 'other'"),
        (config(clusters=[]), "has no cluster 'c'"),
        (config(users="none"), "has no user 'u'"),
        (config(clusters=[{"name": "c", "cluster": {}}]), "has no server"),
        (config(clusters=[{"name": "c", "cluster": {"server": "127.0.0.1"}}]), "has no server"),
    ],
)
def test_each_fault_is_named(tmp_path: Path, document: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read_context(written(tmp_path, document))


def test_a_file_that_is_missing_or_no_yaml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*nowhere: No such file"):
        read_context(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigurationError, match=r"cannot read .*loop: Too many levels"):
        read_context(tmp_path / "loop")
    for text in ("a: [", "a: " + "[" * 5000, "a: 2020-13-01"):
        (tmp_path / "config").write_text(text)
        with pytest.raises(ConfigurationError, match="is not YAML") as refusal:
            read_context(tmp_path / "config")
        assert "\n" not in refusal.value.message
