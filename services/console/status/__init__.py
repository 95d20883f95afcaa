"""The console's HTTP routes, the page's files, and who may read."""
