"""``dovetail profile``: where a running service spends its time."""

from __future__ import annotations

import json
import os
import urllib.error
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.kubectl.addresses import SERVICES
from cli.printing import print_line
from cli.stack.environment import StackOption, variables_of
from cli.stack.requests import TOKEN
from local.probe import read_text
from local.stack import DEFAULT_DIRECTORY
from shared.errors import ConfigurationError, DovetailError, Unavailable, Unreachable

ANSWER_SECONDS = 30.0
"""How long the answer may take beyond the time of sampling."""
ERROR_LIMIT_BYTES = 64 * 2**10


class Format(StrEnum):
    """``collapsed``: a line for each stack, for flame graphs. ``speedscope``: JSON for speedscope.app."""

    collapsed = "collapsed"
    speedscope = "speedscope"


def profile(
    service: Annotated[str, typer.Argument(help="The service, for example scheduler.")],
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=60.0, help="How long it is sampled.")
    ] = 5.0,
    form: Annotated[
        Format, typer.Option("--format", help="For flame graphs, or for speedscope.")
    ] = Format.collapsed,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; default: standard output.")
    ] = None,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Sample a running service, and print where its threads were.

    The service needs PROFILING=true, and a token in DOVETAIL_TOKEN where it asks for one. Each line is a stack,
    outermost function first, and how often it was seen; the most frequent is first. Samples are taken a hundred times
    a second.

    Examples:

      dovetail profile scheduler --seconds 10 | head

      dovetail profile watcher --format speedscope --output watcher.json
    """
    if output is not None:
        _check_place(output)
    url = f"{_address(service, directory)}/debug/profile?seconds={seconds}&format={form.value}"
    text = _read(url, service, seconds)
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--output: {error}") from error
    print_line(f"written to {output}")


def _check_place(output: Path) -> None:
    """Before a minute is spent. Raises ConfigurationError."""
    if output.is_dir():
        raise ConfigurationError(f"--output: {output} is a directory; name a file")
    if not output.parent.is_dir():
        raise ConfigurationError(
            f"--output: there is no directory {output.parent}; create it first"
        )


def _address(service: str, directory: Path) -> str:
    if service not in SERVICES:
        raise ConfigurationError(f"there is no service {service!r}; they are {', '.join(SERVICES)}")
    variable = f"DOVETAIL_{service.upper()}_URL"
    url = variables_of(directory).get(variable, "")
    if not url:
        raise ConfigurationError(
            f"no stack runs here and {variable} is not set; in a cluster: kubectl port-forward -n dovetail "
            f"deploy/dovetail-{service} 8080, then export {variable}=http://127.0.0.1:8080"
        )
    return url.rstrip("/")


def _read(url: str, service: str, seconds: float) -> str:
    try:
        token = os.environ.get(TOKEN, "")
        return read_text(url, timeout=seconds + ANSWER_SECONDS, token=token)
    except urllib.error.HTTPError as refused:
        raise _refusal(refused, service) from refused
    except OSError as error:
        raise Unreachable(
            f"the {service} does not answer ({error}); `dovetail status` shows what runs"
        ) from error


def _refusal(refused: urllib.error.HTTPError, service: str) -> DovetailError:
    if refused.code == 404:
        return ConfigurationError(
            f"the {service} serves no profile: set PROFILING=true on it and start it again"
        )
    try:
        problem = str(json.loads(refused.read(ERROR_LIMIT_BYTES))["error"])
    except (ValueError, KeyError, TypeError):
        problem = f"it answered {refused.code}"
    return Unavailable(f"{service}: {problem}")
