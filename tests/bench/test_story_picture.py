"""The picture in README is drawn only from the report of a real demo."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from bench.story_picture import DARK, LIGHT, draw, story_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def report() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DOCS / "story.json").read_text())
    return document


def test_the_picture_in_docs_is_that_of_the_report_beside_it(report: dict[str, Any]) -> None:
    """To update it: python -m bench.story_picture docs/story.json --output docs/story.svg --title ..."""
    there = (DOCS / "story.svg").read_text()
    title = ET.fromstring(there).findtext(f"{SVG}title") or ""
    assert draw(story_of(report), title) == there
    assert report["ok"]


def test_a_story_has_what_the_report_has(report: dict[str, Any]) -> None:
    story = story_of(report)
    assert len(story.machines) == report["launched"]
    assert story.cost[-1][1] == 0.0
    assert max(value for _, value in story.wanted) == 400
    assert [label for _, label in story.acts] == ["400 pods", "200 pods", "0 pods"]
    assert report["hourlyCost"] in [value for _, value in story.cost]


def test_both_themes_have_every_colour() -> None:
    assert LIGHT.keys() == DARK.keys()


def test_words_of_a_report_cannot_become_markup(report: dict[str, Any]) -> None:
    assert ET.fromstring(draw(story_of(report), "<script>&")).findtext(f"{SVG}title") == "<script>&"
