"""Helm: the program, and its output as files of plain manifests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from shared.errors import ConfigurationError

NAME = NAMESPACE = "dovetail"
"""Of the release that the plain manifests are."""
HOW = "helm is not on PATH: install it from https://helm.sh, or run make helm, which builds it with Go"
KUBERNETES = "1.32"
"""The version that Helm renders for; a Helm without a cluster takes an old one."""
SECONDS = 60
SOURCE = "# Source: "
FILES = {
    "namespace": "00-namespace.yaml",
    "settings": "01-settings.yaml",
    "network": "02-network.yaml",
}
"""Files whose objects others need: kubectl applies a folder by the names of its files."""


def template(
    chart: Path, *options: str, values: Sequence[Path] = (), namespace: str = NAMESPACE
) -> str:
    """The objects of a release of ``chart``. Raises ConfigurationError with Helm's words."""
    files = [word for path in values for word in ("--values", str(path))]
    words = ["template", NAME, str(chart), "--namespace", namespace, "--kube-version", KUBERNETES]
    return helm(*words, *files, *options)


def helm(*words: str) -> str:
    """The output of helm. Raises ConfigurationError with its words, or when there is none."""
    program = shutil.which("helm")
    if program is None:
        raise ConfigurationError(HOW)
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise ConfigurationError(f"helm {words[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def files_of(rendered: str) -> dict[str, str]:
    """The objects by the file of the plain manifests that has them, with their comments.

    In Helm's order but for budgets, which Helm puts before the text that a file begins with.
    """
    found: dict[str, list[str]] = {}
    for document in ("\n" + rendered).split("\n---\n"):
        source, _, text = document.strip("\n").partition("\n")
        if _is_object(text):
            name = Path(source.removeprefix(SOURCE)).stem
            found.setdefault(FILES.get(name, f"{name}.yaml"), []).append(_tidy(text))
    return {name: "---\n".join(sorted(texts, key=_is_budget)) for name, texts in found.items()}


def _is_budget(text: str) -> bool:
    return "kind: PodDisruptionBudget\n" in text


def _is_object(text: str) -> bool:
    return any(line and not line.startswith("#") for line in text.splitlines())


def _tidy(text: str) -> str:
    """Without the lines of blanks that a template leaves."""
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines() if line.strip())
