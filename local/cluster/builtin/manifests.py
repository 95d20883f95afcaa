"""Creates objects from YAML files when the cluster starts: definitions first, then their custom resources.

An invalid YAML file or an object of an unknown kind stops the start with a message that names the file.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from local.cluster.api.errors import ApiError
from local.cluster.builtin.resources import Resource
from local.cluster.storage.store import Store
from shared.errors import ConfigurationError
from shared.log import get_logger

log = get_logger(__name__)

CRDS, ACCOUNTS = "CRD_DIRECTORY", "ACCOUNTS_DIRECTORY"
"""The settings that name the folders."""
ACCOUNT_KINDS = frozenset(
    {"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
)
"""The kinds that are created from ACCOUNTS_DIRECTORY; the workloads in it run as processes beside the cluster."""
Manifest = tuple[Path, dict[str, Any]]
FAST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader, ten times as fast as the Python one, when PyYAML has it."""


def read_manifests(directory: Path, setting: str = CRDS) -> list[Manifest]:
    """Every object in ``*.yaml`` of the folder; CustomResourceDefinitions first.

    Raises ConfigurationError.
    """
    if not directory.is_dir():
        raise ConfigurationError(f"{setting}: {directory} is not a folder")
    found: list[Manifest] = []
    for path in sorted(directory.glob("*.yaml")):
        try:
            documents = pickle.loads(_parsed(path.read_text()))
        except yaml.YAMLError as error:
            raise ConfigurationError(f"{setting}: {path.name} is not YAML: {error}") from error
        found += [(path, document) for document in documents if document]
    return sorted(found, key=lambda manifest: manifest[1].get("kind") != "CustomResourceDefinition")


@lru_cache(maxsize=64)
def _parsed(text: str) -> bytes:
    """The pickled documents: a process of tests or of the simulation starts many clusters, and each changes its own."""
    return pickle.dumps(list(yaml.load_all(text, Loader=FAST_LOADER)))


def create_manifests(store: Store, directory: Path) -> None:
    """Create the folder's objects; existing objects are not changed. Raises ConfigurationError."""
    create_objects(store, read_manifests(directory))


def create_objects(store: Store, manifests: Iterable[Manifest]) -> None:
    """Create the objects of files; existing objects are not changed. Raises ConfigurationError."""
    for path, document in manifests:
        _create(store, path, document, CRDS)


def create_accounts(store: Store, directory: Path) -> list[dict[str, Any]]:
    """Create the folder's users and rights and return its ServiceAccounts.

    Raises ConfigurationError.
    """
    return create_account_objects(store, read_manifests(directory, ACCOUNTS))


def create_account_objects(store: Store, manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    """As ``create_accounts``, from files that are read already."""
    found = [row for row in manifests if row[1].get("kind") in ACCOUNT_KINDS]
    for path, document in sorted(found, key=lambda manifest: manifest[1]["kind"] != "Namespace"):
        _create(store, path, document, ACCOUNTS)
    return [document for _, document in found if document["kind"] == "ServiceAccount"]


def _create(store: Store, path: Path, document: dict[str, Any], setting: str) -> None:
    resource = _resource_of(store, document, path, setting)
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
            return
        raise ConfigurationError(
            f"{setting}: {path.name}: {error.message}", file=path.name
        ) from error
    log.info("object created from file", file=path.name, kind=resource.kind)


def _resource_of(store: Store, document: dict[str, Any], path: Path, setting: str) -> Resource:
    version, kind = document.get("apiVersion"), document.get("kind")
    for resource in store.served():
        if resource.api_version == version and resource.kind == kind:
            return resource
    raise ConfigurationError(f"{setting}: {path.name}: no kind {kind} in {version} is served")
