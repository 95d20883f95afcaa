"""What a stack writes down can be read back, by shells too."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.process import ProcessIdentity, identify
from local.stack_state import (
    PartState,
    StackState,
    read_environment,
    read_state,
    write_environment,
    write_state,
)
from shared.errors import ConfigurationError

NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF), max_size=40)


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_the_env_file_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("env") / "env"
    write_environment(path, environment)
    assert read_environment(path) == environment


def test_a_shell_can_source_the_env_file(tmp_path: Path) -> None:
    write_environment(tmp_path / "env", {"KUBECONFIG": "/a folder/it's here", "X": "$HOME `id`"})
    script = f'. "{tmp_path}/env"; printf "%s|%s" "$KUBECONFIG" "$X"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout == "/a folder/it's here|$HOME `id`"


def test_a_missing_env_file_is_reported_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="dovetail up --detach"):
        read_environment(tmp_path / "env")


def test_the_state_file_gives_back_what_was_written(tmp_path: Path) -> None:
    parts = [PartState("redis", ProcessIdentity(2, "b"), restarts=3)]
    state = StackState(ProcessIdentity(1, "a"), "ready", "hello", parts, {"X": "y"})
    write_state(tmp_path / "state.json", state)
    assert read_state(tmp_path / "state.json") == state
    assert read_state(tmp_path / "other.json") is None


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"phase": 1}')
    with pytest.raises(ConfigurationError, match=r"state\.json is damaged"):
        read_state(tmp_path / "state.json")


def test_a_place_that_cannot_hold_a_stack_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "state.json").mkdir()
    for path in (tmp_path / "file" / "state.json", tmp_path / "state.json"):
        with pytest.raises(ConfigurationError, match=f"cannot read {path}: .*directory"):
            read_state(path)


def test_a_recycled_pid_is_another_process() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert own.alive()
    assert not ProcessIdentity(own.pid, "another start").alive()
