"""Images of a release, by a Docker engine with buildx; without one a release has none.

One archive holds all images of this machine's architecture. With a repository they are pushed instead, for all
architectures that the builder has: each service has one name, under which every machine gets its own image.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

TARGETS = ("services", "watcher", "scheduler", "launcher", "terminator", "interruption", "console")
"""Targets of the Dockerfile. ``local`` is no part of a release: compose builds it."""
PLATFORMS = ("linux/amd64", "linux/arm64")
PATIENCE = 3600.0
_BASE = re.compile(r"^ARG BASE_IMAGE=(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class ImageBuild:
    """What all images of a release are built with. ``base`` replaces the Dockerfile's base when it is not empty."""

    project: Path
    version: str
    commit: str
    epoch: int
    base: str = ""
    repository: str = ""
    options: Sequence[str] = field(default=())

    def name(self, target: str) -> str:
        """``dovetail:1.2.3`` for all services in one image, ``dovetail-watcher:1.2.3`` for one."""
        suffix = "" if target == "services" else f"-{target}"
        return f"{self.repository or 'dovetail'}{suffix}:{self.version}"

    def command(self, target: str, output: Sequence[str]) -> list[str]:
        """``docker buildx build`` of one target."""
        base = [f"BASE_IMAGE={self.base}"] if self.base else []
        arguments = [f"COMMIT={self.commit}", f"SOURCE_DATE_EPOCH={self.epoch}", *base]
        return [
            *("docker", "buildx", "build", "--target", target, "--tag", self.name(target)),
            *(word for one in arguments for word in ("--build-arg", one)),
            *output, *self.options, str(self.project),
        ]  # fmt: skip


def base_image(dockerfile: str) -> str:
    """The base that a Dockerfile names. Raises ValueError when it names none."""
    found = _BASE.search(dockerfile)
    if found is None:
        raise ValueError("Dockerfile: there is no line `ARG BASE_IMAGE=...`")
    return found[1]


def no_engine() -> str:
    """Why no image can be built here; empty when one can."""
    if shutil.which("docker") is None:
        return "docker is not on PATH"
    for command, what in (
        (["docker", "buildx", "version"], "buildx"),
        (["docker", "info"], "engine"),
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            return (
                f"docker has no {what}: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}"
            )
    return ""


def saved(build: ImageBuild, destination: Path) -> dict[str, str]:
    """Builds all images and writes them to one archive. Returns image ids by name. Raises CalledProcessError."""
    for target in TARGETS:
        subprocess.run(build.command(target, ["--load"]), check=True, timeout=PATIENCE)
    names = [build.name(target) for target in TARGETS]
    with gzip.GzipFile(destination, mode="wb", mtime=build.epoch) as file:
        saving = subprocess.Popen(["docker", "save", *names], stdout=subprocess.PIPE)
        assert saving.stdout is not None
        shutil.copyfileobj(saving.stdout, file)
        if saving.wait(PATIENCE):
            raise subprocess.CalledProcessError(saving.returncode, "docker save")
    return {name: _inspected(name) for name in names}


def _inspected(name: str) -> str:
    command = ["docker", "image", "inspect", "--format", "{{.Id}}", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def pushed(build: ImageBuild, scratch: Path) -> dict[str, str]:
    """Builds all images for all ``PLATFORMS`` and pushes them. Returns the digests of their indexes by name.

    Raises CalledProcessError, also when the builder has no node of an architecture.
    """
    found = {}
    for target in TARGETS:
        answer = scratch / f"{target}.json"
        output = ["--platform", ",".join(PLATFORMS), "--push", "--metadata-file", str(answer)]
        subprocess.run(build.command(target, output), check=True, timeout=PATIENCE)
        found[build.name(target)] = json.loads(answer.read_text())["containerimage.digest"]
    return found
