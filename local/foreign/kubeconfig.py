"""The current context of a kubeconfig, and kubeconfigs for other users of the same cluster.

A missing file, invalid YAML and a context with undefined entries raise ConfigurationError, which names the problem.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from local.cluster.kubeconfig import kubeconfig
from shared.errors import ConfigurationError

_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
"""Fields that name files, relative to the folder of the kubeconfig."""


@dataclass(frozen=True)
class KubeContext:
    """One context. ``cluster`` and ``user`` are its entries, with absolute paths."""

    name: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    @property
    def server(self) -> str:
        return str(self.cluster["server"])

    @property
    def host(self) -> str:
        """Name or address of the API server, without the port."""
        return urlsplit(self.server).hostname or ""

    def document(
        self, user: Mapping[str, Any] | None = None, namespace: str = "default"
    ) -> dict[str, Any]:
        """A kubeconfig with this context alone; ``user`` replaces the context's own user."""
        user = self.user if user is None else user
        return kubeconfig(self.name, self.cluster, user, namespace)


def read_context(path: Path) -> KubeContext:
    """The current context of the file. Raises ConfigurationError."""
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigurationError(f"--kubeconfig: cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise ConfigurationError(f"--kubeconfig: {path} is not YAML: {problem}") from error
    if not isinstance(config, dict) or not config.get("current-context"):
        raise ConfigurationError(
            f"--kubeconfig: {path} has no current-context; choose one with "
            f"`kubectl config use-context NAME --kubeconfig {path}`"
        )
    current = str(config["current-context"])
    context = _entry(config, "contexts", "context", current, path)
    cluster = _entry(config, "clusters", "cluster", str(context.get("cluster")), path)
    if urlsplit(str(cluster.get("server"))).scheme not in ("http", "https"):
        raise ConfigurationError(
            f"--kubeconfig: {path}: the cluster of context {current!r} has no server, http:// or https://"
        )
    user = _entry(config, "users", "user", str(context.get("user")), path)
    folder = path.resolve().parent
    return KubeContext(current, _absolute(cluster, folder), _absolute(user, folder))


def _entry(config: Mapping[str, Any], kinds: str, kind: str, name: str, path: Path) -> Any:
    listed = config.get(kinds)
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            found = entry.get(kind) or {}
            if isinstance(found, dict):
                return found
    raise ConfigurationError(
        f"--kubeconfig: {path} has no {kind} {name!r}, which its current context names"
    )


def _absolute(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    found = dict(entry)
    for field in _FILES:
        if field in found:
            found[field] = str(folder / str(found[field]))
    return found


def write_private(path: Path, document: Mapping[str, Any]) -> None:
    """Write a kubeconfig that only its owner may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(dict(document), file, sort_keys=False)
