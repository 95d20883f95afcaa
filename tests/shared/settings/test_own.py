"""Services that share a process are told apart by variables with their names."""

from __future__ import annotations

import pytest

from shared.errors import ConfigurationError
from shared.settings import SchedulerSettings, read, read_early
from shared.settings.own import own_access_key, own_values


def test_a_variable_with_the_service_s_name_counts_before_the_plain_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "demo")
    monkeypatch.setenv("REDIS_URL", "redis://everybody")
    own = own_values("scheduler", {"SCHEDULER_REDIS_URL": "redis://scheduler", "REDIS_URL": "x"})
    assert own == {"redis_url": "redis://scheduler"}
    assert read_early(SchedulerSettings, **own).redis_url == "redis://scheduler"
    assert (
        read(SchedulerSettings, {"redis_url": "redis://config"}, **own).redis_url
        == own["redis_url"]
    )
    assert read_early(SchedulerSettings).redis_url == "redis://everybody"


def test_other_services_variables_and_other_settings_say_nothing() -> None:
    variables = {"LAUNCHER_REDIS_URL": "redis://launcher", "SCHEDULER_LOG_LEVEL": "debug"}
    assert own_values("scheduler", variables) == {}
    assert own_access_key("scheduler", variables) is None


def test_a_key_comes_whole_or_is_refused() -> None:
    whole = {"LAUNCHER_AWS_ACCESS_KEY_ID": "a", "LAUNCHER_AWS_SECRET_ACCESS_KEY": "b"}
    assert own_access_key("launcher", whole) == ("a", "b")
    for name in whole:
        with pytest.raises(ConfigurationError, match="LAUNCHER_AWS_ACCESS_KEY_ID and LAUNCHER_AWS"):
            own_access_key("launcher", {name: "a"})
