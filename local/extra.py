"""The extra ``local``: packages that the embedded cluster and the AWS emulator need and the services do not."""

from __future__ import annotations

from importlib.util import find_spec

from shared.errors import ConfigurationError

MODULES = ("flask", "flask_cors", "jsonpatch", "jsonschema", "moto", "werkzeug")
"""Import names of the packages."""


def missing_extra(module: str) -> ConfigurationError:
    """The error for a program that needs ``module`` without the extra."""
    return ConfigurationError(
        f"this needs the package {module}, which the extra 'local' installs: pip install 'dovetail[local]'"
    )


def require_extra() -> None:
    """Raises ConfigurationError when one of the packages is not installed."""
    for module in MODULES:
        if find_spec(module) is None:
            raise missing_extra(module)
