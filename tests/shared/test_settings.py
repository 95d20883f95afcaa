"""Settings come from the environment; a wrong one names its variable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ConfigurationError
from shared.settings import (
    InterruptionSettings,
    LauncherSettings,
    SchedulerSettings,
    TerminatorSettings,
    WatcherSettings,
    describe,
    parse_duration,
    read,
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Only what the test sets."""
    for kind in (LauncherSettings, SchedulerSettings, TerminatorSettings, InterruptionSettings):
        for name in kind.model_fields:
            monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("CLUSTER_NAME", "test")
    return monkeypatch


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("250ms", 0.25), ("1m30s", 90.0), ("1.5h", 5400.0), ("10", 10.0), ("0", 0.0)],
)
def test_durations_are_read_as_go_writes_them(
    environment: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    """BAT-02: the variables that Karpenter's users know."""
    environment.setenv("BATCH_IDLE_DURATION", text)
    assert read(SchedulerSettings).batch_idle_duration == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["-1s", "soon", "1d", "1s 2s", "", "9999h", "nan"])
def test_a_wrong_duration_names_its_variable(environment: pytest.MonkeyPatch, text: str) -> None:
    environment.setenv("BATCH_MAX_DURATION", text)
    with pytest.raises(ConfigurationError, match="BATCH_MAX_DURATION"):
        read(SchedulerSettings)


def test_every_wrong_variable_is_named_at_once(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("CLUSTER_NAME")
    environment.setenv("LOG_LEVEL", "loud")
    environment.setenv("STATUS_PORT", "70000")
    with pytest.raises(ConfigurationError) as wrong:
        read(LauncherSettings)
    for name in ("CLUSTER_NAME", "LOG_LEVEL", "STATUS_PORT", "AWS_REGION", "--help"):
        assert name in wrong.value.message


def test_the_defaults_are_those_of_the_specification() -> None:
    """BAT-02, LCH-61, LCH-76, TRM-05, INT-01, INT-03."""
    scheduler = read(SchedulerSettings)
    assert (scheduler.batch_idle_duration, scheduler.batch_max_duration) == (1.0, 10.0)
    launcher = read(LauncherSettings, aws_region="us-west-2")
    assert (launcher.launch_timeout, launcher.registration_timeout) == (300.0, 900.0)
    assert launcher.unavailable_seconds == 180.0
    assert read(TerminatorSettings, aws_region="us-west-2").drain_minimum == 5.0
    interruption = read(InterruptionSettings, aws_region="us-west-2")
    assert (interruption.interruption_queue, interruption.receive_wait_seconds) == ("", 20)


def test_unknown_variables_are_nobodys_business(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SOMETHING_ELSE", "x")
    assert read(WatcherSettings).cluster_name == "test"


def test_the_help_text_names_every_variable() -> None:
    text = describe(LauncherSettings)
    for name in LauncherSettings.model_fields:
        assert name.upper() in text
    assert "required" in text


@given(st.one_of(st.text(), st.none(), st.integers(), st.binary()))
def test_no_value_breaks_the_reader_of_durations(value: object) -> None:
    """What is no duration is handed back for the settings model to refuse."""
    answer = parse_duration(value)
    assert answer is value or isinstance(answer, float)
