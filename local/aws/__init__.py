"""The AWS emulator: moto's wire protocol with our own EC2 instances, fleets, prices, faults and
interruptions.

``python -m local.aws`` runs it. Services talk to it through ``AWS_ENDPOINT_URL``; tests and the
demo steer it through ``/_dovetail/...`` (see ``control``). Everything that reaches into moto is in
``moto_patches`` and ``seeding``.
"""
