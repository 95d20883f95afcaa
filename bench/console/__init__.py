"""The console's page in a real browser: its speed and memory (``python -m bench.console``), and pictures of it."""
