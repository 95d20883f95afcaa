"""Resources that exist at start: network, security group, profile, queue, rules, images, EKS cluster."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from moto.eks.models import eks_backends
from moto.events.models import events_backends
from moto.sqs.models import sqs_backends

from local.aws.ec2.images import (
    KUBERNETES_VERSIONS,
    PublishedImage,
    image_for,
    published_parameters,
)
from local.aws.emulator import Emulator
from local.aws.moto.patches import publish_image
from local.aws.moto.state import ACCOUNT_ID
from shared.cloud.event_rules import EVENT_RULES

VPC_CIDR = "192.168.0.0/16"
SUBNET_CIDRS = {"a": "192.168.0.0/19", "b": "192.168.32.0/19", "c": "192.168.64.0/19"}
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "ec2.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)


def seed(emulator: Emulator) -> None:
    """Create everything in the emulator's region, named after its cluster."""
    subnet_ids, group_id = _network(emulator)
    _profile(emulator)
    _queue(emulator)
    _images(emulator)
    _cluster(emulator, subnet_ids, group_id)


def _network(emulator: Emulator) -> tuple[list[str], str]:
    region, cluster = emulator.settings.region, emulator.settings.cluster_name
    backend = emulator.ec2(region)
    discovery = {"karpenter.sh/discovery": cluster, f"kubernetes.io/cluster/{cluster}": "shared"}
    vpc = backend.create_vpc(VPC_CIDR)
    backend.create_tags([vpc.id], {**discovery, "Name": f"{cluster}/VPC"})
    subnet_ids = []
    for suffix, cidr in SUBNET_CIDRS.items():
        zone = f"{region}{suffix}"
        subnet = backend.create_subnet(vpc.id, cidr, availability_zone=zone)
        name = {"Name": f"{cluster}/SubnetPrivate{zone}", "kubernetes.io/role/internal-elb": "1"}
        backend.create_tags([subnet.id], {**discovery, **name})
        subnet_ids.append(str(subnet.id))
    group = backend.create_security_group(f"{cluster}-node", "Nodes of the cluster", vpc.id)
    backend.create_tags([group.id], {**discovery, "Name": f"{cluster}/NodeSecurityGroup"})
    return subnet_ids, str(group.id)


def _profile(emulator: Emulator) -> None:
    cluster = emulator.settings.cluster_name
    iam = emulator.iam()
    role = f"KarpenterNodeRole-{cluster}"
    iam.create_role(role, TRUST, "/", None, "", [], None)
    profile = f"KarpenterNodeInstanceProfile-{cluster}"
    iam.create_instance_profile(profile, "/", [])
    iam.add_role_to_instance_profile(profile, role)
    iam.create_role(f"{cluster}-cluster", TRUST, "/", None, "", [], None)


def _queue(emulator: Emulator) -> None:
    region, cluster = emulator.settings.region, emulator.settings.cluster_name
    arn = f"arn:aws:sqs:{region}:{ACCOUNT_ID}:{cluster}"
    queue = sqs_backends[ACCOUNT_ID][region].create_queue(
        cluster,
        MessageRetentionPeriod="300",
        SqsManagedSseEnabled="true",
        Policy=json.dumps(_queue_policy(arn)),
    )
    events = events_backends[ACCOUNT_ID][region]
    for suffix, source, detail_type in EVENT_RULES:
        name = f"{cluster}-{suffix}"
        pattern: dict[str, Any] = {"source": [source], "detail-type": [detail_type]}
        events.put_rule(name, event_pattern=json.dumps(pattern), state="ENABLED")
        target = {"Id": "KarpenterInterruptionQueueTarget", "Arn": queue.queue_arn}
        events.put_targets(name, None, [target])


def _queue_policy(arn: str) -> dict[str, Any]:
    """The queue policy: the permitted senders, over TLS only (INT-02)."""
    services = ["events.amazonaws.com", "sqs.amazonaws.com"]
    allow = {"Effect": "Allow", "Principal": {"Service": services}, "Action": "sqs:SendMessage"}
    deny = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return {
        "Version": "2012-10-17",
        "Statement": [{**statement, "Resource": arn} for statement in (allow, deny)],
    }


def _images(emulator: Emulator) -> None:
    for image in _published_images():
        publish_image(emulator.settings.region, image)


@cache
def _published_images() -> list[PublishedImage]:
    parameters = [name for version in KUBERNETES_VERSIONS for name in published_parameters(version)]
    return [image for name in parameters if (image := image_for(name)) is not None]


def _cluster(emulator: Emulator, subnet_ids: list[str], group_id: str) -> None:
    settings = emulator.settings
    eks_backends[ACCOUNT_ID][settings.region].create_cluster(
        name=settings.cluster_name,
        role_arn=f"arn:aws:iam::{ACCOUNT_ID}:role/{settings.cluster_name}-cluster",
        resources_vpc_config={"subnetIds": subnet_ids, "securityGroupIds": [group_id]},
        version=settings.kubernetes_version,
        kubernetes_network_config={"serviceIpv4Cidr": "10.100.0.0/16", "ipFamily": "ipv4"},
    )
