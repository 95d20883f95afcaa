"""The kubeconfig of the embedded cluster: plain HTTP, no credentials."""

from __future__ import annotations

from pathlib import Path

import yaml

NAME = "dovetail-local"


def write_kubeconfig(path: Path | str, server_url: str) -> None:
    """Write a kubeconfig with one context for ``server_url`` (``http://127.0.0.1:8001``)."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": server_url}}],
        "users": [{"name": NAME, "user": {}}],
        "contexts": [
            {"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}
        ],
        "current-context": NAME,
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
