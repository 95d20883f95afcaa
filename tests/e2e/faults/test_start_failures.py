"""A service that cannot start says in one line on stderr what is wrong and which variable to look at."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from local.stack import Stack
from local.stack_plan import SERVICES, clean_environment
from tests.support.stories import forked_services

pytestmark = pytest.mark.e2e
ON_AWS = ("launcher", "terminator", "interruption")
PATIENCE = 60.0
Complaints = Callable[[Mapping[str, str], tuple[str, ...]], dict[str, str]]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections: bound, so that nobody else takes it, but not listening."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def environment(stack: Stack, **changes: str) -> dict[str, str]:
    return (
        clean_environment(os.environ)
        | stack.running().environment
        | {"STATUS_PORT": "0", "CONNECT_TIMEOUT": "1s", "INTERRUPTION_QUEUE": "dovetail-local"}
        | changes
    )


@pytest.fixture
def complaints(tmp_path: Path) -> Complaints:
    """What services say that are started with these variables."""
    return lambda variables, services: forked_services.complaints(
        variables, services, tmp_path, PATIENCE
    )


def test_without_redis_every_service_names_the_address_and_the_variable(
    complaints: Complaints, stack: Stack, closed_port: int
) -> None:
    url = f"redis://127.0.0.1:{closed_port}/0"
    for service, line in complaints(environment(stack, REDIS_URL=url), SERVICES).items():
        assert f"dovetail {service}: cannot reach Redis at {url}" in line
        assert "Check REDIS_URL" in line


def test_without_api_server_every_service_names_it_and_the_variable(
    complaints: Complaints, stack: Stack, closed_port: int, tmp_path: Path
) -> None:
    variables = environment(stack)
    config = yaml.safe_load(Path(variables["KUBECONFIG"]).read_text())
    config["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{closed_port}"
    lonely = tmp_path / "kubeconfig"
    lonely.write_text(yaml.safe_dump(config))
    for line in complaints(variables | {"KUBECONFIG": str(lonely)}, SERVICES).values():
        assert "cannot reach the Kubernetes API server" in line
        assert str(closed_port) in line
        assert "Check KUBECONFIG" in line


def test_without_aws_every_service_that_calls_it_names_endpoint_and_variable(
    complaints: Complaints, stack: Stack, closed_port: int
) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    for line in complaints(environment(stack, AWS_ENDPOINT_URL=url), ON_AWS).values():
        assert f"cannot reach AWS at {url}" in line
        assert "Check AWS_ENDPOINT_URL" in line


def test_without_cluster_name_every_service_names_the_variable(
    complaints: Complaints, stack: Stack
) -> None:
    variables = environment(stack)
    del variables["CLUSTER_NAME"]
    for line in complaints(variables, SERVICES).values():
        assert "CLUSTER_NAME" in line
        assert "--help" in line
