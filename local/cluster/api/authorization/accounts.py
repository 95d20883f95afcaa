"""Kubeconfigs with tokens for the ServiceAccounts of the local stack's programs."""

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
    """Write ``folder/NAMESPACE/NAME`` for each ServiceAccount object and register its token.

    An existing file keeps its token, so programs that read it can continue after a restart of the cluster.
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
        return ""  # incomplete, because a kill interrupted the write
