"""EC2 answers about instances and prices as handwritten XML: the generic serialiser takes milliseconds per instance."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from xml.sax.saxutils import escape

from local.aws.ec2.instances import STATE_CODES, Instance

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
REQUEST_ID = "00000000-0000-4000-8000-000000000000"
"""EC2's element for the request id; clients only log it."""

METADATA_FIELDS = {
    "HttpTokens": "httpTokens",
    "HttpPutResponseHopLimit": "httpPutResponseHopLimit",
    "HttpEndpoint": "httpEndpoint",
    "HttpProtocolIpv6": "httpProtocolIpv6",
    "InstanceMetadataTags": "instanceMetadataTags",
}


def describe_instances(instances: Iterable[Instance], next_token: str | None) -> str:
    """DescribeInstances; each instance is in a separate reservation."""
    body = "".join(f"<item>{_reservation([instance])}</item>" for instance in instances)
    token = f"<nextToken>{escape(next_token)}</nextToken>" if next_token else ""
    return _document("DescribeInstancesResponse", f"<reservationSet>{body}</reservationSet>{token}")


def run_instances(instances: list[Instance]) -> str:
    """RunInstances: one reservation with all its instances."""
    return _document("RunInstancesResponse", _reservation(instances))


def describe_spot_price_history(
    prices: Iterable[tuple[str, str, float]], at: float, next_token: str | None
) -> str:
    """DescribeSpotPriceHistory from (instance type, zone, USD per hour)."""
    timestamp = _timestamp(at)
    items = "".join(
        f"<item><instanceType>{name}</instanceType><productDescription>Linux/UNIX"
        f"</productDescription><spotPrice>{price:.6f}</spotPrice><timestamp>{timestamp}"
        f"</timestamp><availabilityZone>{zone}</availabilityZone></item>"
        for name, zone, price in prices
    )
    token = f"<nextToken>{escape(next_token or '')}</nextToken>"
    body = f"<spotPriceHistorySet>{items}</spotPriceHistorySet>{token}"
    return _document("DescribeSpotPriceHistoryResponse", body)


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _document(root: str, body: str) -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><{root} xmlns="{NAMESPACE}">'
        f"<requestId>{REQUEST_ID}</requestId>{body}</{root}>"
    )


def _reservation(instances: list[Instance]) -> str:
    first = instances[0]
    items = "".join(f"<item>{_instance(instance)}</item>" for instance in instances)
    return (
        f"<reservationId>{first.reservation_id}</reservationId><ownerId>{first.owner_id}</ownerId>"
        f"<groupSet/><instancesSet>{items}</instancesSet>"
    )


def _instance(instance: Instance) -> str:
    parts = (_identity(instance), _network(instance), _options(instance), _tags(instance.tags))
    return "".join(parts)


def _identity(instance: Instance) -> str:
    return (
        f"<instanceId>{instance.instance_id}</instanceId><imageId>{instance.image_id}</imageId>"
        f"<instanceState><code>{STATE_CODES[instance.state]}</code><name>{instance.state}</name>"
        f"</instanceState>{_reason(instance)}<instanceType>{instance.instance_type}</instanceType>"
        f"<launchTime>{_timestamp(instance.launched_at)}</launchTime><architecture>{instance.facts.architecture}"
        f"</architecture><placement><availabilityZone>{instance.zone}</availabilityZone>"
        f"<availabilityZoneId>{instance.zone_id}</availabilityZoneId>{_placement_group(instance)}"
        f"<tenancy>{escape(instance.tenancy)}</tenancy></placement>"
        f"<monitoring><state>{'enabled' if instance.monitoring else 'disabled'}</state></monitoring>"
        "<rootDeviceType>ebs</rootDeviceType><virtualizationType>hvm</virtualizationType>"
        "<hypervisor>nitro</hypervisor>"
    )


def _placement_group(instance: Instance) -> str:
    name, identity = instance.placement_group
    group_id = f"<groupId>{escape(identity)}</groupId>" if identity else ""
    return f"<groupName>{escape(name)}</groupName>{group_id}"


def _reason(instance: Instance) -> str:
    if instance.state_reason is None:
        return "<reason/>"
    code, message = instance.state_reason
    what = "User initiated" if code.startswith("Client.UserInitiated") else code
    at = datetime.fromtimestamp(instance.changed_at, UTC).strftime(" (%Y-%m-%d %H:%M:%S GMT)")
    return (
        f"<reason>{escape(what)}{at if instance.changed_at else ''}</reason><stateReason><code>{escape(code)}</code>"
        f"<message>{escape(message)}</message></stateReason>"
    )


def _network(instance: Instance) -> str:
    groups = "".join(
        f"<item><groupId>{group_id}</groupId><groupName>{escape(name)}</groupName></item>"
        for group_id, name in instance.security_groups
    )
    if instance.state == "terminated":
        return f"<privateDnsName/><dnsName/><groupSet>{groups}</groupSet>"
    return (
        f"<privateDnsName>{instance.private_dns_name}</privateDnsName><dnsName/>"
        f"<subnetId>{instance.subnet_id}</subnetId><vpcId>{instance.vpc_id}</vpcId>"
        f"<privateIpAddress>{instance.private_ip}</privateIpAddress><groupSet>{groups}</groupSet>"
    )


def _options(instance: Instance) -> str:
    text = f"<ebsOptimized>{str(instance.ebs_optimized).lower()}</ebsOptimized>"
    if instance.lifecycle == "spot":
        text += "<instanceLifecycle>spot</instanceLifecycle>"
    if instance.client_token:
        text += f"<clientToken>{escape(instance.client_token)}</clientToken>"
    if instance.capacity_reservation_id:
        identity = escape(instance.capacity_reservation_id)
        text += f"<capacityReservationId>{identity}</capacityReservationId>"
    if instance.key_name:
        text += f"<keyName>{escape(instance.key_name)}</keyName>"
    if instance.instance_profile:
        arn, profile_id = instance.instance_profile
        text += f"<iamInstanceProfile><arn>{arn}</arn><id>{profile_id}</id></iamInstanceProfile>"
    return text + _metadata(instance) + _block_devices(instance)


def _metadata(instance: Instance) -> str:
    fields = "".join(
        f"<{METADATA_FIELDS[key]}>{escape(value)}</{METADATA_FIELDS[key]}>"
        for key, value in instance.metadata_options.items()
        if key in METADATA_FIELDS
    )
    return f"<metadataOptions><state>applied</state>{fields}</metadataOptions>" if fields else ""


def _block_devices(instance: Instance) -> str:
    if instance.state == "terminated":
        return "<blockDeviceMapping/>"
    items = "".join(
        f"<item><deviceName>{escape(device)}</deviceName><ebs><volumeId>{volume_id}</volumeId>"
        "<status>attached</status><deleteOnTermination>true</deleteOnTermination></ebs></item>"
        for device, volume_id in instance.volumes
    )
    root = f"<rootDeviceName>{escape(instance.volumes[0][0])}</rootDeviceName>" if items else ""
    return f"{root}<blockDeviceMapping>{items}</blockDeviceMapping>"


def _tags(tags: dict[str, str]) -> str:
    items = "".join(
        f"<item><key>{escape(key)}</key><value>{escape(value)}</value></item>"
        for key, value in tags.items()
    )
    return f"<tagSet>{items}</tagSet>"
