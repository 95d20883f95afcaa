"""``dovetail cloud``: each command reaches the emulator, and a mistake tells the next step."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.cloud.command import cloud
from cli.cloud.faults import PRESETS
from cli.main import commands
from shared.errors import DovetailError
from tests.support.aws.emulator import spot_instance, whole_ec2

SUBCOMMANDS = [one.callback.__name__ for one in cloud.registered_commands if one.callback]
Run = Callable[..., str]


@pytest.fixture
def command(aws_emulator_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``command("ice", "m5.large")`` gives what it prints; raises what the command raises."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws_emulator_url)
    monkeypatch.setenv("DOVETAIL_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*words: str) -> str:
        done = CliRunner().invoke(commands, ["cloud", *words], catch_exceptions=True)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    return invoke


@pytest.fixture
def run(command: Run) -> Run:
    """The same against a fresh emulator."""
    command("reset", "--everything")
    return command


@pytest.fixture
def state(aws_emulator_url: str) -> Callable[[str], Any]:
    """What the emulator says it was told."""

    def read(path: str) -> Any:
        with urllib.request.urlopen(f"{aws_emulator_url}/_dovetail/{path}", timeout=60) as answer:
            return json.loads(answer.read())

    return read


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_of_every_command_has_examples_of_itself(name: str) -> None:
    done = CliRunner().invoke(commands, ["cloud", name, "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "Examples:" in done.output
    assert f"dovetail cloud {name}" in done.output


def test_the_group_lists_its_commands() -> None:
    done = CliRunner().invoke(commands, ["cloud", "--help"])
    assert [name for name in SUBCOMMANDS if name not in done.output] == []


def test_ice_empties_a_pool_and_capacity_gives_it_back(
    run: Run, state: Callable[[str], Any]
) -> None:
    run("ice", "m5.large", "us-west-2a", "spot")
    run("ice", "*", "us-west-2b", "--all-but", "10", "--seed", "7")
    run("capacity", "c5.*", "*", "on-demand", "3")
    rows = [
        (row["instanceType"], row["zone"], row["available"], row["percent"])
        for row in state("capacity")["statements"]
    ]
    assert rows == [
        ("m5.large", "us-west-2a", 0, 100),
        ("*", "us-west-2b", 0, 90),
        ("c5.*", "*", 3, 100),
    ]
    assert "us-west-2b" in run("capacity")
    run("capacity", "m5.large", "us-west-2a", "spot", "unlimited")
    assert state("capacity")["statements"][-1]["available"] is None
    run("reset")
    assert "unlimited" in run("capacity")


def test_fleets_quotas_subnets_and_reservations_are_set(
    run: Run, state: Callable[[str], Any]
) -> None:
    run("fleet", "1", "--count", "2")
    run("quota", "--spot", "8")
    assert "subnet-" in run("subnet", "us-west-2a", "0")
    assert run("reserve", "m5.large", "us-west-2a", "2", "--tag", "team=red").startswith("cr-")
    told = state("capacity")
    assert (told["cuts"][0]["give"], told["quotas"]["spotVcpus"]) == (1, 8)
    run("quota")
    assert state("capacity")["quotas"] == {"onDemandVcpus": None, "spotVcpus": None}


async def test_a_reservation_is_of_the_kind_that_was_said(run: Run, aws_emulator_url: str) -> None:
    """As EC2 describes it."""
    words = ("m5.large", "us-west-2a", "1")
    bought = {
        run("reserve", *words).strip(): ("default", False),
        run("reserve", *words, "--kind", "capacity-block").strip(): ("capacity-block", False),
        run("reserve", *words, "--interruptible").strip(): ("default", True),
    }
    async with whole_ec2(aws_emulator_url) as ec2:
        rows = (await ec2.describe_capacity_reservations())["CapacityReservations"]
    told = {r["CapacityReservationId"]: (r["ReservationType"], r["Interruptible"]) for r in rows}
    assert told == bought


def test_throttle_says_how_much(run: Run, state: Callable[[str], Any]) -> None:
    run("throttle", "Describe*", "--rate", "2", "--burst", "5", "--seconds", "60")
    (row,) = state("faults")["faults"]
    assert (row["action"], row["code"]) == ("Describe*", "RequestLimitExceeded")
    assert (row["callsPerSecond"], row["callsLeft"]) == (2, None)


@pytest.mark.slow
def test_every_failure_by_name_is_taken_by_the_emulator(
    run: Run, state: Callable[[str], Any]
) -> None:
    for name in PRESETS:
        run("fault", name, "--calls", "2")
    waiting = state("faults")["faults"]
    assert len(waiting) == sum(preset.path == "faults" for preset in PRESETS.values())
    assert {row["callsLeft"] for row in waiting} == {2}
    shown = run("fault")
    assert [name for name in PRESETS if name not in shown] == []


def test_lag_sets_seconds_and_seed(run: Run, state: Callable[[str], Any]) -> None:
    run("lag", "90", "--seed", "1")
    assert state("settings")["describeLagSeconds"] == 90
    assert state("settings")["describeLagSeed"] == 1
    run("lag", "5")
    assert state("settings")["describeLagSeed"] is None


def test_a_zone_is_shifted_away_from_until_the_end(run: Run, aws_emulator_url: str) -> None:
    """GAT-03: zonal shift."""

    def shifted() -> list[str]:
        with urllib.request.urlopen(f"{aws_emulator_url}/managedresources/x", timeout=60) as answer:
            return [one["awayFrom"] for one in json.loads(answer.read())["zonalShifts"]]

    assert "shifted away from us-west-2a" in run("shift", "us-west-2a")
    run("shift", "us-west-2b")
    assert shifted() == ["usw2-az1", "usw2-az2"]
    assert "no longer" in run("shift", "us-west-2a", "--end")
    assert shifted() == ["usw2-az1"]
    run("reset")
    assert shifted() == []


def test_views_of_an_idle_cloud_are_empty(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(run("instances", "--json")) == []
    assert json.loads(run("calls", "--json")) == []
    monkeypatch.setenv("FORCE_COLOR", "1")  # as CI systems do
    assert json.loads(run("calls", "--trail", "--json")) == []
    for view in ("instances", "calls", "bill"):
        assert json.loads(run(view, "-o", "json")) == json.loads(run(view, "--json"))
    monkeypatch.delenv("FORCE_COLOR")
    assert "CLIENT TOKEN" in run("calls")
    assert json.loads(run("bill", "--from", "1h", "--json"))["dollars"] == 0
    assert run("bill").splitlines()[-1] == "$0.000000 for 0.000 hours"


async def test_an_instance_is_a_row_of_its_zone(run: Run, aws_emulator_url: str) -> None:
    async with whole_ec2(aws_emulator_url) as ec2:
        instance = await spot_instance(ec2, "dovetail-local")
    (row,) = [line for line in run("instances").splitlines() if instance in line]
    assert row.split()[1] == "m5.large"
    assert row.split()[3] == "spot"
    assert instance not in run("instances", "--zone", "mars")


def test_a_foreign_instance_and_a_broken_message_are_announced(run: Run) -> None:
    told = run("interrupt", "rebalance", "i-0123456789abcdef0", "--foreign")
    assert "i-0123456789abcdef0" in told
    assert "not-json" in run("interrupt", "malformed")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ice", "m5.larg"], "such as m5.large"),
        (["ice", "*", "mars"], "use a zone such as us-west-2a"),
        (["ice", "--percent", "10", "--all-but", "10"], "not both"),
        (["ice", "--all-but", "100"], "above 0"),
        (["ice", "--code", "NoSuchCode"], "InsufficientInstanceCapacity"),
        (["capacity", "m5.large", "*", "*", "many"], "unlimited"),
        (["throttle"], "--calls 5"),
        (["fault", "earthquake"], "lost-answer"),
        (["fault", "custom", "--status", "200"], "400 to 599"),
        (["lag", "900"], "600"),
        (["interrupt", "spot"], "--zone"),
        (["interrupt", "spot", "i-1", "--all"], "not both"),
        (["interrupt", "malformed", "--message", "nice"], "not-json"),
        (["status", "i-1"], "unknown instance i-1"),
        (["reserve", "m5.large", "us-*", "1"], "without wildcards"),
        (["reserve", "m5.large", "us-west-2a", "1", "--tag", "red"], "KEY=VALUE"),
        (["subnet", "us-west-2q", "1"], "DescribeSubnets"),
        (["shift", "us-west-2q"], "use a zone such as us-west-2a"),
    ],
)
def test_a_mistake_names_the_fix(command: Run, words: list[str], told: str) -> None:
    with pytest.raises(DovetailError) as refused:
        command(*words)
    assert told in refused.value.message


def test_an_interruption_of_all_needs_one_that_lives(run: Run) -> None:
    """On a fresh emulator: that of the worker may have instances of other tests."""
    with pytest.raises(DovetailError, match="no live instance"):
        run("interrupt", "spot", "--all")


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "dovetail up --detach"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "dovetail up --detach"),
        ({"AWS_ENDPOINT_URL": "nonsense"}, "dovetail up --detach"),
    ],
)
def test_without_a_stack_the_next_step_is_told(
    variables: dict[str, str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(commands, ["cloud", "instances", "--directory", str(tmp_path)])
    assert isinstance(done.exception, DovetailError)
    assert told in done.exception.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("lag -- -1", "SECONDS"),
        ("lag nan", "SECONDS: nan is not a finite number"),
        ("interrupt spot --all --notice -5", "--notice"),
        ("interrupt spot --all --notice inf", "--notice: inf is not a finite number"),
        ("interrupt spot --all --percent 0", "--percent"),
        (
            "interrupt spot i-0 ",
            "unknown instance i-0; use an id of `dovetail cloud instances`, or use --foreign",
        ),
        ("interrupt asg i-0 --foreign --heartbeat-timeout 0", "--heartbeat-timeout"),
        ("interrupt spot --all --copies 0", "--copies"),
        ("interrupt malformed --copies 0", "--copies"),
        ("throttle --rate -1", "--rate"),
        ("throttle --calls 0", "--calls"),
        ("throttle --seconds nan", "--seconds: nan is not a finite number"),
        ("fault timeout CreateFleet --delay 1000", "--delay"),
        ("fault server-error --status 200", "--status"),
        ("fault server-error --percent 0", "--percent"),
        ("quota --spot -1", "--spot"),
        ("quota --on-demand -1", "--on-demand"),
        ("fleet -- -1", "GIVE"),
        ("fleet 1 --count 0", "--count"),
        ("subnet us-west-2a -- -1", "FREE"),
        ("reserve m5.large us-west-2a 0", "COUNT"),
        ("reserve m5.large us-west-2a 1 --ends-in 0", "--ends-in"),
        ("status --all --since -1", "--since"),
        ("shift nowhere", "nowhere is no zone"),
    ],
)
def test_a_refused_value_is_named_by_its_option(run: Run, words: str, named: str) -> None:
    """And never by the field of the request."""
    with pytest.raises(DovetailError) as refused:
        run(*words.split())
    assert named in refused.value.message
    assert not re.search(r"[a-z][A-Z]|GET /|where\.", refused.value.message), refused.value.message
