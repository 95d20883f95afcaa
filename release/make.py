"""``python -m release.make``: everything that a release consists of, in ``dist/VERSION/`` (``make release``).

Built from the commit that is checked out, not from the working tree. What this machine cannot make is named, and is an
error only with ``--require``. Environment:

* ``RELEASE_SIGNING_KEY``: file with an EC private key (PEM). With it, ``SHA256SUMS.sig`` is written.
* ``RELEASE_REPOSITORY``: such as ``registry.example.com/team/dovetail``. With it, images are pushed for all
  architectures; without it, ``images.tar.gz`` has those for this machine's.
* ``RELEASE_BASE_IMAGE``: another base than the Dockerfile names.
* ``RELEASE_BUILDER``: URI of the builder in the provenance.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from release.artefacts import sources
from release.artefacts.images import ImageBuild, base_image, no_engine, pushed, saved
from release.artefacts.licences import licences, report
from release.artefacts.provenance import Origin, checksums, sha256, statement, without_user
from release.locks import BUILD, LOCAL, PROJECT, SERVICES

TOOLS = PROJECT / ".venv" / "release" / "bin"
CHARTS = ("deploy/chart", "deploy/chart-crds")
PATIENCE = 600.0


class NotHere(Exception):
    """This machine cannot make a part of a release; the text says why."""


class ReleaseError(Exception):
    """The release must not be made; the text says why."""


@dataclass
class Release:
    """One release, and what of it was made."""

    version: str
    commit: str
    epoch: int
    folder: Path
    started: str
    images: dict[str, str] = field(default_factory=dict)

    @property
    def artefacts(self) -> list[Path]:
        """All files but the checksums and their signature."""
        return sorted(one for one in self.folder.iterdir() if not one.name.startswith("SHA256SUMS"))


def packages(release: Release) -> str:
    """Wheel and sdist, built twice: they must be the same bytes."""
    first = _packages(release, release.folder)
    with tempfile.TemporaryDirectory() as scratch:
        second = _packages(release, Path(scratch))
        pairs = zip(first, second, strict=True)
        differing = [one.name for one, other in pairs if sha256(one) != sha256(other)]
    if differing:
        raise ReleaseError(f"two builds differ in {', '.join(differing)}")
    return f"{', '.join(one.name for one in first)}; two builds gave the same bytes"


def _packages(release: Release, folder: Path) -> list[Path]:
    return sources.build(PROJECT, release.commit, release.epoch, folder, TOOLS / "python")


def bills(release: Release) -> str:
    """One CycloneDX document for each lock that images install."""
    for name, lock in (("services", SERVICES), ("local", LOCAL)):
        target = release.folder / f"dovetail-{release.version}-{name}.cdx.json"
        _run(
            TOOLS / "cyclonedx-py", "requirements", "--pyproject", "pyproject.toml",
            "--mc-type", "application", "--output-reproducible", "--spec-version", "1.6",
            "--output-format", "JSON", "--output-file", target, lock,
        )  # fmt: skip
    return "CycloneDX 1.6 from the hashed locks"


def licence_report(release: Release) -> str:
    """Of all packages in the locks; one that is not allowed ends the release."""
    try:
        found = licences((PROJECT / LOCAL).read_text())
    except ValueError as error:
        raise ReleaseError(str(error)) from error
    refused = [f"{one.package} ({', '.join(one.refused())})" for one in found if one.refused()]
    if refused:
        raise ReleaseError(
            f"licences that are not in the list of allowed ones: {'; '.join(refused)}"
        )
    (release.folder / "LICENCES.md").write_text(report(found))
    return f"{len(found)} packages, all allowed"


def audit(release: Release) -> str:
    """Known vulnerabilities of the locked packages, as the index answers."""
    command = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run(
        [TOOLS / "pip-audit", *command, "--requirement", LOCAL],
        cwd=PROJECT, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise NotHere(f"the index has no answer to pip-audit: {reason[-200:]}") from None
    skipped = [one["name"] for one in found if "skip_reason" in one]
    faults = [f"{one['name']}: {fault['id']}" for one in found for fault in one.get("vulns", [])]
    (release.folder / "audit.json").write_text(json.dumps(found, indent=1) + "\n")
    if faults:
        raise ReleaseError(f"known vulnerabilities: {', '.join(faults)}")
    if skipped:
        named = f"{', '.join(skipped[:3])}{' and others' if skipped[3:] else ''}"
        raise NotHere(f"the index says nothing of {len(skipped)} of {len(found)} packages: {named}")
    return f"{len(found)} packages without a known vulnerability"


def charts(release: Release) -> str:
    """The Helm charts, with the version of the release."""
    found = [name for name in CHARTS if (PROJECT / name / "Chart.yaml").exists()]
    if not found:
        raise NotHere("this commit has no deploy/chart")
    if shutil.which("helm") is None:
        raise NotHere("helm is not on PATH")
    version = ("--version", release.version, "--app-version", release.version)
    for name in found:
        _run("helm", "package", name, *version, "--destination", release.folder)
    return ", ".join(found)


def images(release: Release) -> str:
    """One image for each service, and one for all."""
    if reason := no_engine():
        raise NotHere(reason)
    build = ImageBuild(
        PROJECT, release.version, release.commit, release.epoch,
        base=os.environ.get("RELEASE_BASE_IMAGE", ""),
        repository=os.environ.get("RELEASE_REPOSITORY", ""),
        options=os.environ.get("RELEASE_BUILD_OPTIONS", "").split(),
    )  # fmt: skip
    if build.repository:
        with tempfile.TemporaryDirectory() as scratch:
            release.images = pushed(build, Path(scratch))
    else:
        release.images = saved(build, release.folder / f"dovetail-{release.version}-images.tar.gz")
    lines = (f"{name} {digest}\n" for name, digest in release.images.items())
    (release.folder / "images.txt").write_text("".join(lines))
    return ", ".join(release.images)


def provenance(release: Release) -> str:
    """Says which commit, builder and materials the artefacts are from."""
    base = os.environ.get("RELEASE_BASE_IMAGE") or base_image((PROJECT / "Dockerfile").read_text())
    origin = Origin(
        release.version, release.commit, release.epoch,
        source=without_user(_git("config", "--default", "", "--get", "remote.origin.url")),
        builder=os.environ.get("RELEASE_BUILDER", "urn:dovetail:builder:unnamed"),
        base_image=base, started=release.started, finished=_now(),
    )  # fmt: skip
    materials = [PROJECT / name for name in (SERVICES, LOCAL, BUILD)]
    document = statement(origin, release.artefacts, release.images, materials)
    path = release.folder / f"dovetail-{release.version}.intoto.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path.name


def sums(release: Release) -> str:
    """SHA-256 of every artefact."""
    (release.folder / "SHA256SUMS").write_text(checksums(release.artefacts))
    return "SHA256SUMS"


def signature(release: Release) -> str:
    """Of the checksums, which cover everything else."""
    key = os.environ.get("RELEASE_SIGNING_KEY")
    if not key:
        raise NotHere("RELEASE_SIGNING_KEY names no key, so nothing is signed")
    target = release.folder / "SHA256SUMS.sig"
    _run("openssl", "dgst", "-sha256", "-sign", key, "-out", target, release.folder / "SHA256SUMS")
    return target.name


PARTS: dict[str, Callable[[Release], str]] = {
    "packages": packages, "bills": bills, "licences": licence_report, "audit": audit, "charts": charts,
    "images": images, "provenance": provenance, "sums": sums, "signature": signature,
}  # fmt: skip
"""In their order: provenance and checksums cover what is made before them."""


def made(release: Release) -> Iterator[tuple[str, bool, str]]:
    """(part, whether it was made, what or why not). Raises ReleaseError."""
    for name, make in PARTS.items():
        try:
            yield name, True, make(release)
        except NotHere as reason:
            yield name, False, str(reason)
        except subprocess.CalledProcessError as error:
            said = (
                (error.stderr or b"").decode() if isinstance(error.stderr, bytes) else error.stderr
            )
            raise ReleaseError(f"{name}: {error.cmd} failed: {(said or '')[-1000:]}") from error


def _run(*command: str | Path) -> None:
    words = [str(word) for word in command]
    subprocess.run(words, cwd=PROJECT, check=True, capture_output=True, text=True, timeout=PATIENCE)


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def begun(folder: Path) -> Release:
    """The release of the commit that is checked out, with an empty folder. Raises ReleaseError."""
    if changed := _git("status", "--porcelain"):
        raise ReleaseError(
            f"commit these changes first: a release is made from a commit:\n{changed}"
        )
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    target = folder / version
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    epoch = int(_git("show", "--no-patch", "--format=%ct", "HEAD"))
    return Release(version, _git("rev-parse", "HEAD"), epoch, target, _now())


def main(folder: Path, require: list[str]) -> int:
    """Make everything and print one line for each part. Returns the exit code."""
    try:
        release = begun(folder)
        absent = []
        for name, done, text in made(release):
            sys.stdout.write(f"{name:11}{'' if done else 'NOT MADE: '}{text}\n")
            sys.stdout.flush()
            absent += [] if done else [name]
    except ReleaseError as error:
        sys.stderr.write(f"no release: {error}\n")
        return 1
    sys.stdout.write(f"{'in':11}{release.folder}\n")
    if missing := sorted({*absent} & {*require}):
        sys.stderr.write(f"no release: --require names what was not made: {', '.join(missing)}\n")
        return 1
    return 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", type=Path, default=PROJECT / "dist")
    arguments.add_argument("--require", nargs="*", default=[], choices=sorted(PARTS))
    sys.exit(main(**vars(arguments.parse_args())))
