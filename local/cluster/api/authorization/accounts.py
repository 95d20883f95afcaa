"""A kubeconfig with a token for each ServiceAccount that the local stack's programs run as."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from local.cluster.api.authorization.tokens import Tokens
from local.cluster.kubeconfig import write_kubeconfig


def write_account_kubeconfigs(
    accounts: Iterable[dict[str, Any]], tokens: Tokens, folder: Path, server_url: str
) -> None:
    """Write ``folder/NAMESPACE/NAME`` for each ServiceAccount object, and let its token stand for it.

    A token that a file has already is kept: programs that read it before a restart of the cluster go on with it.
    """
    for account in accounts:
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        path = folder / namespace / name
        token = _token_in(path) or secrets.token_urlsafe(32)
        tokens.fix(token, namespace, name)
        write_kubeconfig(path, server_url, token=token, namespace=namespace)


def _token_in(path: Path) -> str:
    if not path.is_file():
        return ""
    try:
        return str(yaml.safe_load(path.read_text())["users"][0]["user"]["token"])
    except (yaml.YAMLError, LookupError, TypeError):
        return ""  # cut off by a kill while it was written
