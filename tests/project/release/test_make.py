"""``make release`` makes a whole release from a clone, and says what this machine cannot make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from release.artefacts.provenance import sha256
from release.locks import PROJECT
from release.make import PARTS, TOOLS

NEEDS_TOOLS = pytest.mark.skipif(
    not (TOOLS / "cyclonedx-py").exists(), reason="no release tools here: make .venv/release/.installed"
)  # fmt: skip
SAME = ("*.whl", "*.tar.gz", "*.cdx.json", "LICENCES.md")
"""What depends on the commit alone."""


def clone(folder: Path) -> Path:
    """A clone of this checkout with its environments."""
    subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(folder)], check=True, timeout=120)
    (folder / ".venv").symlink_to(PROJECT / ".venv")
    exclude = folder / ".git" / "info" / "exclude"
    exclude.write_text(".venv\n")
    return folder


def made(source: Path, target: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELEASE_")}
    done = subprocess.run(
        [sys.executable, "-m", "release.make", "--folder", str(target), *words],
        cwd=source, env=kept | {"PYTHONPATH": str(source)} | environment,
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_release_of_what_is_not_committed_is_refused(tmp_path: Path) -> None:
    source = clone(tmp_path / "clone")
    (source / "README.md").write_text("changed")
    code, _, error = made(source, tmp_path / "dist")
    assert code == 1
    assert "commit these changes first" in error
    assert "README.md" in error
    assert not (tmp_path / "dist").exists()


@NEEDS_TOOLS
@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_whole_release_is_complete_signed_and_the_same_twice(tmp_path: Path) -> None:
    """From two clones: the packages and bills of materials are the same bytes. No engine is looked for here."""
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    make_key = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)]
    subprocess.run(make_key, check=True, timeout=60)
    make_public = ["openssl", "ec", "-in", str(key), "-pubout", "-out", str(public)]
    subprocess.run(make_public, check=True, timeout=60)
    folders = []
    for name in ("one", "two"):
        code, output, error = made(
            clone(tmp_path / name), tmp_path / f"dist-{name}", "--require", "signature",
            RELEASE_SIGNING_KEY=str(key), DOCKER_HOST="unix:///nowhere",
        )  # fmt: skip
        assert code == 0, output + error
        assert [line.split()[0] for line in output.splitlines()] == [*PARTS, "in"]
        assert "images     NOT MADE: docker" in output
        (folder,) = (tmp_path / f"dist-{name}").iterdir()
        folders.append(folder)
    same = {one.name for kind in SAME for one in folders[0].glob(kind)}
    assert len(same) == 5
    assert [n for n in same if sha256(folders[0] / n) != sha256(folders[1] / n)] == []
    assert_complete(folders[0], public)


def assert_complete(folder: Path, public: Path) -> None:
    """Checksums and signature hold; the statement names the packages, the bill every package of the lock by hash."""
    run = {"cwd": folder, "timeout": 60, "check": True}
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], **run)  # type: ignore[call-overload]
    verify = ["openssl", "dgst", "-sha256", "-verify", str(public), "-signature", "SHA256SUMS.sig"]
    subprocess.run([*verify, "SHA256SUMS"], **run)  # type: ignore[call-overload]
    (path,) = folder.glob("*.intoto.json")
    subjects = {one["name"]: one["digest"] for one in json.loads(path.read_text())["subject"]}
    (wheel,) = folder.glob("*.whl")
    assert subjects[wheel.name] == {"sha256": sha256(wheel)}
    (bill,) = folder.glob("*-services.cdx.json")
    document = json.loads(bill.read_text())
    lock = (PROJECT / "requirements.lock").read_text()
    parts = {one["name"]: one for one in document["components"]}
    assert {line.split("==")[0] for line in lock.splitlines() if line[:1].isalnum()} == parts.keys()
    assert document["metadata"]["component"]["name"] == "dovetail"
    assert all(reference["hashes"] for one in parts.values() for reference in one["externalReferences"])  # fmt: skip


@pytest.mark.slow
def test_without_a_key_a_release_that_needs_a_signature_fails(tmp_path: Path) -> None:
    """``--require`` turns what is named as not made into an error."""
    script = (
        "import sys; from pathlib import Path; import release.make as m; "
        "m.PARTS = {'signature': m.signature}; sys.exit(m.main(Path(sys.argv[1]), ['signature']))"
    )
    source = clone(tmp_path / "clone")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELEASE_")}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "dist")], cwd=source, env=kept | {"PYTHONPATH": str(source)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "NOT MADE: RELEASE_SIGNING_KEY names no key" in done.stdout
    assert done.stderr == "no release: --require names what was not made: signature\n"
