"""Client of the AWS emulator's control endpoint, for ``dovetail cloud``.

The emulator is that of the directory's stack, or the one that ``AWS_ENDPOINT_URL`` names when no stack runs there.

Errors: no stack runs; the endpoint is real AWS, which has no such paths; the emulator refuses a value. Each message
names the next step.
"""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cli.cloud.fields import check_numbers, worded
from cli.stack.environment import variables_of
from local.probe import exchange_json
from shared.errors import ConfigurationError, DovetailError, Unavailable, Unreachable

REQUEST_TIMEOUT_SECONDS = 30.0
ANSWER_LIMIT_BYTES = 256 * 1024 * 1024
ERROR_LIMIT_BYTES = 65_536


class CloudControl:
    """Blocking JSON requests to the emulator at ``url``."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/_dovetail"

    def get(self, path: str, **query: str) -> Any:
        """Raises ConfigurationError for a refused request, Unreachable for no answer."""
        return self.post(f"{path}?{urlencode(query)}" if query else path, None)

    def post(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """Raises ConfigurationError for a refused request, Unreachable for no answer. GET without a body."""
        url = f"{self._url}/{path}"
        check_numbers(body, path)
        try:
            return exchange_json(
                url, body, timeout=REQUEST_TIMEOUT_SECONDS, limit=ANSWER_LIMIT_BYTES
            )
        except urllib.error.HTTPError as refused:
            raise _refusal(url, refused, path) from refused
        except (OSError, ValueError) as error:
            raise Unreachable(
                f"no AWS emulator answers at {self._url} ({error}); start one with "
                "`dovetail up --detach`"
            ) from error


def _refusal(url: str, refused: urllib.error.HTTPError, path: str) -> DovetailError:
    if refused.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(f"{url} answered {refused.code}; see logs/aws.log of the stack")
    try:
        answer = json.loads(refused.read(ERROR_LIMIT_BYTES))
        error, fix = str(answer["error"]), str(answer["fix"])
        return ConfigurationError(worded(fix if error in fix else f"{error}; {fix}", path))
    except (ValueError, KeyError, TypeError):
        return ConfigurationError(
            f"{url} answered {refused.code}: this is not Dovetail's AWS emulator; unset "
            "AWS_ENDPOINT_URL and start one with `dovetail up --detach`"
        )


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that are None: options that were not given."""
    return {name: value for name, value in values.items() if value is not None}


def cloud_control(directory: Path) -> CloudControl:
    """The emulator of the stack in this directory, or of the shell's variables. Raises ConfigurationError."""
    url = variables_of(directory).get("AWS_ENDPOINT_URL")
    if not url:
        raise ConfigurationError(
            f"no stack runs in {directory} and AWS_ENDPOINT_URL is not set; run "
            "`dovetail up --detach` (or source the .dovetail/env of a running stack)"
        )
    return CloudControl(url)
