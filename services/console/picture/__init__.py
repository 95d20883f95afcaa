"""The cluster as the page draws it: rows of nodes and pods, made from the mirror's records."""
