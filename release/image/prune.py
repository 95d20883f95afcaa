"""``python -m release.image.prune VENV [--all-models] [--apart FOLDER]``: removes what no service imports.

The modules that remain are compiled. With ``--apart`` packages of others have bytecode only, and those that only some
services import are moved to environments of their own, FOLDER/solver and FOLDER/expressions, which a stage may copy
over the first.
With ``--all-models`` botocore keeps the models of all AWS services: moto finds the regions of a service in its model.

Run while an image is built, in a stage that has no package of the project: only the standard library is imported.
``Dockerfile`` says when. What may go wrong: a package moves its files, and a rule then finds nothing. That is an error,
because the image would grow in silence.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from release.image.bytecode import compiled, without_sources
from release.image.elf import loadable

AWS_MODELS = frozenset(
    (
        *("arc-zonal-shift", "autoscaling", "ec2", "eks", "events", "iam", "pricing", "sqs", "ssm"),
        *("s3", "sts", "sso", "sso-oidc"),
    )
)
"""The services of botocore whose models stay: those that ``shared.cloud`` calls, and those that give credentials."""
NUMPY_WITHOUT = ("distutils", "f2py", "fft", "polynomial", "random", "testing")
"""Packages of numpy that it imports only for who asks for them. The planner asks for none."""
REDIS_WITHOUT = ("bf", "json", "search", "timeseries", "vectorset")
"""Commands of Redis modules that redis-py imports when one is sent."""
UNUSED = (
    "CHANGELOG.md",
    "google/[!_pr]*",
    "kubernetes_asyncio/client/api/[!_]*",
    "kubernetes_asyncio/client/models/[!_]*",
    "numpy/_core/_*_tests.*.so",
    "numpy/_core/_simd.*.so",
    "numpy/_core/include",
    "numpy/_core/lib",
    *(f"numpy/{name}" for name in NUMPY_WITHOUT),
    "pydantic/v1",
    "pygments/lexers/[!_]*.py",
    *(f"redis/commands/{name}" for name in REDIS_WITHOUT),
    "wcwidth/table_grapheme_overrides/_known_*.py",
    "zstandard/_cffi.*.so",
    "zstandard/backend_cffi.py",
)
"""Patterns below site-packages. Of kubernetes_asyncio no typed model is used (``shared/kube/transport``); zstandard has
one library for CPython and one for PyPy; of google's packages protobuf and the status messages are used; pygments and
wcwidth read a lexer and the table of a terminal when one is asked for, which only the CEL package's prompt does."""
INSTALLERS = (
    *("_distutils_hack", "bin", "distutils-precedence.pth", "pip", "pip-*.dist-info"),
    *("pkg_resources", "setuptools", "setuptools-*.dist-info", "wheel", "wheel-*.dist-info"),
)
"""Which of them an environment has depends on the version of Python. ``bin``: programs of packages, for the builder."""
APART = {
    "solver": ("highspy", "highspy-*.dist-info", "numpy", "numpy-*.dist-info", "numpy.libs"),
    "expressions": (
        *("cel", "common_expression_language-*.dist-info"),
        *("prompt_toolkit", "prompt_toolkit-*.dist-info", "wcwidth", "wcwidth-*.dist-info"),
    ),
}
"""Folder -> packages. Only the scheduler imports those of ``solver``, only scheduler and launcher those of
``expressions``; import rules in ``pyproject.toml`` hold that."""
OWN = ("cli", "deploy", "local", "services", "shared")
"""Folders of this project, whose stack traces show their lines."""
TESTS = "tests"
"""Folders of this name are removed wherever they are."""
SOURCE_SUFFIXES = frozenset((".a", ".c", ".h", ".pxd", ".pxi", ".pyi", ".pyx"))
"""Files for compilers and type checkers."""


def unused(site: Path, all_models: bool) -> Iterator[Path]:
    """Files and folders to remove. Raises ValueError for a rule that finds nothing."""
    for pattern in UNUSED:
        yield from found_by(pattern, site)
    for pattern in INSTALLERS:
        yield from site.glob(pattern)
    if not all_models:
        yield from unused_models(site / "botocore" / "data")
    for path in site.rglob("*"):
        if path.name == TESTS if path.is_dir() else path.suffix in SOURCE_SUFFIXES:
            yield path


def found_by(pattern: str, site: Path) -> list[Path]:
    """What a pattern finds. Raises ValueError when that is nothing."""
    found = list(site.glob(pattern))
    if not found:
        raise ValueError(f"{pattern} finds nothing in {site}; correct the rules of {__file__}")
    return found


def unused_models(data: Path) -> Iterator[Path]:
    """The folders of AWS services that are never called. Raises ValueError when a model in use is missing."""
    folders = {path.name: path for path in data.iterdir() if path.is_dir()}
    if missing := sorted(AWS_MODELS - folders.keys()):
        raise ValueError(f"{data} has no model of {', '.join(missing)}")
    yield from (path for name, path in folders.items() if name not in AWS_MODELS)


def repeated_libraries(site: Path) -> Iterator[tuple[Path, Path]]:
    """(copy, original) of equal libraries in one folder: a wheel cannot hold links."""
    for original in site.rglob("*.so.*"):
        for copy in original.parent.glob("*.so*"):
            named = original.name.startswith(copy.name + ".")
            if named and not copy.is_symlink() and copy.read_bytes() == original.read_bytes():
                yield copy, original


def prune(site: Path, *, all_models: bool) -> None:
    """Remove all that is unused, files and parts of libraries, and keep equal libraries once."""
    for path in list(unused(site, all_models)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # Its folder may be removed already.
    for library in (path for path in site.rglob("*.so*") if path.is_file()):
        library.write_bytes(loadable(library.read_bytes()))
    for copy, original in list(repeated_libraries(site)):
        copy.unlink()
        copy.symlink_to(original.name)


def move_apart(site: Path, patterns: Sequence[str], target: Path) -> None:
    """Move these packages into ``target``. Raises ValueError for a name that finds nothing."""
    target.mkdir(parents=True)
    for pattern in patterns:
        for path in found_by(pattern, site):
            shutil.move(path, target / path.name)


def main(venv: Path, all_models: bool, apart: Path | None) -> None:
    """Prune, compile, and move."""
    (site,) = venv.glob("lib/python*/site-packages")
    prune(site, all_models=all_models)
    compiled(site, shown_as=site)
    if apart is not None:
        without_sources(site, OWN)
        for folder, patterns in APART.items():
            move_apart(site, patterns, apart / folder / site.relative_to(venv))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("venv", type=Path)
    arguments.add_argument("--all-models", action="store_true")
    arguments.add_argument("--apart", type=Path)
    main(**vars(arguments.parse_args()))
