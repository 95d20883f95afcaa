"""Fills every cache that outlives a run, before runs are forked: a restarted service must not read files again.

The servers are started once on a loop of their own, and asked whatever services ask when they start.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

import orjson
import yaml
from botocore import auth, awsrequest, parsers, useragent
from botocore.hooks import EventAliaser
from moto.sqs.models import Queue

from local.aws.fleet.markets import known_types
from local.cluster.kubeconfig import write_kubeconfig
from shared.cloud.catalogue.building import load_catalogue
from shared.cloud.catalogue.instance_model import ModelSettings
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.types import Catalogue
from shared.kube.client import Kube
from shared.kube.resources import NODES
from shared.log import configure
from simulation.loop import SimulatedLoop, run
from simulation.network.connections import Network
from simulation.owner import CURRENT, Owner
from simulation.servers import moto_time
from simulation.servers.aws import AwsServer
from simulation.servers.catalogue import TYPES
from simulation.servers.cluster import ClusterServer
from simulation.settings import API, AWS, CLUSTER, REGION, RunSettings

IMAGE_PARAMETER = (
    "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
)


def warm_up() -> None:
    """Leaves moto without a server, and the process without a loop. Writes no log."""
    configure("critical")
    known_types()  # reads the whole model of EC2
    add_message = Queue.add_message
    loop = SimulatedLoop(Random(0), Network(Random(0)))
    run(loop, _ask_all(loop))
    Queue.add_message = add_message
    moto_time.install(SystemClock())


def skip_certificates() -> None:
    """Let TLS contexts be made without reading the system's certificates, 50 ms each: nothing here uses TLS."""
    for name in ("load_verify_locations", "load_default_certs", "set_default_verify_paths"):
        setattr(ssl.SSLContext, name, lambda *_, **__: None)


def skip_signatures() -> None:
    """Let botocore send every request with the same signature: nothing here reads it, and three hashes of each request
    and four of its key are a fiftieth of a run."""
    for name in ("canonical_request", "string_to_sign", "signature"):
        setattr(auth.SigV4Auth, name, lambda *_: "0")


def remember_pure_functions() -> None:
    """Functions of libraries whose result depends only on their arguments, and which each request calls again."""
    useragent.sanitize_user_agent_string_component = lru_cache(maxsize=1024)(
        useragent.sanitize_user_agent_string_component
    )
    # A list of instances names the same few times again and again.
    parsers.DEFAULT_TIMESTAMP_PARSER = lru_cache(maxsize=4096)(parsers.DEFAULT_TIMESTAMP_PARSER)
    # Each session has a table of its own, with the same aliases.
    aliased = lru_cache(maxsize=4096)(partial(EventAliaser._alias_event_name, EventAliaser(None)))
    EventAliaser._alias_event_name = lambda _, event_name: aliased(event_name)
    # The body of a request is encoded once to be signed, and again to be sent.
    encoded = lru_cache(maxsize=16)(urlencode)
    awsrequest.urlencode = lambda query, doseq: encoded(tuple(query), doseq)
    remembered: Any = remembered_dump(yaml.safe_dump)
    yaml.safe_dump = remembered


def remembered_dump(dump: Callable[..., str]) -> Callable[..., str]:
    """Machines of one pool boot with the same text, and PyYAML takes milliseconds to write it."""

    @lru_cache(maxsize=256)
    def of_json(value: bytes, sort_keys: bool) -> str:
        return dump(orjson.loads(value), sort_keys=sort_keys)

    def remembered(value: object, stream: object = None, **options: object) -> str:
        if stream is not None or options.keys() != {"sort_keys"}:
            return dump(value, stream, **options)
        return of_json(orjson.dumps(value), bool(options["sort_keys"]))

    return remembered


async def _ask_all(loop: SimulatedLoop) -> None:
    settings, clock = RunSettings(seed=0), SystemClock()
    aws = AwsServer(settings, clock, loop, Random(0))
    cluster = ClusterServer(settings, clock, loop, Random(0), aws)
    for name, server, address in (("aws", aws, AWS), ("api", cluster, API)):
        CURRENT.set(Owner(name))
        await loop.create_server(server.connection, *address)
    CURRENT.set(Owner("warming"))
    await _ask_aws()
    await _ask_cluster()


async def _ask_aws() -> None:
    cloud = await Cloud.connect(
        region=REGION,
        endpoint_url=f"http://{AWS[0]}:{AWS[1]}",
        clock=SystemClock(),
        random=Random(0),
        user_agent="warming",
        access_key=("local", "local"),
    )
    try:
        built, _ = await load_catalogue(cloud, ModelSettings())
        _require_few(built.catalogue)
        await asyncio.gather(
            cloud.eks.cluster(CLUSTER),
            cloud.iam.instance_profiles("/"),
            cloud.ssm.parameter(IMAGE_PARAMETER),
            cloud.sqs.queue_url(CLUSTER),
            cloud.launch_templates.tagged({"a": "b"}),
            cloud.ec2.create_fleet({"Type": "instant", "DryRun": True, **_FLEET}),
            cloud.autoscaling.may_read_tags(),
            cloud.zonal_shift.shifted_zones("arn:aws:eks:us-west-2:123456789012:cluster/none"),
            return_exceptions=True,
        )
    finally:
        await cloud.close()


def _require_few(catalogue: Catalogue) -> None:
    """Every start of a launcher reads the whole catalogue: moto's 900 types would take most of a run."""
    others = {one.name for one in catalogue.types} - TYPES
    if others:
        raise RuntimeError(
            f"the simulated region offers {len(others)} types outside TYPES, such as {min(others)}"
        )


async def _ask_cluster() -> None:
    with tempfile.TemporaryDirectory(prefix="dovetail-warming-") as directory:
        path = Path(directory) / "admin"
        write_kubeconfig(path, f"http://{API[0]}:{API[1]}")
        kube = await Kube.connect(
            str(path), clock=SystemClock(), random=Random(0), user_agent="warming"
        )
        await kube.list(NODES)
        await kube.close()


_FLEET = {
    "LaunchTemplateConfigs": [
        {"LaunchTemplateSpecification": {"LaunchTemplateName": "none", "Version": "$Latest"}}
    ],
    "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
}
"""A fleet that is refused, after its request was parsed."""
