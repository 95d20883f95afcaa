"""The launcher brings Machines to instances and their nodes to initialised; it decides only which offering to buy.

In: the stream ``launches`` (a Machine waits for its instance) and the stream ``machines`` (nodes, pools and node
classes that changed). Out: CreateFleet, launch templates and instance profiles in AWS; status, labels and events of
Machines, nodes and node classes; ``LaunchFailed`` on ``machines``, and orders on ``terminations``. It owns
LaunchRecords, the catalogue of instance types in Redis, the unavailable offerings and the launch back-off.
"""
