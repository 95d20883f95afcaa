"""The state of the cluster that decisions are made from: the mirror, our own writes, and what AWS offers."""
