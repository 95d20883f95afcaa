"""Packages of others have bytecode and no sources in an image (``release/image/bytecode.py``)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from release.image.bytecode import compiled, without_sources

SHOWN = Path("/opt/venv/site")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two packages: one of this project and one of others."""
    for name in ("shared", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "part.py").write_text(
            "from importlib.resources import files\n\n\ndef fail():\n    raise ValueError\n"
        )
        (tmp_path / name / "data.txt").write_text("kept")
    compiled(tmp_path, shown_as=SHOWN)
    without_sources(tmp_path, ("shared",))
    return tmp_path


def run(site: Path, program: str) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=site, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout + done.stderr


def test_only_the_projects_own_packages_keep_their_sources(site: Path) -> None:
    found = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert {name for name in found if name.startswith("other")} == {
        "other/__init__.pyc", "other/part.pyc", "other/data.txt",
    }  # fmt: skip
    assert {"shared/__init__.py", "shared/part.py"} < found


def test_a_package_without_sources_is_imported_and_finds_its_files(site: Path) -> None:
    program = "import other.part as p; print(p.files('other').joinpath('data.txt').read_text())"
    assert run(site, program) == "kept\n"


def test_a_stack_trace_names_the_place_in_the_image_with_the_line(site: Path) -> None:
    found = run(site, "import other.part; other.part.fail()")
    assert 'File "/opt/venv/site/other/part.py", line 5, in fail' in found
