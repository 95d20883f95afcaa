"""Objects from YAML files, created when the cluster starts: definitions first, then what they
define.

A file that is not YAML, or an object of an unknown kind, stops the start with a message that names
the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from local.cluster.errors import ApiError
from local.cluster.resources import Resource
from local.cluster.store import Store
from shared.errors import ConfigurationError
from shared.log import get_logger

log = get_logger(__name__)

Manifest = tuple[Path, dict[str, Any]]
FAST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast as the other, where PyYAML was built with libyaml."""


def read_manifests(directory: Path) -> list[Manifest]:
    """Every object in ``*.yaml`` of the folder; CustomResourceDefinitions first.

    Raises ConfigurationError.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"CRD_DIRECTORY: {directory} is not a folder")
    found: list[Manifest] = []
    for path in sorted(directory.glob("*.yaml")):
        try:
            documents = list(yaml.load_all(path.read_text(), Loader=FAST_LOADER))
        except yaml.YAMLError as error:
            raise ConfigurationError(f"CRD_DIRECTORY: {path.name} is not YAML: {error}") from error
        found += [(path, document) for document in documents if document]
    return sorted(found, key=lambda manifest: manifest[1].get("kind") != "CustomResourceDefinition")


def create_manifests(store: Store, directory: Path) -> None:
    """Create the folder's objects; those that exist stay. Raises ConfigurationError."""
    for path, document in read_manifests(directory):
        resource = _resource_of(store, document, path)
        namespace = document.get("metadata", {}).get("namespace", "default")
        try:
            store.create(
                resource.plural,
                document,
                group=resource.group,
                namespace=namespace if resource.namespaced else None,
            )
        except ApiError as error:
            if error.reason == "AlreadyExists":
                continue
            raise ConfigurationError(
                f"CRD_DIRECTORY: {path.name}: {error.message}", file=path.name
            ) from error
        log.info("object created from file", file=path.name, kind=resource.kind)


def _resource_of(store: Store, document: dict[str, Any], path: Path) -> Resource:
    version, kind = document.get("apiVersion"), document.get("kind")
    for resource in store.served():
        if resource.api_version == version and resource.kind == kind:
            return resource
    raise ConfigurationError(f"CRD_DIRECTORY: {path.name}: no kind {kind} in {version} is served")
