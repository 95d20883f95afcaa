"""Settings come from the environment; a wrong one names its variable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shared.domain.feature_gates import FeatureGates
from shared.errors import ConfigurationError
from shared.settings import (
    InterruptionSettings,
    LauncherSettings,
    SchedulerSettings,
    TerminatorSettings,
    WatcherSettings,
    apply,
    describe,
    read,
    read_early,
)
from shared.settings.types import parse_duration


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


@pytest.mark.parametrize("text", ["-0.1", "1000", "nan", "inf", "cheap"])
def test_a_wrong_node_price_names_its_variable(environment: pytest.MonkeyPatch, text: str) -> None:
    environment.setenv("NODE_PRICE", text)
    with pytest.raises(ConfigurationError, match="NODE_PRICE"):
        read(SchedulerSettings)


def test_the_defaults_are_those_of_the_specification() -> None:
    """BAT-02: idle and longest time of a batch (LCH-61, LCH-76, TRM-05, INT-01, INT-03)."""
    scheduler = read(SchedulerSettings)
    assert (scheduler.batch_idle_duration, scheduler.batch_max_duration) == (1.0, 10.0)
    launcher = read(LauncherSettings, aws_region="us-west-2")
    assert (launcher.launch_timeout, launcher.registration_timeout) == (300.0, 900.0)
    assert launcher.unavailable_seconds == 180.0
    assert read(TerminatorSettings, aws_region="us-west-2").drain_minimum == 5.0
    interruption = read(InterruptionSettings, aws_region="us-west-2")
    assert (interruption.interruption_queue, interruption.receive_wait_seconds) == ("", 20)


def test_a_short_key_is_refused_without_being_shown(environment: pytest.MonkeyPatch) -> None:
    """The line end of a file is no part of a key; nothing at all means that there is none."""
    environment.setenv("MIRROR_KEY", "hunter2")
    with pytest.raises(ConfigurationError, match="MIRROR_KEY: has 7 characters") as refused:
        read(SchedulerSettings, cluster_name="c")
    assert "hunter2" not in str(refused.value)
    environment.setenv("MIRROR_KEY", "0123456789abcdef\n")
    settings = read(SchedulerSettings, cluster_name="c")
    assert settings.mirror_key == "0123456789abcdef"
    assert "0123456789abcdef" not in repr(settings)
    environment.setenv("MIRROR_KEY", "")
    assert read(SchedulerSettings, cluster_name="c").mirror_key == ""


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


def test_the_configmap_stands_between_the_environment_and_the_default(
    environment: pytest.MonkeyPatch,
) -> None:
    """OPS-04: the settings ConfigMap of v1alpha5."""
    environment.setenv("BATCH_IDLE_DURATION", "2s")
    configured = {"batch_idle_duration": 3.0, "batch_max_duration": 30.0}
    settings = read(SchedulerSettings, configured)
    assert (settings.batch_idle_duration, settings.batch_max_duration) == (2.0, 30.0)
    assert read(SchedulerSettings).batch_max_duration == 10.0


def test_a_variable_that_is_set_to_nothing_is_set(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("INTERRUPTION_QUEUE", "")
    configured = {"interruption_queue": "prod"}
    settings = read(InterruptionSettings, configured, aws_region="us-west-2")
    assert settings.interruption_queue == ""


def test_what_the_configmap_says_to_other_services_is_passed_by() -> None:
    settings = read(WatcherSettings, {"reserved_enis": 3})
    assert not hasattr(settings, "reserved_enis")


def test_the_configmap_may_name_the_cluster(environment: pytest.MonkeyPatch) -> None:
    assert read(WatcherSettings, {"cluster_name": "other"}).cluster_name == "test"
    environment.delenv("CLUSTER_NAME")
    assert read(WatcherSettings, {"cluster_name": "other"}).cluster_name == "other"


def test_each_feature_gate_ranks_by_itself(environment: pytest.MonkeyPatch) -> None:
    """OPS-02, OPS-04: a variable on one gate does not silence the ConfigMap on another."""
    drift = {"feature_gates": "Drift=true"}
    assert read(SchedulerSettings, drift).feature_gates.drift
    environment.setenv("FEATURE_GATES", "NodeRepair=true")
    gates = read(SchedulerSettings, drift).feature_gates
    assert gates.drift
    assert gates.node_repair
    environment.setenv("FEATURE_GATES", "Drift=false")
    assert not read(SchedulerSettings, drift).feature_gates.drift


def test_an_unknown_feature_gate_stops_the_start(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("FEATURE_GATES", "Dirft=true")
    with pytest.raises(ConfigurationError, match=r"FEATURE_GATES: 'Dirft' .* NodeRepair, Reserved"):
        read(WatcherSettings)


def test_the_default_gates_are_those_of_the_specification() -> None:
    """OPS-02: the text that --help shows is what counts."""
    assert read(WatcherSettings).feature_gates == FeatureGates()


def test_tags_come_as_json(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_REGION", "us-west-2")
    environment.setenv("AWS_TAGS", '{"team": "web"}')
    assert read(LauncherSettings).aws_tags == {"team": "web"}
    environment.setenv("AWS_TAGS", "team=web")
    with pytest.raises(ConfigurationError, match="AWS_TAGS: must be a JSON object"):
        read(LauncherSettings)


def test_the_early_reading_needs_no_name_of_the_cluster(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("CLUSTER_NAME")
    environment.setenv("SYSTEM_NAMESPACE", "dovetail")
    assert read_early(WatcherSettings).system_namespace == "dovetail"


def test_the_early_reading_refuses_everything_else_at_once(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.delenv("CLUSTER_NAME")
    environment.setenv("SYSTEM_NAMESPACE", "not/a/name")
    with pytest.raises(ConfigurationError, match=r"CLUSTER_NAME.*SYSTEM_NAMESPACE"):
        read_early(WatcherSettings)


def test_new_values_reach_whoever_holds_the_settings() -> None:
    held = read(SchedulerSettings)
    fresh = read(SchedulerSettings, {"batch_max_duration": 30.0, "cluster_name": "test"})
    assert apply(held, fresh) == ["batch_max_duration"]
    assert held.batch_max_duration == 30.0
    assert apply(held, fresh) == []


def test_the_name_of_the_cluster_stays_while_a_service_runs() -> None:
    held = read(WatcherSettings)
    assert apply(held, read(WatcherSettings, cluster_name="other")) == []
    assert held.cluster_name == "test"


def test_nobody_else_may_change_settings() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read(WatcherSettings).log_level = "debug"


def test_the_variables_of_karpenter_that_we_have_are_its_own() -> None:
    """OPS-01: name and default."""
    known = {name.upper(): field.default for name, field in SchedulerSettings.model_fields.items()}
    expected = {
        "KUBE_CLIENT_QPS": 200,
        "KUBE_CLIENT_BURST": 300,
        "DISABLE_LEADER_ELECTION": False,
        "LEADER_ELECTION_NAME": "karpenter-leader-election",
        "LEADER_ELECTION_NAMESPACE": "",
        "LOG_LEVEL": "info",
        "BATCH_MAX_DURATION": 10.0,
        "BATCH_IDLE_DURATION": 1.0,
        "PREFERENCE_POLICY": "Respect",
        "MIN_VALUES_POLICY": "Strict",
        "IGNORE_DRA_REQUESTS": True,
        "SCHEDULER_CONFIG": "",
    }
    assert {name: known.get(name) for name in expected} == expected
