"""Terms with which a v1 node class selects AWS resources (EC-01..EC-06).

The terms of a list are alternatives; all fields of a term must match. An empty term would select everything in the
region, so it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.scalars import worded

MOST_TERMS = 30
MOST_TERM_TAGS = 20
LONGEST_TAG_KEY = 128
AWS_TAG_PREFIX = "aws:"
MOST_TAGS = 50
"""Of what is created."""
LONGEST_TAG_VALUE = 256
ALIAS_FAMILIES = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
"""Family in an alias -> value of ``amiFamily``."""
_ALIAS = re.compile(r"([A-Za-z0-9-]+)@([A-Za-z0-9._-]+)")

TagValue = Annotated[str, Field(max_length=LONGEST_TAG_VALUE)]
TermTags = Annotated[dict[str, TagValue], Field(min_length=1, max_length=MOST_TERM_TAGS)]
Name = Annotated[str, Field(min_length=1, max_length=256)]


def alias_family(alias: str) -> str:
    """``al2023@latest`` -> ``AL2023``; empty for an invalid alias."""
    return ALIAS_FAMILIES.get(alias.partition("@")[0], "")


def _names_one_of(*names: str) -> Rule:
    """A rule that a term has at least one of these fields; an empty term would select everything."""
    listed = ", ".join(names)

    def check(raw: Json) -> Iterable[tuple[Path, str]]:
        if not any(name in raw for name in names):
            yield (), f"selects everything; write at least one of {listed}"

    cel = " || ".join(f"has(self.{name})" for name in names)
    return Rule(f"a term needs at least one of {listed}", cel, check)


def _alone(name: str, *others: str) -> Rule:
    """A rule that the field ``name``, which identifies one resource, cannot be combined with ``others``."""
    listed = ", ".join(others)

    def check(raw: Json) -> Iterable[tuple[Path, str]]:
        beside = [other for other in others if other in raw]
        if name in raw and beside:
            yield (name,), f"cannot be combined with {', '.join(beside)}; use two terms"

    cel = f"!has(self.{name}) || !({' || '.join(f'has(self.{other})' for other in others)})"
    return Rule(f"{name} cannot be combined with {listed}", cel, check)


def _check_tags(raw: Json) -> Iterable[tuple[Path, str]]:
    tags = raw.get("tags")
    if not isinstance(tags, Mapping) or len(tags) > MOST_TERM_TAGS:
        return
    for key, value in tags.items():
        if key == "" or value == "":
            yield ("tags", str(key)), "needs a key and a value; * is any value"
        elif isinstance(key, str) and len(key) > LONGEST_TAG_KEY:
            yield ("tags", key[:40]), f"has a key of more than {LONGEST_TAG_KEY} characters"


TAGS_RULE = Rule(
    f"tags need keys of 1 to {LONGEST_TAG_KEY} characters and values; * is any value",
    "!has(self.tags) || self.tags.all(key, "
    f"key != '' && key.size() <= {LONGEST_TAG_KEY} && self.tags[key] != '')",
    _check_tags,
)


def _check_tag_keys(raw: Json) -> Iterable[tuple[Path, str]]:
    tags = raw.get("tags")
    if not isinstance(tags, Mapping) or len(tags) > MOST_TAGS:
        return
    for key in filter(lambda one: isinstance(one, str), tags):
        if not 1 <= len(key) <= LONGEST_TAG_KEY:
            yield ("tags", key[:40]), f"needs a key of 1 to {LONGEST_TAG_KEY} characters"
        elif key.lower().startswith(AWS_TAG_PREFIX):
            yield (
                ("tags", key),
                f"AWS reserves keys that begin with {AWS_TAG_PREFIX}; choose another",
            )


GIVEN_TAGS_RULE = Rule(
    f"keys of tags have 1 to {LONGEST_TAG_KEY} characters and do not begin with {AWS_TAG_PREFIX}",
    f"!has(self.tags) || self.tags.all(key, key != '' && key.size() <= {LONGEST_TAG_KEY} && "
    f"!key.startsWith('{AWS_TAG_PREFIX}') && !key.startsWith('{AWS_TAG_PREFIX.upper()}'))",
    _check_tag_keys,
)
"""For the tags of what is created. Selectors may name tags that AWS sets."""


class SubnetSelectorTerm(ApiModel):
    """Selects subnets: all its fields must match."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _names_one_of("tags", "id"),
        _alone("id", "tags"),
        TAGS_RULE,
    )

    tags: TermTags | None = None
    """Tags that a subnet must have. The value * stands for any value."""
    id: Annotated[str, *worded(r"^subnet-[0-9a-z]+$", "subnet-0123456789abcdef0")] | None = None
    """The id of one subnet."""


class SecurityGroupSelectorTerm(ApiModel):
    """Selects security groups: all its fields must match."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _names_one_of("tags", "id", "name"),
        _alone("id", "tags", "name"),
        _alone("name", "tags"),
        TAGS_RULE,
    )

    tags: TermTags | None = None
    """Tags that a security group must have. The value * stands for any value."""
    id: Annotated[str, *worded(r"^sg-[0-9a-z]+$", "sg-0123456789abcdef0")] | None = None
    """The id of one security group."""
    name: Name | None = None
    """The group's name, which is not its tag Name."""


def _check_alias(raw: Json) -> Iterable[tuple[Path, str]]:
    alias = raw.get("alias")
    if not isinstance(alias, str):
        return
    found = _ALIAS.fullmatch(alias)
    if found is None:
        yield (
            ("alias",),
            f"{alias[:40]!r} is not an alias; write family@version, such as al2023@latest",
        )
    elif found[1] not in ALIAS_FAMILIES:
        yield (
            ("alias",),
            f"{found[1][:40]!r} is not an image family; use one of {', '.join(ALIAS_FAMILIES)}",
        )
    elif found[1].startswith("windows") and found[2] != "latest":
        yield ("alias",), f"a version cannot be chosen for Windows images; write {found[1]}@latest"


class AMISelectorTerm(ApiModel):
    """Selects machine images: all its fields must match. The newest image found is used."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _names_one_of("alias", "tags", "name", "id", "ssmParameter"),
        _alone("id", "alias", "tags", "name", "owner", "ssmParameter"),
        _alone("alias", "tags", "name", "owner", "ssmParameter"),
        _alone("ssmParameter", "tags", "name", "owner"),
        Rule(
            "alias must be family@version; the families are "
            f"{', '.join(ALIAS_FAMILIES)}, those of Windows only with @latest",
            "!has(self.alias) || self.alias.matches("
            "'^((al2|al2023|bottlerocket)@[A-Za-z0-9._-]+|windows(2019|2022|2025)@latest)$')",
            _check_alias,
        ),
        TAGS_RULE,
    )

    alias: Annotated[str, Field(max_length=30)] | None = None
    """An EKS-optimized image: family@version. With the version latest, nodes drift and are replaced when a new image
    is released."""
    tags: TermTags | None = None
    """Tags that an image must have. The value * stands for any value."""
    id: Annotated[str, *worded(r"^ami-[0-9a-z]+$", "ami-0123456789abcdef0")] | None = None
    """The id of one image."""
    name: Name | None = None
    """The image's name, which is not its tag Name; * stands for any text."""
    owner: Name | None = None
    """Who owns the image: an account id, self, amazon or aws-marketplace."""
    ssm_parameter: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Name or ARN of the Systems Manager parameter that holds the image's id."""


class CapacityReservationSelectorTerm(ApiModel):
    """Selects capacity reservations: all its fields must match."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _names_one_of("tags", "id", "ownerID", "instanceMatchCriteria"),
        _alone("id", "tags", "ownerID", "instanceMatchCriteria"),
        TAGS_RULE,
    )

    tags: TermTags | None = None
    """Tags that a reservation must have. The value * stands for any value."""
    id: Annotated[str, *worded(r"^cr-[0-9a-z]+$", "cr-0123456789abcdef0")] | None = None
    """The id of one capacity reservation."""
    owner_id: Annotated[str, *worded(r"^[0-9]{12}$", "'123456789012'", None)] | None = Field(
        default=None, alias="ownerID"
    )
    """The account that owns the reservation: 12 digits."""
    instance_match_criteria: Literal["open", "targeted"] | None = None
    """Whether the reservation accepts any matching instance (open) or only instances that target it (targeted)."""


class PlacementGroupSelector(ApiModel):
    """Selects the placement group for instances, by name or by id."""

    RULES: ClassVar[tuple[Rule, ...]] = (_names_one_of("name", "id"), _alone("id", "name"))

    name: Name | None = None
    """The group's name."""
    id: Annotated[str, *worded(r"^pg-[0-9a-z]+$", "pg-0123456789abcdef0")] | None = None
    """The group's id."""
