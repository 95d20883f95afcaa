"""The control endpoint of the AWS emulator, for ``dovetail cloud``.

The emulator is that of the directory's stack, or the one that ``AWS_ENDPOINT_URL`` names when no
stack runs there.

What may go wrong: no stack runs; the endpoint is real AWS, which has no such paths; the emulator
refuses a value. Each message says what to do next.
"""

from __future__ import annotations

import json
import os
import urllib.error
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from rich.console import Console

from cli.stack.running_stack import variables_of
from local.probe import exchange_json
from shared.errors import ConfigurationError, DovetailError, Unavailable, Unreachable

PATIENCE_SECONDS = 30.0
ANSWER_LIMIT = 256 * 1024 * 1024


class CloudControl:
    """Blocking JSON requests to the emulator at ``url``."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/_dovetail"

    def get(self, path: str, **query: str) -> Any:
        """Raises ConfigurationError for a refused request, Unreachable for no answer."""
        return self._ask(f"{path}?{urlencode(query)}" if query else path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Raises ConfigurationError for a refused request, Unreachable for no answer."""
        return self._ask(path, body)

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> Any:
        url = f"{self._url}/{path}"
        try:
            return exchange_json(url, body, timeout=PATIENCE_SECONDS, limit=ANSWER_LIMIT)
        except urllib.error.HTTPError as refused:
            raise _refusal(url, refused) from refused
        except (OSError, ValueError) as error:
            raise Unreachable(
                f"no AWS emulator answers at {self._url} ({error}); start one with "
                "`dovetail up --detach`"
            ) from error


def _refusal(url: str, refused: urllib.error.HTTPError) -> DovetailError:
    if refused.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(f"{url} answered {refused.code}; logs/aws.log of the stack says why")
    try:
        told = json.loads(refused.read(65_536))
        error, fix = str(told["error"]), str(told["fix"])
        return ConfigurationError(fix if error in fix else f"{error}; {fix}")
    except (ValueError, KeyError, TypeError):
        return ConfigurationError(
            f"{url} answered {refused.code}: this is no AWS emulator of Dovetail; unset "
            "AWS_ENDPOINT_URL and start one with `dovetail up --detach`"
        )


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody gave (None)."""
    return {name: value for name, value in values.items() if value is not None}


def said(text: str) -> None:
    """One line on stdout, as it is."""
    Console().print(text, highlight=False, soft_wrap=True, markup=False)


def cloud_control(directory: Path, variables: Mapping[str, str] = os.environ) -> CloudControl:
    """The emulator that this directory or these variables mean. Raises ConfigurationError."""
    url = variables_of(directory, variables).get("AWS_ENDPOINT_URL")
    if not url:
        raise ConfigurationError(
            f"no stack runs in {directory} and AWS_ENDPOINT_URL is not set; run "
            "`dovetail up --detach` (or source the .dovetail/env of a running stack)"
        )
    return CloudControl(url)
