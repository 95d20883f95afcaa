"""The version of the installed package, as set in ``pyproject.toml``."""

from importlib.metadata import version

VERSION = version("dovetail")
