"""The plan of a local stack: order, environment, ports."""

import random
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from local.aws.iam.policies import policies_of, service_of
from local.stack_plan import (
    SERVICES,
    StackSettings,
    choose_ports,
    clean_environment,
    free_ports,
    plan_stack,
)
from shared.errors import ConfigurationError
from shared.settings.own import own_access_key, own_values

SETTINGS = StackSettings(directory=Path("/srv/stack"))
PORTS = list(range(21_000, 21_008))


def test_parts_start_in_the_order_of_their_needs() -> None:
    waves = [[part.name for part in wave] for wave in plan_stack(SETTINGS, PORTS, {}).waves]
    assert waves == [["redis", "aws"], ["cluster"], list(SERVICES)]


def test_the_environment_has_every_address() -> None:
    environment = plan_stack(SETTINGS, PORTS, {}).environment
    assert environment["KUBECONFIG"] == "/srv/stack/kubeconfig"
    assert environment["REDIS_URL"] == "redis://127.0.0.1:21000/0"
    assert environment["DOVETAIL_WATCHER_URL"] == "http://127.0.0.1:21003"
    assert environment["DOVETAIL_INTERRUPTION_URL"] == "http://127.0.0.1:21007"


def test_kubeconfigs_name_a_proxy_if_there_is_one() -> None:
    def advertised(settings: StackSettings) -> str:
        (cluster,) = plan_stack(settings, PORTS, {}).waves[1]
        return cluster.environment["CLUSTER_ADVERTISE_URL"]

    assert advertised(SETTINGS) == ""
    assert advertised(replace(SETTINGS, cluster_url="http://127.0.0.1:4")) == "http://127.0.0.1:4"


def test_services_and_users_know_the_mirror_by_the_same_key() -> None:
    """A user who starts a service of the stack manually needs it too."""
    keyed = plan_stack(replace(SETTINGS, mirror_key="k" * 16), PORTS, {})
    keys = {part.environment.get("MIRROR_KEY") for part in keyed.waves[-1]}
    assert keys == {keyed.environment["MIRROR_KEY"]} == {"k" * 16}


def test_each_service_comes_to_redis_as_itself_with_the_rights_that_it_has_in_a_cluster() -> None:
    (redis, _), _, services = plan_stack(SETTINGS, PORTS, {}).waves
    for part in services:
        address = f"redis://{part.name}:local@127.0.0.1:21000/0"
        assert part.environment["REDIS_URL"] == address
        assert redis.command[redis.command.index(part.name) - 1] == "--user"


def test_one_process_serves_all_services_below_one_port() -> None:
    plan = plan_stack(replace(SETTINGS, one_process=True), PORTS[:4], {})
    (part,) = plan.waves[-1]
    assert part.command[-1] == "services"
    assert plan.environment["DOVETAIL_LAUNCHER_URL"] == "http://127.0.0.1:21003/launcher"
    assert part.probes[0] == "http://127.0.0.1:21003/watcher/readyz"


def test_without_services_only_their_surroundings_run() -> None:
    plan = plan_stack(replace(SETTINGS, services=()), PORTS[:3], {})
    assert [part.name for wave in plan.waves for part in wave] == ["redis", "aws", "cluster"]


def test_nothing_of_the_caller_s_accounts_and_clusters_reaches_a_part() -> None:
    inherited = {"AWS_PROFILE": "production", "KUBECONFIG": "/root/.kube/config", "HOME": "/root"}
    environment = clean_environment(inherited)
    assert environment["HOME"] == "/root"
    assert "AWS_PROFILE" not in environment
    assert "KUBECONFIG" not in environment
    assert environment["AWS_EC2_METADATA_DISABLED"] == "true"


@pytest.mark.parametrize("from_shell", [True, False])
def test_services_that_share_the_election_of_karpenter_have_the_right_to_its_lease(
    from_shell: bool,
) -> None:
    lease = {"KARPENTER_LEASE": "kube-system/karpenter-leader-election"}
    settings = StackSettings(Path("/s"), extra={} if from_shell else lease)
    plan = plan_stack(settings, PORTS, lease if from_shell else {})
    (cluster,) = (part for wave in plan.waves for part in wave if part.name == "cluster")
    assert cluster.environment["FURTHER_RIGHTS_DIRECTORY"].endswith("deploy/beside-karpenter")


def test_settings_survive_the_way_to_the_supervisor() -> None:
    assert StackSettings.from_json(SETTINGS.to_json()) == SETTINGS


@pytest.mark.parametrize("name", ["", "a b", "ä", "-a", "a.b", "a" * 81, "a\n"])
def test_a_name_that_no_cluster_can_have_is_refused_before_anything_starts(name: str) -> None:
    with pytest.raises(ConfigurationError, match="invalid cluster name"):
        replace(SETTINGS, cluster_name=name)


def test_free_ports_are_different_and_below_those_of_outgoing_connections() -> None:
    ports = free_ports(8, random.Random(1))
    assert len(set(ports)) == 8
    assert max(ports) < 32_000


def test_a_port_base_that_is_taken_is_refused_with_the_port() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=str(taken)):
            choose_ports(replace(SETTINGS, port_base=taken), random.Random(1))


@pytest.mark.parametrize("port_base", [0, 80, 65_530])
def test_a_port_base_out_of_range_is_refused(port_base: int) -> None:
    with pytest.raises(ConfigurationError, match="--port-base"):
        choose_ports(replace(SETTINGS, port_base=port_base), random.Random(1))


def test_each_service_signs_with_a_key_of_its_own_and_people_with_another() -> None:
    """The emulator holds each to its role."""
    plan = plan_stack(SETTINGS, PORTS, {})
    keys = {part.name: part.environment["AWS_ACCESS_KEY_ID"] for part in plan.waves[-1]}
    assert {service_of(key) for key in keys.values()} == {*SERVICES}
    assert service_of(plan.environment["AWS_ACCESS_KEY_ID"]) is None


def test_a_service_that_calls_nothing_of_aws_has_no_policies() -> None:
    assert policies_of("scheduler") == ()


def test_services_in_one_process_are_who_they_are_in_their_own() -> None:
    """Redis user, key in AWS and ServiceAccount come under variables with the name; none is there for all."""
    apart = {part.name: part.environment for part in plan_stack(SETTINGS, PORTS, {}).waves[-1]}
    (part,) = plan_stack(replace(SETTINGS, one_process=True), PORTS[:4], {}).waves[-1]
    together = part.environment
    for service in SERVICES:
        own = own_values(service, together)
        assert own == {
            field: apart[service][field.upper()] for field in ("kubeconfig", "redis_url")
        }
        key = apart[service]["AWS_ACCESS_KEY_ID"], apart[service]["AWS_SECRET_ACCESS_KEY"]
        assert own_access_key(service, together) == key
    for name in ("KUBECONFIG", "REDIS_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert name not in together
