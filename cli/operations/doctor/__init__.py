"""``dovetail doctor``: checks of an installation. Each module is one group of checks, and only reads."""
