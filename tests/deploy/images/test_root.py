"""What an image takes of its base, without running a program of it (``release/image``)."""

from __future__ import annotations

import importlib.util
import json
import platform
import struct
import sys
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from release.find_wheels import GLIBC
from release.image import root
from release.image.elf import interpreter_and_needed
from release.image.install import MACHINES, tags

PROJECT = Path(__file__).resolve().parents[3]
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads programs of Linux")
NEEDED, STRINGS, END = 1, 5, 0


def program(path: Path, *needed: str, bits: int = 2) -> Path:
    """A library that is linked with others: one segment in memory, whose last part is the dynamic section."""
    text = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    starts = [1 + sum(len(name) + 1 for name in needed[:i]) for i in range(len(needed))]
    base, strings = 0x10000, 64 + 2 * 56
    entries = [(NEEDED, start) for start in starts] + [(STRINGS, base + strings), (END, 0)]
    dynamic = b"".join(struct.pack("<qQ", *one) for one in entries)
    at, whole = strings + len(text), strings + len(text) + len(dynamic)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF" + bytes([bits, 1, 1]), 3, 183, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )  # fmt: skip
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, whole, whole, 0x1000)
    section = struct.pack(
        "<IIQQQQQQ", 2, 6, at, base + at, base + at, len(dynamic), len(dynamic), 8
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + load + section + text + dynamic)
    return path


def test_a_program_of_another_architecture_says_what_it_needs(tmp_path: Path) -> None:
    assert interpreter_and_needed(program(tmp_path / "a", "libc.so.6", "libz.so.1")) == [
        "libc.so.6", "libz.so.1",
    ]  # fmt: skip


@ON_LINUX
def test_real_programs_are_read() -> None:
    """The interpreter names its loader, and an extension module the C library."""
    loader, *others = interpreter_and_needed(Path(sys.executable).resolve())
    assert loader.startswith("/lib")
    assert "libc.so.6" in others
    module = importlib.util.find_spec("numpy._core._multiarray_umath")
    assert module is not None
    assert "libc.so.6" in interpreter_and_needed(Path(str(module.origin)))


def test_other_files_need_nothing_and_programs_of_32_bits_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "script.so"
    text.write_text("#!/bin/sh\n")
    assert interpreter_and_needed(text) == []
    with pytest.raises(ValueError, match="is not a 64-bit little-endian program"):
        interpreter_and_needed(program(tmp_path / "old", bits=1))


def test_the_libraries_of_libraries_are_found_and_those_of_packages_left_to_them(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "usr/lib/aarch64-linux-gnu"
    program(folder / "libz.so.1", "libc.so.6")
    program(folder / "libc.so.6")
    own = program(tmp_path / "venv/module.so", "libz.so.1", "libown.so")
    found = root.libraries(tmp_path, [own], {"libown.so"})
    assert found == {folder / "libz.so.1", folder / "libc.so.6"}


def test_a_missing_library_is_an_error_of_the_build(tmp_path: Path) -> None:
    """Not of the first start on a customer's node."""
    with pytest.raises(ValueError, match=r"the base image has no library libgone\.so"):
        root.libraries(tmp_path, [program(tmp_path / "module.so", "libgone.so")], set())


def test_an_absolute_link_of_the_base_stays_in_the_base(tmp_path: Path) -> None:
    """A base for another architecture is mounted: the same path outside is this machine's."""
    loader = program(tmp_path / "usr/lib/ld-2.so")
    link = tmp_path / "lib64/ld.so"
    link.parent.mkdir()
    link.symlink_to("/usr/lib/ld-2.so")
    assert [*root.with_links(tmp_path, link)] == [link, loader]


@ON_LINUX
def test_a_wheel_is_chosen_as_pip_chooses_it_on_such_a_machine() -> None:
    """Every tag that an interpreter here accepts. Those of older C libraries than an architecture has name no wheel."""
    here = {tag.platform for tag in sys_tags() if tag.platform != "any"}
    architecture = {name: docker for docker, name in MACHINES.items()}[platform.machine()]
    libc_minor = max(int(one.split("_")[2]) for one in here if one.startswith("manylinux_"))
    assert here <= {*tags(architecture, libc_minor)}


def test_only_architectures_with_wheels_are_built() -> None:
    """``release/wheels.json`` holds what the index answered: both have every package."""
    with pytest.raises(ValueError, match="no image for riscv64: only for amd64, arm64"):
        tags("riscv64", 36)
    missing = json.loads((PROJECT / "release" / "wheels.json").read_text())["missing"]
    assert {missing[f"Linux {machine}"]["3.11"] == [] for machine in MACHINES.values()} == {True}
    newest = max(int(one.split("_")[2]) for one in GLIBC if one.startswith("_2_"))
    assert newest <= 36, "wheels.json was asked for wheels that are too new for the base"
