"""How Sphinx makes the site of the documents (``make site``): plain Markdown in, pages without any foreign address out.

The source folder is the project itself, so that links between README, docs and CONTRIBUTING hold as they stand.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from release.site import navigation  # noqa: E402 - Sphinx runs this file by itself

project = "Dovetail"
version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
language = "en"

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**"]
exclude_patterns = [
    one.name for one in PROJECT.iterdir() if one.name != "docs" and one.suffix != ".md"
]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Dovetail {version}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
html_additional_pages = {"index": "index.html"}
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}

INDEX = "docs/README"
"""The index whose sections are the navigation's."""


def _add_contents(_app: Any, page: str, source: list[str]) -> None:
    """Give the first page the whole navigation, and each other index the pages that only it links to."""
    parts = list(navigation.sections((PROJECT / f"{INDEX}.md").read_text(), "docs"))
    if page == root_doc:
        source[0] += navigation.contents("", [f"All documents </{INDEX}>"])
        for part in parts:
            entries = [f"{one.title} </{one.name}>" for one in part.pages]
            source[0] += navigation.contents(part.title, entries)
    elif page.endswith("/README") and page != INDEX:
        known = {one.name for part in parts for one in part.pages}
        own = navigation.sections(source[0], str(Path(page).parent))
        names = [one.name for part in own for one in part.pages if one.name not in known]
        source[0] += navigation.contents("", [f"/{name}" for name in names]) if names else ""


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_contents)
