"""IAM of the emulator: each service of the stack may do what deploy/iam gives its role, and nothing else.

``policies`` reads the files, ``evaluation`` is IAM's rule, ``requests`` and ``launches`` say which permissions a
request needs, ``enforcement`` refuses. Access keys that are no service's (people, tests, the CLI) may do everything.
"""
