"""What a container of a Pod becomes on this machine: a command, its variables, and folders for its volumes."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.redis_server import find_redis_server

Json = dict[str, Any]
Find = Callable[[str, str], Json]
"""An object of the pod's namespace, by plural and name. Raises LookupError."""


@dataclass(frozen=True)
class Program:
    """A command and its environment."""

    command: list[str]
    environment: dict[str, str]


def program(
    pod: Json, find: Find, folder: Path, address: str, redis_address: str, local: Mapping[str, str]
) -> Program:
    """The pod's one container. ``local``: variables that say where things are on this machine; they win.

    ``address`` takes the place of all addresses on which it listens, and ``redis_address`` that of Redis' Service and
    of the Redis that the documents have as an example of one's own. Raises LookupError while a Secret or ConfigMap is
    missing.
    """
    (container,) = pod["spec"]["containers"]
    mounts = mounted(pod, container, find, folder)
    stated = variables(container, find)
    hosts = (f"@dovetail-redis.{pod['metadata']['namespace']}.svc:", "@redis.example.com:")
    here = {name: _placed(value, mounts) for name, value in stated.items()}
    for host in hosts:
        here["REDIS_URL"] = here.get("REDIS_URL", "").replace(host, f"@{redis_address}:")
    words = [_placed(word, mounts) for word in (*container["command"], *container.get("args", ()))]
    if words[0] == "redis-server":
        command = [str(find_redis_server()), "--bind", address, *words[1:]]
    else:
        command = [sys.executable, *words[1:]]
    return Program(command, {**here, "STATUS_HOST": address, **local})


def variables(container: Json, find: Find) -> dict[str, str]:
    """Those of ``envFrom`` and ``env``. Raises LookupError while a Secret or ConfigMap is missing."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            found |= find("configmaps", source["configMapRef"]["name"]).get("data", {})
        else:
            found |= decoded(find("secrets", source["secretRef"]["name"]))
    return found | {one["name"]: _value(one, find) for one in container.get("env", ())}


def _value(one: Json, find: Find) -> str:
    if "value" in one:
        return str(one["value"])
    reference = one["valueFrom"]["secretKeyRef"]
    return decoded(find("secrets", reference["name"]))[reference["key"]]


def decoded(secret: Json) -> dict[str, str]:
    """The data of a Secret as text."""
    return {
        name: base64.b64decode(value).decode() for name, value in secret.get("data", {}).items()
    }


def mounted(pod: Json, container: Json, find: Find, folder: Path) -> dict[str, str]:
    """The folder on this machine for each mount path. Secrets are written into theirs; other volumes begin empty."""
    volumes = {one["name"]: one for one in pod["spec"].get("volumes", ())}
    places = {}
    for mount in container.get("volumeMounts", ()):
        place = folder / mount["name"]
        place.mkdir(parents=True, exist_ok=True)
        places[mount["mountPath"]] = str(place)
        if secret := volumes[mount["name"]].get("secret"):
            for name, text in decoded(find("secrets", secret["secretName"])).items():
                (place / name).write_text(text)
    return places


def _placed(word: str, mounts: Mapping[str, str]) -> str:
    """``word`` with the folder of this machine, if it is a path in a volume."""
    for path, place in mounts.items():
        if word == path or word.startswith(f"{path}/"):
            return place + word.removeprefix(path)
    return word
