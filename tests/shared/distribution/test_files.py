"""Data files are found in a checkout and in an installed package, and a missing one says what to do."""

from __future__ import annotations

import pytest

from shared.distribution.files import packaged
from shared.errors import ConfigurationError


def test_a_packaged_folder_is_found() -> None:
    assert (packaged("deploy", "crds") / "karpenter.sh_nodepools.yaml").exists()


def test_a_missing_file_is_named_with_the_fix() -> None:
    with pytest.raises(ConfigurationError, match=r"nothing\.json is missing: .* install it again"):
        packaged("deploy", "nothing.json")
