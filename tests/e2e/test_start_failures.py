"""A service that cannot start says in one line on stderr what is wrong and which variable to look at."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from local.stack import Stack
from local.stack_plan import PROJECT, SERVICES, clean_environment

pytestmark = pytest.mark.e2e
ON_AWS = ("launcher", "terminator", "interruption")


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


def start(service: str, variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"services.{service}"],
        env=variables,
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def complaints(variables: dict[str, str], services: tuple[str, ...]) -> dict[str, str]:
    """Start the services side by side; the only line of each on stderr. All end with code 1."""
    running = {name: start(name, variables) for name in services}
    said = {}
    try:
        for name, process in running.items():
            _, stderr = process.communicate(timeout=40)
            assert process.returncode == 1, (name, stderr)
            (said[name],) = stderr.splitlines()
    finally:
        for process in running.values():
            process.kill()
    return said


def test_without_redis_every_service_names_the_address_and_the_variable(
    shared_stack: Stack, closed_port: int
) -> None:
    url = f"redis://127.0.0.1:{closed_port}/0"
    for service, line in complaints(environment(shared_stack, REDIS_URL=url), SERVICES).items():
        assert f"dovetail {service}: cannot reach Redis at {url}" in line
        assert "Check REDIS_URL" in line


def test_without_api_server_every_service_names_it_and_the_variable(
    shared_stack: Stack, closed_port: int, tmp_path: Path
) -> None:
    variables = environment(shared_stack)
    config = yaml.safe_load(Path(variables["KUBECONFIG"]).read_text())
    config["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{closed_port}"
    lonely = tmp_path / "kubeconfig"
    lonely.write_text(yaml.safe_dump(config))
    for line in complaints(variables | {"KUBECONFIG": str(lonely)}, SERVICES).values():
        assert "cannot reach the Kubernetes API server" in line
        assert str(closed_port) in line
        assert "Check KUBECONFIG" in line


def test_without_aws_every_service_that_calls_it_names_endpoint_and_variable(
    shared_stack: Stack, closed_port: int
) -> None:
    url = f"http://127.0.0.1:{closed_port}"
    for line in complaints(environment(shared_stack, AWS_ENDPOINT_URL=url), ON_AWS).values():
        assert f"cannot reach AWS at {url}" in line
        assert "Check AWS_ENDPOINT_URL" in line


def test_without_cluster_name_every_service_names_the_variable(shared_stack: Stack) -> None:
    variables = environment(shared_stack)
    del variables["CLUSTER_NAME"]
    for line in complaints(variables, SERVICES).values():
        assert "CLUSTER_NAME" in line
        assert "--help" in line
