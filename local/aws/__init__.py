"""The AWS emulator: moto's wire protocol with our own EC2 instances, fleets, prices, faults and interruptions.

``python -m local.aws`` runs it. Services reach it through ``AWS_ENDPOINT_URL``; tests and the demo control it through
``/_dovetail/...`` (see ``control``). All code that touches moto's internals is in ``moto`` and ``seeding``.
"""
