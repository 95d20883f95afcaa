"""One fault in the code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """``old`` stands exactly once in ``file`` and is replaced by ``new``. ``breaks``: what is wrong then, for people.

    ``scenario``: the runs in which it is searched. ``harmless``: why no invariant can see it, when that is shown.
    ``missing``: what has to happen in a run for it to be seen, of one that was not found. ``minutes`` and
    ``quiet_seconds`` of its runs; 0: as usual.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    scenario: str = "mixed"
    harmless: str = ""
    missing: str = ""
    minutes: float = 0.0
    quiet_seconds: float = 0.0

    def change(self, text: str) -> str:
        """The text of the file with the fault. Raises ValueError unless ``old`` stands in it once."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"mutant {self.name}: {self.file} has its text {text.count(self.old)} times"
            )
        return text.replace(self.old, self.new)
