"""Writes objects as YAML: keys in their order, long text as blocks, no aliases."""

from __future__ import annotations

from typing import Any

import yaml

from cli.manifests.yaml_scalars import scalar_value

LINE_WIDTH = 120


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A scalar, quoted if kubectl would not read it as this text: PyYAML and kubectl differ for 1e3 and y."""
    style = None
    if "\n" in text:
        style = "|"
    elif not isinstance(scalar_value(text, None, plain=True), str):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(document: dict[str, Any]) -> str:
    """One document as YAML, without ``---``."""
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=LINE_WIDTH
    )
