"""``dovetail audit``: which promises hold in a live cluster now. ``reading`` reads, ``judging`` judges plain values."""
