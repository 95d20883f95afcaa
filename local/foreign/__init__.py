"""A cluster that the stack did not start: ``dovetail up --kubeconfig`` puts Dovetail on it while the stack runs.

``kubeconfig`` reads where it is, ``guard`` refuses what is no test cluster, ``preparation`` creates definitions, rights
and tokens, ``kubelets`` plays the nodes that instances of the emulator become, ``removal`` takes all of it away.
"""
