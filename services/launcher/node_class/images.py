"""Which images the machines of a node class boot: by alias, SSM parameter, id, name, owner or tags (LCH-01..09).

Each image carries requirements on the instance type: its architecture always, and, when a family publishes several,
whether the type has GPUs or Neuron devices. A type boots the newest image whose requirements it meets. A launch
template that the user keeps, which an AWSNodeTemplate names, is used as it is, at its newest version, with its image
(T-07).

What may go wrong: a release that was never published, a selector that finds nothing, a template that does not exist or
names no image that exists. Each raises ``InvalidObject`` with the field and, in its context, the reason for the class's
condition (EC-17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.launcher.node_class.published_images import (
    ARCHITECTURES,
    LATEST,
    Published,
    check_supported,
    published,
)
from services.launcher.node_class.shared_answers import SharedAnswers
from services.launcher.resolved_class import BootImage, BootImages
from shared.api.schema.selector_terms import alias_family
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import Image, LaunchTemplate
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.pools.nodepools import NodeClass, SelectorTerm
from shared.domain.requirements import Requirement, Requirements
from shared.errors import InvalidObject, NotFound
from shared.kube.reading import or_none
from shared.log import get_logger

log = get_logger(__name__)

NOT_FOUND = "AMINotFound"
PARAMETER_SECONDS = 24 * 3600.0
DEPRECATED_SECONDS = 30 * 60.0
"""How long a parameter's value is used, and how long once its image is deprecated (LCH-01)."""
MOST_PARAMETERS = 1000
MOST_LOGGED = 1000
_ANY = (Requirements(),)
TEMPLATE_FIELD = "spec.launchTemplate"
TEMPLATE_NOT_FOUND = "LaunchTemplateNotFound"
SSM_PREFIX = "resolve:ssm:"
"""EC2 reads the image's id at this parameter."""


def boot_images(
    images: Iterable[Image], kinds: Mapping[str, tuple[Requirements, ...]]
) -> tuple[BootImage, ...]:
    """Images in order of preference -> the first for each set of requirements (LCH-08).

    ``kinds``: image id -> alternatives of what a type must be; an image without an entry suits all of its architecture.
    """
    found: dict[Requirements, BootImage] = {}
    for image in images:
        arch = next(
            (ours for ours, ec2s in ARCHITECTURES.items() if ec2s == image.architecture), ""
        )
        if not arch:
            continue
        rule = Requirement(keys.ARCH, False, frozenset({arch}))
        for kind in kinds.get(image.id, _ANY):
            desired = kind.add(rule)
            found.setdefault(desired, BootImage(image, desired))
    return tuple(found.values())


@dataclass
class Images:
    """Finds images and remembers the answers of SSM."""

    cloud: Cloud
    clock: Clock
    answers: SharedAnswers
    _parameters: dict[str, tuple[float, str]] = field(default_factory=dict)
    _logged: dict[str, frozenset[str]] = field(default_factory=dict)
    """Class -> the images that the log says it has."""

    async def find(self, node_class: NodeClass, k8s: str) -> tuple[BootImage, ...]:
        """The images of a class, newest first, deprecated ones last. Raises InvalidObject when there is none at all."""
        where = _field(node_class)
        sources = _sources(node_class, k8s, where)
        values = await asyncio.gather(*(self._parameter(source.path) for source in sources))
        named = {value: source for value, source in zip(values, sources, strict=True) if value}
        terms = [term for term in node_class.image_terms if not (term.alias or term.ssm_parameter)]
        terms += [SelectorTerm(id=value) for value in named]
        images = await self.answers.find("images", terms, lambda: self.cloud.ec2.images(terms))
        self._forget_deprecated(images)
        found = boot_images(images, {value: source.kinds for value, source in named.items()})
        if not found:
            raise InvalidObject(_nothing(node_class, sources), field=where, reason=NOT_FOUND)
        self._log(node_class, {value: source.path for value, source in named.items()}, found)
        return found

    async def _parameter(self, path: str) -> str:
        """The image id at this path, empty when SSM has none."""
        known = self._parameters.get(path)
        if known is not None and self.clock.monotonic() - known[0] < PARAMETER_SECONDS:
            return known[1]
        value = await or_none(self.cloud.ssm.parameter(path))
        if value is None:
            return ""
        if len(self._parameters) >= MOST_PARAMETERS:
            self._parameters.clear()
        self._parameters[path] = (self.clock.monotonic(), value)
        log.debug("discovered ssm parameter", parameter=path, value=value)
        return value

    def _forget_deprecated(self, images: Iterable[Image]) -> None:
        """AWS deprecates an image when a newer one stands at the same path (LCH-01)."""
        deprecated = {image.id for image in images if image.deprecated}
        now = self.clock.monotonic()
        self._parameters = {
            path: (since, value)
            for path, (since, value) in self._parameters.items()
            if value not in deprecated or now - since < DEPRECATED_SECONDS
        }

    def _log(
        self, node_class: NodeClass, paths: Mapping[str, str], found: tuple[BootImage, ...]
    ) -> None:
        """LCH-09, in each generation's words: what is new since the last refresh."""
        ids = frozenset(BootImages(found).ids)
        new = ids - self._logged.get(node_class.key, frozenset())
        if len(self._logged) >= MOST_LOGGED:
            self._logged.clear()
        self._logged[node_class.key] = ids
        if not new:
            return
        if not node_class.api.older_names:
            log.debug("discovered amis", ids=sorted(ids), node_class=node_class.key)
            return
        selector = "; ".join(described(term) for term in node_class.image_terms)
        for ami in sorted(new):
            log.debug("discovered new ami", ami=ami, query=paths.get(ami, selector))


def _field(node_class: NodeClass) -> str:
    """What a user must change to get other images."""
    if not node_class.image_terms:
        return "spec.amiFamily"
    return node_class.api.selector_field("amiSelector")


def _sources(node_class: NodeClass, k8s: str, where: str) -> list[Published]:
    """SSM parameters to ask: of aliases, of the terms that name one, or of the family alone."""
    if not node_class.image_terms:
        check_supported(node_class.ami_family, k8s, where)
        return published(node_class.ami_family, LATEST, k8s)
    found: list[Published] = []
    for index, term in enumerate(node_class.image_terms):
        if term.alias:
            family, release = alias_family(term.alias), term.alias.partition("@")[2]
            check_supported(family, k8s, f"{where}[{index}].alias")
            found += published(family, release, k8s)
        elif term.ssm_parameter:
            found.append(Published(term.ssm_parameter, _ANY))
    return found


def _nothing(node_class: NodeClass, sources: Iterable[Published]) -> str:
    asked = [described(term) for term in node_class.image_terms if not term.alias]
    asked += [f"SSM parameter {source.path}" for source in sources]
    return f"no image for amd64 or arm64 was found by {'; nor by '.join(asked) or 'this family'}"


def described(term: SelectorTerm) -> str:
    """A term for people: ``id ami-1``, ``name web-* owner self``, ``tags a=1, b=2``."""
    tags = ", ".join(f"{key}={value}" for key, value in sorted(term.tags.items()))
    named = {
        "id": term.id,
        "name": term.name,
        "owner": term.owner,
        "parameter": term.ssm_parameter,
        "tags": tags,
    }
    return " ".join(f"{name} {value}" for name, value in named.items() if value)


async def find_user_template(
    cloud: Cloud, name: str
) -> tuple[LaunchTemplate, tuple[BootImage, ...]]:
    """The template of this name at its newest version, which launches pin, and the image that it starts.

    Raises InvalidObject when it cannot be launched from, and Unauthorized.
    """
    try:
        template = await cloud.launch_templates.named(name)
        written = await cloud.launch_templates.data(template)
    except NotFound as error:
        raise InvalidObject(
            f"EC2 has no launch template {name}; make it, or name another",
            field=TEMPLATE_FIELD,
            reason=TEMPLATE_NOT_FOUND,
        ) from error
    named = str(written.get("ImageId") or "")
    if not named:
        raise InvalidObject(
            f"launch template {name} names no image; give it one", field=TEMPLATE_FIELD
        )
    images = await cloud.ec2.images([SelectorTerm(id=await _image_id(cloud, name, named))])
    found = boot_images(images, {})
    if not found:
        raise InvalidObject(
            f"the image {named} of launch template {name} does not exist; give it another",
            field=TEMPLATE_FIELD,
        )
    return template, found


async def _image_id(cloud: Cloud, name: str, named: str) -> str:
    if not named.startswith(SSM_PREFIX):
        return named
    try:
        return await cloud.ssm.parameter(named.removeprefix(SSM_PREFIX))
    except NotFound as error:
        raise InvalidObject(
            f"launch template {name} takes its image from {named}, which SSM does not have",
            field=TEMPLATE_FIELD,
        ) from error
