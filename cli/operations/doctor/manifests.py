"""The manifests of this version, which an installation is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from shared.distribution.files import packaged

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where libyaml is there."""


def manifests(folder: str) -> list[tuple[Path, Any]]:
    """(file, document) of every file in a folder of ``deploy``. Raises ConfigurationError when it is not installed."""
    return [
        (path, document)
        for path in sorted(packaged("deploy", folder).glob("*.yaml"))
        for document in yaml.load_all(path.read_text(), Loader=_LOADER)
        if document
    ]
