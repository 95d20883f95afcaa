"""docker-compose.yml says the same as the stack of `dovetail up`, and its files for users name its ports."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_settings import BaseSettings

from cli.stack.environment import from_variables
from local.aws.settings import EmulatorSettings
from local.cluster.settings import ClusterSettings
from local.stack_plan import CONSOLE, SERVICES, StackSettings, plan_stack
from shared import settings
from tests.support.texts.documents import documents

PROJECT = Path(__file__).resolve().parents[2]
(COMPOSE,) = documents(PROJECT / "docker-compose.yml")
PARTS: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(PARTS.keys() - {"redis"})
RUNNING = sorted(PARTS.keys() - {"dovetail"})
PLAN = plan_stack(
    StackSettings(directory=Path("/srv/stack"), console=True), list(range(21_000, 21_009)), {}
)
PLANNED = {part.name: part for wave in PLAN.waves for part in wave}
BOTOCORE = {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
PORT_VARIABLES = ("STATUS_PORT", "CLUSTER_PORT", "AWS_EMULATOR_PORT")
SETTINGS: dict[str, type[BaseSettings]] = {
    "aws": EmulatorSettings,
    "cluster": ClusterSettings,
    **{name: getattr(settings, f"{name.title()}Settings") for name in (*SERVICES, CONSOLE)},
}


def environment(part: str) -> dict[str, str]:
    """As compose passes it on to a user who has set none of its variables."""
    stated = PARTS[part].get("environment", {})
    return {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value) for name, value in stated.items()}


def names_of(model: type[BaseSettings]) -> set[str]:
    fields = model.model_fields.items()
    return {str(field.validation_alias or name).upper() for name, field in fields}


def published(part: str) -> tuple[str, int, int]:
    """Address and port on this machine, port in the container."""
    ((address, outside, inside),) = [port.split(":") for port in PARTS[part]["ports"]]
    return address, int(outside), int(inside)


def test_it_runs_what_dovetail_up_runs_and_the_command_beside_it() -> None:
    assert set(RUNNING) == PLANNED.keys()
    assert PARTS["dovetail"]["profiles"] == ["tools"]


@pytest.mark.parametrize("part", sorted(SETTINGS))
def test_every_part_runs_the_same_module_as_without_containers(part: str) -> None:
    python, *arguments = PARTS[part]["command"]
    assert python == "python"
    assert arguments == PLANNED[part].command[1:]
    assert find_spec(arguments[-1]) is not None


@pytest.mark.parametrize("part", sorted(SETTINGS))
def test_every_variable_is_a_setting_of_its_part(part: str) -> None:
    """The five services share one environment: a variable of one is no fault for another."""
    readers = SERVICES if part in SERVICES else (part,)
    known = {name for one in readers for name in names_of(SETTINGS[one])}
    assert environment(part).keys() <= known | BOTOCORE


@pytest.mark.parametrize("part", sorted(SETTINGS))
def test_every_value_is_accepted(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(part).items():
        monkeypatch.setenv(name, value)
    SETTINGS[part]()


@pytest.mark.parametrize("part", sorted(SETTINGS))
def test_what_both_stacks_are_told_is_the_same_but_for_addresses(part: str) -> None:
    """A variable that one of them lacks, or has with another value, is a difference that nobody meant."""
    # The page is open on loopback; in a container the published port is what is on loopback.
    address = re.compile(r"HOST|PORT|URL|KUBECONFIG|_DIRECTORY|RECORD_STORE|CONSOLE_ACCESS")
    own = names_of(SETTINGS[part]) | BOTOCORE
    planned = {k: v for k, v in PLANNED[part].environment.items() if k in own}
    assert numbers(planned, address) == numbers(
        {k: v for k, v in environment(part).items() if k in own}, address
    )


@pytest.mark.parametrize("part", [*SERVICES, CONSOLE])
def test_every_service_has_the_kubeconfig_of_its_own_account(part: str) -> None:
    folder = environment("cluster")["ACCOUNT_KUBECONFIGS"]
    assert environment(part)["KUBECONFIG"] == f"{folder}/dovetail/dovetail-{part}"
    assert PLANNED[part].environment["KUBECONFIG"].endswith(f"/accounts/dovetail/dovetail-{part}")


def numbers(variables: dict[str, str], without: re.Pattern[str]) -> dict[str, str | float]:
    kept = {name: value for name, value in variables.items() if not without.search(name)}
    return {n: float(v) if re.fullmatch(r"[\d.]+", v) else v for n, v in kept.items()}


@pytest.mark.parametrize("part", RUNNING)
def test_its_port_is_on_this_machine_alone_and_where_the_part_listens(part: str) -> None:
    address, _, inside = published(part)
    variables = environment(part)
    ports = [variables[name] for name in PORT_VARIABLES if name in variables]
    assert address == "127.0.0.1"
    assert [str(inside)] == (ports or ["6379"])


def test_no_two_parts_publish_one_port() -> None:
    outside = [published(part)[1] for part in RUNNING]
    assert len(outside) == len({*outside})


@pytest.mark.parametrize("part", sorted(SETTINGS))
def test_healthy_means_ready(part: str) -> None:
    """`up --wait` returns when pods can be served: the check asks what `dovetail up` asks."""
    probe = next(one for one in PLANNED[part].probes if one.startswith("http"))
    path, port = f"/{probe.split('/', 3)[3]}", str(published(part)[2])
    command = ["CMD", "python", "-IS", "/opt/probe.py", path, port]
    assert PARTS[part]["healthcheck"]["test"] == command


@pytest.mark.parametrize("part", RUNNING)
def test_no_argument_of_a_health_check_has_a_blank(part: str) -> None:
    """Podman splits it there when compose starts a container, and the check fails for ever."""
    assert [one for one in PARTS[part]["healthcheck"]["test"] if " " in one] == []


@pytest.mark.parametrize("part", sorted(PARTS))
def test_every_container_is_closed_bounded_and_comes_back(part: str) -> None:
    """docs/operating/security.md: what a container may do."""
    stated = PARTS[part]
    assert stated["user"] == "65532:65532"
    assert stated["read_only"] is True
    assert stated["cap_drop"] == ["ALL"]
    assert stated["security_opt"] == ["no-new-privileges:true"]
    assert stated["logging"]["options"].keys() == {"max-size", "max-file"}
    assert stated["restart"] == ("no" if part == "dovetail" else "unless-stopped")


@pytest.mark.parametrize("part", OURS)
def test_one_service_builds_the_image_and_nobody_pulls_it(part: str) -> None:
    """Seven builds of one name race; a registry has no dovetail:local."""
    assert PARTS[part]["image"] == "dovetail:local"
    assert ("build" in PARTS[part]) == (part == "aws")
    assert PARTS["aws"]["build"]["target"] == "local"
    assert PARTS[part].get("pull_policy") == (None if part == "aws" else "never")


@pytest.mark.parametrize("part", [*SERVICES, CONSOLE])
def test_services_wait_for_what_they_need(part: str) -> None:
    healthy = {"condition": "service_healthy"}
    assert PARTS[part]["depends_on"] == dict.fromkeys(("redis", "aws", "cluster"), healthy)


def exported() -> dict[str, str]:
    """deploy/compose/env, for a shell in the project's folder that has none of its variables."""
    lines = (PROJECT / "deploy" / "compose" / "env").read_text().splitlines()
    pairs = [line.removeprefix("export ").split("=", 1) for line in lines if line[:1] != "#"]
    values = {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value) for name, value in pairs}
    return {n: v.strip('"').replace("$PWD", str(PROJECT)) for n, v in values.items()}


def test_the_env_file_names_every_variable_that_dovetail_up_tells_its_users() -> None:
    assert exported().keys() == PLAN.environment.keys()


def test_the_env_file_and_the_kubeconfig_lead_to_the_published_ports() -> None:
    found = from_variables(exported())
    kubeconfig = yaml.safe_load(Path(found.kubeconfig).read_text())
    addresses = {
        "redis": found.redis_url.removesuffix("/0"),
        "aws": found.aws_endpoint_url,
        "cluster": kubeconfig["clusters"][0]["cluster"]["server"],
        **found.services,
    }
    assert {part: f"127.0.0.1:{published(part)[1]}" for part in RUNNING} == {
        part: address.split("://")[1] for part, address in addresses.items()
    }


def test_the_command_beside_the_stack_knows_every_part_by_name() -> None:
    found = from_variables(environment("dovetail"))
    addresses = [found.redis_url.removesuffix("/0"), found.aws_endpoint_url]
    addresses += found.services.values()
    expected = [f"{one}:{published(one)[2]}" for one in ("redis", "aws", *SERVICES, CONSOLE)]
    assert [address.split("://")[1] for address in addresses] == expected
    assert environment("cluster")["KUBECONFIG_OUT"] == found.kubeconfig
    assert environment("cluster")["CLUSTER_ADVERTISE_URL"] == "http://cluster:6443"


def test_the_document_names_the_published_ports() -> None:
    text = (PROJECT / "docs" / "operating" / "containers.md").read_text()
    named = {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", text)}
    assert named == {published(part)[1] for part in ("redis", "aws", "cluster", SERVICES[0])}
    assert f"to `{published(CONSOLE)[1]}`" in text
