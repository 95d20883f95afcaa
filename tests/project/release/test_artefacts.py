"""What a release consists of: the same bytes for the same commit, known licences, and a statement of its origin."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import tarfile
from dataclasses import replace
from email.message import Message
from pathlib import Path

import pytest

from release.artefacts.images import TARGETS, ImageBuild, base_image
from release.artefacts.licences import Licence, expression_of, licences, report
from release.artefacts.provenance import Origin, checksums, sha256, statement, without_user
from release.artefacts.sources import repacked
from release.locks import LOCAL

PROJECT = Path(__file__).resolve().parents[3]
EPOCH = 1_700_000_000
DIGEST = "sha256:" + 64 * "a"
ORIGIN = Origin(
    "1.2.3", 40 * "c", EPOCH, "https://git.example.com/dovetail", "urn:builder", f"python:3@{DIGEST}",
    "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z",
)  # fmt: skip


def sdist(names: list[str], *, mtime: int, owner: str, mode: int) -> bytes:
    """As setuptools writes it at some time on some machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.mode = len(name), mtime, owner, mode
            archive.addfile(member, io.BytesIO(name.encode()))
    return packed.getvalue()


def test_an_sdist_depends_on_nothing_but_its_files() -> None:
    """Not on time, owner, umask or the order in which a folder is read."""
    one = sdist(["p/b", "p/a"], mtime=1, owner="root", mode=0o600)
    other = sdist(["p/a", "p/b"], mtime=9, owner="me", mode=0o664)
    assert repacked(one, EPOCH) == repacked(other, EPOCH)
    with tarfile.open(fileobj=io.BytesIO(repacked(one, EPOCH))) as archive:
        members = archive.getmembers()
        content = {one.name: file.read() for one in members if (file := archive.extractfile(one))}
    assert content == {"p/a": b"p/a", "p/b": b"p/b"}
    assert {(one.mode, one.mtime, one.uname) for one in members} == {(0o644, EPOCH, "")}


def test_a_program_in_an_sdist_stays_one() -> None:
    packed = repacked(sdist(["run"], mtime=1, owner="me", mode=0o744), EPOCH)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as archive:
        assert archive.getmember("run").mode == 0o755


@pytest.mark.parametrize(
    ("headers", "expression"),
    [
        ([("License-Expression", "MIT AND Apache-2.0")], "MIT AND Apache-2.0"),
        ([("License", "Apache 2.0")], "Apache-2.0"),
        ([("Classifier", "License :: OSI Approved :: BSD License")], "BSD"),
        ([("License", "long text"), ("Classifier", "License :: OSI Approved :: MIT License")], "MIT"),
        ([("Classifier", "License :: Other/Proprietary License")], "Other/Proprietary License"),
        ([("License", "ask us")], ""),
    ],
)  # fmt: skip
def test_a_licence_is_read_wherever_metadata_says_it(
    headers: list[tuple[str, str]], expression: str
) -> None:
    metadata = Message()
    for name, value in headers:
        metadata[name] = value
    assert expression_of(metadata) == expression


@pytest.mark.parametrize(
    ("expression", "refused"),
    [
        ("MIT", []),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", []),
        ("MIT OR GPL-3.0-only", ["GPL-3.0-only"]),
        ("AGPL-3.0-or-later", ["AGPL-3.0-or-later"]),
        ("Other/Proprietary License", ["Other/Proprietary License"]),
        ("", ["no licence"]),
    ],
)
def test_what_nobody_has_read_is_refused(expression: str, refused: list[str]) -> None:
    assert Licence("a", "1", expression).refused() == refused


def test_every_package_in_the_locks_has_an_allowed_licence() -> None:
    """A new dependency with another licence fails here, before a release does."""
    found = licences((PROJECT / LOCAL).read_text())
    assert {one.package: one.refused() for one in found if one.refused()} == {}
    assert len(found) > 80
    assert "| redis | " in report(found)


def test_a_package_that_is_not_installed_is_no_silent_pass() -> None:
    with pytest.raises(ValueError, match="nothing-of-this-name 1 is not installed here"):
        licences("nothing-of-this-name==1 \\\n")
    with pytest.raises(ValueError, match="in the lock"):
        licences("pytest==0.1 \\\n")


def test_the_provenance_names_every_artefact_and_what_it_is_made_of(tmp_path: Path) -> None:
    """An in-toto statement with SLSA's predicate: verifiers look these fields up."""
    wheel, lock = tmp_path / "a.whl", tmp_path / "requirements.lock"
    wheel.write_bytes(b"wheel")
    lock.write_bytes(b"lock")
    said = json.loads(json.dumps(statement(ORIGIN, [wheel], {"dovetail:1.2.3": DIGEST}, [lock])))
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    assert said["subject"] == [
        {"name": "a.whl", "digest": {"sha256": sha256(wheel)}},
        {"name": "dovetail:1.2.3", "digest": {"sha256": 64 * "a"}},
    ]
    definition = said["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"version": "1.2.3", "commit": 40 * "c"}
    source, locked, base = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": 40 * "c"}
    assert locked == {"name": "requirements.lock", "digest": {"sha256": sha256(lock)}}
    assert base == {"name": "python:3", "digest": {"sha256": 64 * "a"}}
    assert said["predicate"]["runDetails"]["builder"] == {"id": "urn:builder"}


def test_a_base_without_a_digest_is_named_and_nothing_is_made_up() -> None:
    origin = replace(ORIGIN, base_image="local:base")
    said = statement(origin, [], {"x": DIGEST}, [])
    assert said["predicate"]["buildDefinition"]["resolvedDependencies"][-1] == {
        "name": "local:base"
    }


def test_no_password_of_the_repository_gets_into_the_provenance() -> None:
    secret = "https://me:secret@git.example.com/a"
    assert without_user(secret) == "https://git.example.com/a"


def test_the_checksums_are_for_sha256sum(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    text = checksums([tmp_path / "b", tmp_path / "a"])
    assert [line.split()[1] for line in text.splitlines()] == ["a", "b"]
    command = ["sha256sum", "--check", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, input=text, text=True, check=False)
    assert done.returncode == 0


def test_every_image_is_a_target_of_the_dockerfile_with_a_name_of_its_own() -> None:
    text = (PROJECT / "Dockerfile").read_text()
    build = ImageBuild(PROJECT, "1.2.3", 40 * "c", EPOCH, repository="r.example.com/d")
    assert all(f" AS {target}\n" in text for target in TARGETS)
    names = [build.name(target) for target in TARGETS]
    assert names[:2] == ["r.example.com/d:1.2.3", "r.example.com/d-watcher:1.2.3"]
    assert len(set(names)) == len(TARGETS)
    assert base_image(text) == text.split("ARG BASE_IMAGE=")[1].split()[0]


def test_the_base_is_replaced_only_when_that_is_wanted() -> None:
    plain = ImageBuild(PROJECT, "1", "c", EPOCH).command("watcher", ["--load"])
    other = ImageBuild(PROJECT, "1", "c", EPOCH, base="b:1").command("watcher", ["--load"])
    assert not [word for word in plain if word.startswith("BASE_IMAGE")]
    assert "BASE_IMAGE=b:1" in other
