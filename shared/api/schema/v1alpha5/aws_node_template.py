"""karpenter.k8s.aws/v1alpha1 AWSNodeTemplate as users write it (T-01..T-12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from shared.api.conversion import selector_maps
from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.block_devices import MOST_VOLUMES, BlockDevice, MetadataOptions
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.requirements import ImageRequirement
from shared.api.schema.scalars import Text
from shared.api.schema.selector_terms import GIVEN_TAGS_RULE, MOST_TAGS

DEFAULT_FAMILY = "AL2"
Family = Literal["AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Custom"]
RESERVED_TAGS = (
    "karpenter.sh/provisioner-name",
    "kubernetes.io/cluster/",
    "karpenter.sh/managed-by",
)
MOST_SELECTED_TAGS = 20
MOST_FOUND = 1000
MOST_IMAGES = 100
MOST_USER_DATA = 16 * 1024
"""Bytes; EC2's limit."""

SelectorValue = Annotated[str, Field(max_length=4096)]
Selector = Annotated[dict[str, SelectorValue], Field(max_length=MOST_SELECTED_TAGS)]
TagValue = Annotated[str, Field(max_length=256)]


def _given(raw: Json, name: str) -> bool:
    """Whether the field is present and not empty; an empty string or map selects or sets nothing."""
    return raw.get(name) not in (None, "", {}, [])


def _cel_given(name: str) -> str:
    return f"(has(self.{name}) && size(self.{name}) > 0)"


def _check_subnets(raw: Json) -> Iterable[tuple[Path, str]]:
    if raw.get("subnetSelector") in (None, {}):
        yield (
            ("subnetSelector",),
            "is required; select the subnets, for example by the tag karpenter.sh/discovery",
        )


def _check_groups(raw: Json) -> Iterable[tuple[Path, str]]:
    if not raw.get("launchTemplate") and raw.get("securityGroupSelector") in (None, {}):
        yield (
            ("securityGroupSelector",),
            "is required; select the security groups, for example by the tag karpenter.sh/discovery",
        )


def _check_custom(raw: Json) -> Iterable[tuple[Path, str]]:
    if raw.get("amiFamily") == "Custom" and not _given(raw, "amiSelector"):
        yield ("amiSelector",), "amiSelector is required with amiFamily Custom"


def _check_tags(raw: Json) -> Iterable[tuple[Path, str]]:
    tags = raw.get("tags")
    for key in tags if isinstance(tags, Mapping) else ():
        if isinstance(key, str) and key.startswith(RESERVED_TAGS):
            yield ("tags", key), "this tag is set by the autoscaler; choose another key"


def _excluded(name: str, *, is_object: bool = False) -> Rule:
    """T-07: a custom launch template determines these settings itself. CEL cannot test whether an object is empty."""

    def check(raw: Json) -> Iterable[tuple[Path, str]]:
        present = name in raw if is_object else _given(raw, name)
        if raw.get("launchTemplate") and present:
            yield (name,), "cannot be combined with launchTemplate"

    cel = f"has(self.{name})" if is_object else _cel_given(name)
    return Rule(
        f"{name} cannot be combined with launchTemplate",
        f"!{_cel_given('launchTemplate')} || !{cel}",
        check,
    )


def _well_formed(name: str, kind: selector_maps.Selectable) -> Rule:
    """T-10. Within its cost limit, CEL can only check that an id key is the only key."""

    def check(raw: Json) -> Iterable[tuple[Path, str]]:
        selector = raw.get(name)
        for key, message in selector_maps.selector_faults(selector, kind):
            yield ((name, key) if key is not None else (name,)), message

    alone = " || ".join(f"'{key}' in self.{name}" for key in selector_maps.ID_KEYS)
    listed = f"^[ ,]*({kind.id_prefix}[0-9a-z]+[ ,]*)*$"
    ids = " && ".join(
        f"(!('{key}' in self.{name}) || self.{name}['{key}'].matches('{listed}'))"
        for key in selector_maps.ID_KEYS
    )
    return Rule(
        f"aws-ids must be the only key of {name} and list ids such as {kind.id_prefix}0123456789abcdef0",
        f"!has(self.{name}) || ((size(self.{name}) == 1 || !({alone})) && {ids})",
        check,
    )


def _written_out(name: str) -> Rule:
    """T-10: no entry without a key or a value. ``_well_formed`` checks the same."""
    cel = f"self.{name}.all(key, key != '' && self.{name}[key].matches('[^ ,]'))"
    return Rule(
        f"entries of {name} need a key and a value; * is any value", f"!has(self.{name}) || {cel}"
    )


_FREE_TAG = " && ".join(f"!key.startsWith('{prefix}')" for prefix in RESERVED_TAGS)


class AWSNodeTemplateSpec(ApiModel):
    """How nodes are created in AWS: networks, image, volumes, identity."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "subnetSelector is required; select the subnets, for example by the tag karpenter.sh/discovery",
            _cel_given("subnetSelector"),
            _check_subnets,
        ),
        Rule(
            "securityGroupSelector is required; select the security groups, "
            "for example by the tag karpenter.sh/discovery",
            f"{_cel_given('launchTemplate')} || {_cel_given('securityGroupSelector')}",
            _check_groups,
        ),
        Rule(
            "amiSelector is required with amiFamily Custom",
            "!has(self.amiFamily) || self.amiFamily != 'Custom' || " + _cel_given("amiSelector"),
            _check_custom,
        ),
        Rule(
            "tags with these keys are set by the autoscaler; choose other keys",
            f"!has(self.tags) || self.tags.all(key, {_FREE_TAG})",
            _check_tags,
        ),
        GIVEN_TAGS_RULE,
        _well_formed("subnetSelector", selector_maps.SUBNETS),
        _well_formed("securityGroupSelector", selector_maps.SECURITY_GROUPS),
        _well_formed("amiSelector", selector_maps.IMAGES),
        *map(_written_out, ("subnetSelector", "securityGroupSelector", "amiSelector")),
        *(
            _excluded(name)
            for name in (
                "securityGroupSelector", "amiFamily", "instanceProfile", "blockDeviceMappings",
                "userData", "amiSelector",
            )
        ),
        _excluded("metadataOptions", is_object=True),
    )  # fmt: skip

    subnet_selector: Selector = {}
    """Tags of the subnets; required. All entries must match. A value is an exact value, a pattern with *, or a list
    separated by commas. The key aws-ids selects by id and must be the only key."""
    security_group_selector: Selector = {}
    """Tags of the security groups; required unless launchTemplate is set. All entries must match. A value is an exact
    value, a pattern with *, or a list separated by commas. The key aws-ids selects by id and must be the only key."""
    ami_selector: Selector = {}
    """Tags of the images; required with amiFamily Custom. All entries must match. A value is an exact value, a pattern
    with *, or a list separated by commas. The keys aws::name and aws::owners select by name and owner. The key aws-ids
    selects by id and must be the only key."""
    ami_family: Family | None = None
    """Operating system of the nodes; AL2 when absent."""
    instance_profile: Text | None = None
    """Name of the instance profile of the nodes; the launcher's default when absent."""
    user_data: Annotated[str, Field(max_length=MOST_USER_DATA)] | None = None
    """User data, merged with that of the amiFamily."""
    context: Text | None = None
    """A field that EC2 reserves for its own use; passed to CreateFleet."""
    detailed_monitoring: bool | None = None
    """Whether detailed CloudWatch monitoring, with metrics every minute, is enabled."""
    tags: Annotated[dict[str, TagValue], Field(max_length=MOST_TAGS)] = {}
    """Tags of every resource that is created. Keys of the cluster's own ownership tags are refused."""
    launch_template: Text | None = None
    """Name of a launch template that is managed elsewhere. Excludes securityGroupSelector, metadataOptions, amiFamily,
    instanceProfile, blockDeviceMappings, userData and amiSelector."""
    metadata_options: MetadataOptions | None = None
    """Access to the instance metadata service; enabled, IPv6 off, two hops and tokens required when absent."""
    block_device_mappings: Annotated[list[BlockDevice], Field(max_length=MOST_VOLUMES)] = []
    """Volumes of the nodes."""


class SelectedSubnet(ApiModel):
    """A subnet that the selector found."""

    id: str
    """Id of the subnet."""
    zone: str
    """Its availability zone."""


class SelectedSecurityGroup(ApiModel):
    """A security group that the selector found."""

    id: str
    """Id of the group."""


class SelectedImage(ApiModel):
    """An image that nodes may start from."""

    id: str
    """Id of the image."""
    name: str | None = None
    """Name of the image."""
    requirements: Annotated[list[ImageRequirement], Field(max_length=100)] = []
    """Requirements on the nodes that the image suits."""


class AWSNodeTemplateStatus(ApiModel):
    """What the selectors found."""

    subnets: Annotated[list[SelectedSubnet], Field(max_length=MOST_FOUND)] = []
    """Subnets, the one with most free addresses first."""
    security_groups: Annotated[list[SelectedSecurityGroup], Field(max_length=MOST_FOUND)] = []
    """Security groups; every node gets all of them."""
    amis: Annotated[list[SelectedImage], Field(max_length=MOST_IMAGES)] = []
    """Images."""
    conditions: list[StatusCondition] = []
    """Latest observations of the controllers: Ready, and whether the template is valid."""


class AWSNodeTemplate(Resource):
    """An AWSNodeTemplate defines how nodes are created in AWS: networks, image, volumes, identity."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="karpenter.k8s.aws",
        version="v1alpha1",
        kind="AWSNodeTemplate",
        plural="awsnodetemplates",
        columns=(
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Age", ".metadata.creationTimestamp", type="date"),
        ),
    )

    spec: AWSNodeTemplateSpec
    """AWS settings of nodes."""
    status: AWSNodeTemplateStatus = AWSNodeTemplateStatus()
    """What the selectors found."""
