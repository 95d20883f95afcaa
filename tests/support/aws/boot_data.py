"""Reads rendered user data back with the parsers of those who run it: cloud-init, a shell, nodeadm, PowerShell."""

from __future__ import annotations

import re
import shlex
import tomllib
from email import message_from_string
from email.message import Message
from typing import Any, NamedTuple

import yaml

from shared.cloud.user_data.bootstrap import Bootstrap
from shared.cloud.user_data.rendering import render, written

PLAIN = Bootstrap(cluster_name="demo", endpoint="https://demo.example", ca_bundle="Q0E=")
_QUOTES = "'\u2018\u2019\u201a\u201b"
"""Characters that PowerShell accepts as a single quote."""


class Said(NamedTuple):
    """The settings of a node in one form for all image families; labels and taints as in kubelet flags."""

    cluster: str
    endpoint: str
    ca_bundle: str
    labels: str
    taints: str
    max_pods: int


def bootstrap(**changes: Any) -> Bootstrap:
    return Bootstrap(**({**PLAIN.__dict__} | changes))


def said(family: str, asked: Bootstrap) -> Said:
    """Render the user data and parse it."""
    return read_back(family, render(family, asked))


def quoted(family: str, asked: Bootstrap) -> Said:
    """As ``said``, by the quotes alone: nothing is refused."""
    return read_back(family, written(family, asked))


def read_back(family: str, text: str) -> Said:
    """Parse user data by the rules of the program that runs it."""
    if family == "Bottlerocket":
        return _by_settings(tomllib.loads(text)["settings"]["kubernetes"])
    if family.startswith("Windows"):
        found = powershell_arguments(text)
        flags = flags_of(shlex.split(found["KubeletExtraArgs"]))
        known = (found["EKSClusterName"], found["APIServerEndpoint"], found["Base64ClusterCA"])
        return Said(*known, *_identity(flags))
    if family == "AL2023":
        return _by_node_config(node_config(text))
    command = bootstrap_command(text)
    return Said(command[1], command[3], command[5], *_identity(flags_of(extra_words(command))))


def parts(text: str) -> list[Message]:
    """The parts of a MIME document."""
    return [part for part in message_from_string(text).walk() if not part.is_multipart()]


def body(part: Message) -> str:
    return str(part.get_payload())


def bootstrap_command(text: str) -> list[str]:
    """The words of the last part's bootstrap.sh call, as a shell reads them."""
    script = body(parts(text)[-1])
    return shlex.split(script[script.index("/etc/eks/bootstrap.sh") :])


def extra_words(command: list[str]) -> list[str]:
    """The kubelet's flags, as systemd splits them."""
    return shlex.split(command[command.index("--kubelet-extra-args") + 1])


def flags_of(words: list[str]) -> dict[str, str]:
    assert all(word.startswith("--") for word in words), words
    pairs = (word.removeprefix("--").partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def node_config(text: str) -> dict[str, Any]:
    """The spec of the last part, which wins."""
    document = yaml.safe_load(body(parts(text)[-1]))
    assert document["kind"] == "NodeConfig"
    spec: dict[str, Any] = document["spec"]
    return spec


def powershell_arguments(text: str) -> dict[str, str]:
    """Parameters of the last call, with PowerShell's rule for single quotes: a doubled one is one, nothing expands."""
    start = text.rindex("& $EKSBootstrapScriptFile ")
    rest = text[start:].removeprefix("& $EKSBootstrapScriptFile ")
    rest = rest[: rest.rindex("\n</powershell>")]
    found: dict[str, str] = {}
    while rest:
        named = re.match(r" ?-(\w+) '", rest)
        assert named, rest
        value, rest = _quoted(rest[named.end() :])
        found[named[1]] = value
    return found


def _quoted(text: str) -> tuple[str, str]:
    value, at = "", 0
    while True:
        if text[at] in _QUOTES:
            if text[at + 1 : at + 2] not in tuple(_QUOTES):
                return value, text[at + 1 :]
            at += 1
        value += text[at]
        at += 1


def _identity(flags: dict[str, str]) -> tuple[str, str, int]:
    return flags["node-labels"], flags["register-with-taints"], int(flags["max-pods"])


def _by_node_config(spec: dict[str, Any]) -> Said:
    cluster, config = spec["cluster"], spec["kubelet"]["config"]
    (labels,) = spec["kubelet"]["flags"]
    taints = (
        f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in config["registerWithTaints"]
    )
    known = (cluster["name"], cluster["apiServerEndpoint"], cluster["certificateAuthority"])
    return Said(*known, labels.removeprefix("--node-labels="), ",".join(taints), config["maxPods"])


def _by_settings(kubernetes: dict[str, Any]) -> Said:
    labels = (f"{key}={value}" for key, value in kubernetes["node-labels"].items())
    taints = (
        f"{key}={value}" for key, values in kubernetes["node-taints"].items() for value in values
    )
    return Said(
        kubernetes["cluster-name"],
        kubernetes["api-server"],
        kubernetes["cluster-certificate"],
        ",".join(labels),
        ",".join(taints),
        kubernetes["max-pods"],
    )
