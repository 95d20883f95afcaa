"""Kubeconfigs of the embedded cluster: plain HTTP, with a ServiceAccount's token or without credentials."""

from __future__ import annotations

from pathlib import Path

import yaml

NAME = "dovetail-local"


def write_kubeconfig(
    path: Path | str, server_url: str, *, token: str = "", namespace: str = "default"
) -> None:
    """Write a kubeconfig with one context for ``server_url`` (``http://127.0.0.1:8001``).

    Without a ``token`` its user is the administrator. With one only the owner may read the file.
    """
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": server_url}}],
        "users": [{"name": NAME, "user": {"token": token} if token else {}}],
        "contexts": [
            {"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}
        ],
        "current-context": NAME,
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if token:
        target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
