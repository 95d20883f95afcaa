"""User data: what a new machine runs at first boot to join its cluster. ``rendering.render`` is the entry."""
