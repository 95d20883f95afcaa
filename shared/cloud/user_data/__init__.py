"""User data: the scripts and settings with which a new machine joins its cluster. ``rendering.render`` is the entry."""
