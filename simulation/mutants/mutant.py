"""One fault in the code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old`` stands exactly once in ``file`` and is replaced by ``new``. ``breaks``: what is wrong then, for people.

    ``scenario``: the runs in which it is searched first. ``harmless``: why no invariant can see it, when that is shown.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    scenario: str = "mixed"
    harmless: str = ""

    def apply(self, tree: Path) -> None:
        """Change the file below ``tree``. Raises ValueError unless ``old`` stands there once."""
        path = tree / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"mutant {self.name}: {self.file} has its text {text.count(self.old)} times"
            )
        path.write_text(text.replace(self.old, self.new))
