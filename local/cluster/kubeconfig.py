"""Kubeconfigs of the embedded cluster: plain HTTP, with a ServiceAccount's token or without credentials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

NAME = "dovetail-local"


def kubeconfig(
    name: str, cluster: Mapping[str, Any], user: Mapping[str, Any], namespace: str
) -> dict[str, Any]:
    """A kubeconfig with one context, whose parts all have the same name."""
    context = {"cluster": name, "user": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


def write_kubeconfig(
    path: Path | str, server_url: str, *, token: str = "", namespace: str = "default"
) -> None:
    """Write a kubeconfig with one context for ``server_url`` (``http://127.0.0.1:8001``).

    Without a ``token`` its user is the administrator. With one only the owner may read the file.
    """
    user = {"token": token} if token else {}
    config = kubeconfig(NAME, {"server": server_url}, user, namespace)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if token:
        target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
