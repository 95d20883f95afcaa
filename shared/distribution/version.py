"""The version of Dovetail: ``pyproject.toml`` says it, the installed package knows it."""

from importlib.metadata import version

VERSION = version("dovetail")
