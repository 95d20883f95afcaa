"""Existing clusters: ``dovetail up --kubeconfig`` installs Dovetail on a cluster that the stack did not start.

``kubeconfig`` reads the cluster's address, ``guard`` refuses clusters that are not test clusters, ``preparation``
creates definitions, rights and tokens, ``kubelets`` simulates the nodes of the emulator's instances, and ``removal``
deletes all of it.
"""
