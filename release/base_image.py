"""``python -m release.base_image``: writes the newest digest of the base image's tag into the Dockerfile.

Asks the registry by ``docker buildx imagetools inspect``, which needs no running engine. Prints what changed; ends with
code 1 and one line when the registry does not answer.
"""

from __future__ import annotations

import re
import subprocess
import sys

from release.artefacts.images import base_image
from release.locks import PROJECT

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def newest(tag: str) -> str:
    """The digest of the index that a tag names now. Raises RuntimeError."""
    command = ["docker", "buildx", "imagetools", "inspect", tag, "--format", "{{.Manifest.Digest}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError:
        raise RuntimeError("docker is not on PATH; install Docker with buildx") from None
    if done.returncode or not DIGEST.fullmatch(done.stdout.strip()):
        raise RuntimeError(f"{tag}: the registry does not answer: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def main() -> str:
    """What to print."""
    path = PROJECT / "Dockerfile"
    text = path.read_text()
    before = base_image(text)
    after = f"{before.partition('@')[0]}@{newest(before.partition('@')[0])}"
    if before == after:
        return f"{after} is the newest"
    path.write_text(text.replace(before, after))
    return f"{before} -> {after}: build and test the images, then commit the Dockerfile"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{main()}\n")
    except RuntimeError as error:
        sys.exit(str(error))
