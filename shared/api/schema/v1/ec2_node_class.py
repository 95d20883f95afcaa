"""karpenter.k8s.aws/v1 EC2NodeClass as users write it (EC-01..EC-16)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema import selector_terms as terms
from shared.api.schema.block_devices import (
    MOST_VOLUMES,
    BlockDevice,
    EbsVolume,
    MetadataOptions,
    Switch,
)
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.network import (
    ConnectionTracking,
    CpuOptions,
    EnclaveOptions,
    Index,
    NetworkInterface,
)
from shared.api.schema.requirements import ImageRequirement
from shared.api.schema.scalars import Text, worded
from shared.api.schema.v1.kubelet import KNOWN, NodeClassKubelet, extra_fields

CUSTOM = "Custom"
KUBELET_FAMILY = "AL2023"
"""The family whose user data accepts any kubelet setting (EC-10)."""
RESERVED_TAGS = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
RESERVED_TAG_PREFIX = "kubernetes.io/cluster/"
MOST_NETWORK_INTERFACES = 150
LONGEST_USER_DATA = 2**20
"""Characters; an API server accepts no larger object. EC2's limit, 16 KiB, is checked as a condition of the class
(EC-17)."""
VOLUME_SIZE_PATTERN = r"^([1-9][0-9]{0,4}(Gi|G)|[1-9][0-9]?(Ti|T))$"

Family = Literal[
    "AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025", "Custom"
]
IamName = Annotated[str, Field(min_length=1, max_length=128)]


def _check_rate(raw: Json) -> Iterable[tuple[Path, str]]:
    if "volumeInitializationRate" in raw and not raw.get("snapshotID"):
        yield ("volumeInitializationRate",), "needs snapshotID: an empty volume is ready at once"


class NodeClassVolume(EbsVolume):
    """The EBS volume behind a device."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *EbsVolume.RULES,
        Rule(
            "volumeInitializationRate needs snapshotID",
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
            _check_rate,
        ),
    )

    volume_size: Annotated[str, *worded(VOLUME_SIZE_PATTERN, "30Gi")] | None = None
    """Size in Gi, G, Ti or T, at most 64Ti, such as 30Gi. Required unless snapshotID is set."""
    volume_initialization_rate: Annotated[int, Field(ge=100, le=300)] | None = None
    """Rate in MiB per second, 100 to 300, at which the snapshot is copied to the volume. Requires snapshotID."""


class NodeClassBlockDevice(BlockDevice):
    """A device of the node and the volume behind it."""

    ebs: NodeClassVolume
    """The EBS volume behind the device."""


class NodeClassMetadataOptions(MetadataOptions):
    """Access to the instance metadata service."""

    http_endpoint: Switch = "enabled"
    """Whether the service answers."""
    http_protocol_ipv6: Switch = Field(default="disabled", alias="httpProtocolIPv6")
    """Whether it answers over IPv6."""
    http_put_response_hop_limit: Annotated[int, Field(ge=1, le=64)] = 1
    """How many network hops a session token may travel; with 1, pods with their own network namespace get none."""
    http_tokens: Literal["required", "optional"] = "required"
    """Whether a session token is required."""


def is_reserved_tag(key: str) -> bool:
    """EC-09: whether the autoscaler sets this tag itself."""
    return key in RESERVED_TAGS or (
        key.startswith(RESERVED_TAG_PREFIX) and key != RESERVED_TAG_PREFIX
    )


def _check_tags(raw: Json) -> Iterable[tuple[Path, str]]:
    tags = raw.get("tags")
    if not isinstance(tags, Mapping) or len(tags) > terms.MOST_TAGS:
        return
    for key in tags:
        if isinstance(key, str) and is_reserved_tag(key):
            yield ("tags", key), "this tag is set by the autoscaler; choose another key"


def _check_identity(raw: Json) -> Iterable[tuple[Path, str]]:
    if "role" in raw and "instanceProfile" in raw:
        yield ("instanceProfile",), "cannot be combined with role; write one of them"
    elif "role" not in raw and "instanceProfile" not in raw:
        yield ("role",), "is required unless instanceProfile is set"


def _aliases(raw: Json) -> list[tuple[int, str]]:
    """(index, alias) of the image terms that have one."""
    written = raw.get("amiSelectorTerms")
    listed = written[: terms.MOST_TERMS + 1] if isinstance(written, list) else []
    found = [(i, term.get("alias")) for i, term in enumerate(listed) if isinstance(term, Mapping)]
    return [(index, alias) for index, alias in found if isinstance(alias, str)]


def _check_sole_alias(raw: Json) -> Iterable[tuple[Path, str]]:
    aliases = _aliases(raw)
    if aliases and len(raw["amiSelectorTerms"]) > 1:
        index = aliases[0][0]
        yield (
            ("amiSelectorTerms", index, "alias"),
            "an alias must be the only term; remove the others",
        )


def _check_family(raw: Json) -> Iterable[tuple[Path, str]]:
    family, aliases = raw.get("amiFamily"), _aliases(raw)
    if family is None and not aliases:
        yield ("amiFamily",), "is required unless amiSelectorTerms has an alias"
    if family is None or family == CUSTOM:
        return
    for _, alias in aliases:
        implied = terms.alias_family(alias)
        if implied and implied != family:
            yield ("amiFamily",), f"must be {implied}, the family of the alias {alias}, or {CUSTOM}"


def family_of(raw: Json) -> str:
    """The image family that a spec names or its alias implies; empty without either (EC-04)."""
    family = raw.get("amiFamily")
    if isinstance(family, str):
        return family
    return next((terms.alias_family(alias) for _, alias in _aliases(raw)), "")


def _check_kubelet(raw: Json) -> Iterable[tuple[Path, str]]:
    family = family_of(raw)
    if family == KUBELET_FAMILY:
        return
    known = [name for name in extra_fields(raw.get("kubelet")) if name in KNOWN]
    for name in known[: terms.MOST_TERMS]:
        text = f"works with amiFamily {KUBELET_FAMILY} only, not with {family or 'this one'}"
        yield ("kubelet", name), text


def _check_root(raw: Json) -> Iterable[tuple[Path, str]]:
    volumes = raw.get("blockDeviceMappings")
    listed = volumes[:MOST_VOLUMES] if isinstance(volumes, list) else []
    roots = [
        index
        for index, volume in enumerate(listed)
        if isinstance(volume, Mapping) and volume.get("rootVolume") is True
    ]
    for index in roots[1:]:
        yield ("blockDeviceMappings", index, "rootVolume"), "only one volume can be the root volume"


_FAMILY_PREFIXES = ", ".join(
    f"'{family}': '{alias}@'" for alias, family in terms.ALIAS_FAMILIES.items()
)
_RESERVED = ", ".join(f"'{key}'" for key in RESERVED_TAGS)


class EC2NodeClassSpec(ApiModel):
    """How nodes are created in AWS: networks, image, volumes, identity, kubelet."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "write exactly one of role and instanceProfile",
            "has(self.role) != has(self.instanceProfile)",
            _check_identity,
        ),
        Rule(
            "an alias must be the only term of amiSelectorTerms",
            "size(self.amiSelectorTerms) == 1 || !self.amiSelectorTerms.exists(term, has(term.alias))",
            _check_sole_alias,
        ),
        Rule(
            "amiFamily is required unless amiSelectorTerms has an alias",
            "has(self.amiFamily) || self.amiSelectorTerms.exists(term, has(term.alias))",
        ),
        Rule(
            "amiFamily must be the family of the alias, or Custom",
            "!has(self.amiFamily) || self.amiFamily == 'Custom' || "
            "self.amiSelectorTerms.all(term, !has(term.alias) || "
            f"term.alias.startsWith({{{_FAMILY_PREFIXES}}}[self.amiFamily]))",
            _check_family,
        ),
        Rule(
            "tags must have keys other than those that the autoscaler sets: "
            f"{', '.join(RESERVED_TAGS)}, {RESERVED_TAG_PREFIX}...",
            f"!has(self.tags) || self.tags.all(key, key != '' && !(key in [{_RESERVED}]) && "
            f"(key == '{RESERVED_TAG_PREFIX}' || !key.startsWith('{RESERVED_TAG_PREFIX}')))",
            _check_tags,
        ),
        terms.GIVEN_TAGS_RULE,
        Rule(
            "only one of blockDeviceMappings can be the root volume",
            "!has(self.blockDeviceMappings) || self.blockDeviceMappings.filter(volume, "
            "has(volume.rootVolume) && volume.rootVolume).size() <= 1",
            _check_root,
        ),
        Rule(
            f"kubelet settings beyond the common ones work with {KUBELET_FAMILY} only",
            check=_check_kubelet,
        ),
    )

    subnet_selector_terms: Annotated[
        list[terms.SubnetSelectorTerm],
        Field(min_length=1, max_length=terms.MOST_TERMS),
    ]
    """Subnets for nodes: those that match any of these terms."""
    security_group_selector_terms: Annotated[
        list[terms.SecurityGroupSelectorTerm],
        Field(min_length=1, max_length=terms.MOST_TERMS),
    ]
    """Security groups of nodes: all that match any of these terms."""
    ami_selector_terms: Annotated[
        list[terms.AMISelectorTerm],
        Field(min_length=1, max_length=terms.MOST_TERMS),
    ]
    """Machine images for nodes: those that match any of these terms. An alias must be the only term."""
    capacity_reservation_selector_terms: (
        Annotated[list[terms.CapacityReservationSelectorTerm], Field(max_length=terms.MOST_TERMS)] | None
    ) = None  # fmt: skip
    """Capacity reservations to use: those that match any of these terms."""
    placement_group_selector: terms.PlacementGroupSelector | None = None
    """The placement group that nodes are launched into."""
    ami_family: Family | None = None
    """Operating system of the nodes; determines the format of the user data and the default volumes. Required unless
    amiSelectorTerms has an alias, which implies it; with an alias it must be the same family or Custom."""
    role: IamName | None = None
    """Name of the IAM role of the nodes; an instance profile is created for it. Excludes instanceProfile."""
    instance_profile: IamName | None = None
    """Name of an instance profile that is managed elsewhere. Excludes role."""
    user_data: Annotated[str, Field(max_length=LONGEST_USER_DATA)] | None = None
    """User data to merge with that of the autoscaler, in the format of the amiFamily; with Custom it is used as is."""
    context: Text | None = None
    """A field that EC2 reserves for its own use; passed to CreateFleet."""
    detailed_monitoring: bool | None = None
    """Whether detailed CloudWatch monitoring, with metrics every minute, is enabled."""
    associate_public_ip_address: bool | None = Field(default=None, alias="associatePublicIPAddress")
    """Whether instances get a public IP address; by default the setting of the subnet applies."""
    ip_prefix_count: Index | None = None
    """How many IPv4 prefixes the primary network interface gets."""
    instance_store_policy: Literal["RAID0"] | None = None
    """RAID0 combines the local disks of an instance into one volume for pods and images."""
    tags: Annotated[dict[str, terms.TagValue], Field(max_length=terms.MOST_TAGS)] | None = None
    """Tags of every resource that is created. Keys that the autoscaler sets itself are refused."""
    kubelet: NodeClassKubelet | None = None
    """Settings of the kubelet."""
    block_device_mappings: (
        Annotated[list[NodeClassBlockDevice], Field(max_length=MOST_VOLUMES)] | None
    ) = None  # fmt: skip
    """Volumes of the nodes; by default those of the amiFamily."""
    metadata_options: NodeClassMetadataOptions = NodeClassMetadataOptions()
    """Access to the instance metadata service."""
    network_interfaces: (
        Annotated[list[NetworkInterface], Field(max_length=MOST_NETWORK_INTERFACES)] | None
    ) = None  # fmt: skip
    """Network interfaces of instances; by default one."""
    connection_tracking: ConnectionTracking | None = None
    """Idle timeouts of the connection tracking of security groups."""
    cpu_options: CpuOptions | None = None
    """CPU options of the instances."""
    enclave_options: EnclaveOptions | None = None
    """AWS Nitro Enclaves."""


class FoundSubnet(ApiModel):
    """A subnet that the terms selected."""

    id: str
    """Id of the subnet."""
    zone: str
    """Its availability zone."""
    zone_id: str | None = Field(default=None, alias="zoneID")
    """Id of the zone, the same in every account."""


class FoundSecurityGroup(ApiModel):
    """A security group that the terms selected."""

    id: str
    """Id of the group."""
    name: str | None = None
    """Name of the group."""


class FoundImage(ApiModel):
    """An image that the terms selected."""

    id: str
    """Id of the image."""
    name: str | None = None
    """Name of the image."""
    deprecated: bool | None = None
    """Whether its owner has deprecated it."""
    requirements: list[ImageRequirement] | None = None
    """Requirements on the nodes that the image suits."""


class FoundReservation(ApiModel):
    """A capacity reservation that the terms selected."""

    id: str
    """Id of the reservation."""
    availability_zone: str | None = None
    """The availability zone of the reserved capacity."""
    instance_type: str | None = None
    """The instance type that it reserves."""
    instance_match_criteria: str | None = None
    """open or targeted."""
    owner_id: str | None = Field(default=None, alias="ownerID")
    """The account that owns it."""
    reservation_type: str | None = None
    """default or capacity-block."""
    state: str | None = None
    """Whether it is active, or about to expire."""
    end_time: str | None = Field(default=None, json_schema_extra={"format": "date-time"})
    """When it ends; absent if it has no end."""


class FoundPlacementGroup(ApiModel):
    """The placement group that the selector found."""

    id: str
    """Id of the group."""
    name: str | None = None
    """Name of the group."""
    partitions: int | None = None
    """How many partitions it has; 0 unless it is a partition placement group."""
    strategy: str | None = None
    """Its strategy: cluster, partition or spread."""


class EC2NodeClassStatus(ApiModel):
    """What the terms selected, and whether nodes can be created from it."""

    subnets: list[FoundSubnet] | None = None
    """Subnets, the one with most free addresses first."""
    security_groups: list[FoundSecurityGroup] | None = None
    """Security groups; every node gets all of them."""
    amis: Annotated[list[FoundImage], Field(max_length=100)] | None = None
    """Images, the newest first."""
    capacity_reservations: list[FoundReservation] | None = None
    """Capacity reservations."""
    placement_group: FoundPlacementGroup | None = None
    """The placement group of nodes."""
    instance_profile: str | None = None
    """The instance profile of nodes."""
    conditions: list[StatusCondition] | None = None
    """Latest observations of the controllers; Ready is true if all others are."""


class EC2NodeClass(Resource):
    """An EC2NodeClass defines how nodes are created in AWS: networks, image, volumes, identity, kubelet."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="karpenter.k8s.aws",
        version="v1",
        kind="EC2NodeClass",
        plural="ec2nodeclasses",
        short_names=("ec2nc", "ec2ncs"),
        columns=(
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("Role", ".spec.role", wide=True),
            Column("InstanceProfile", ".spec.instanceProfile", wide=True),
        ),
    )

    spec: EC2NodeClassSpec
    """AWS settings of nodes."""
    status: EC2NodeClassStatus | None = None
    """What the terms selected, and whether nodes can be created from it."""
