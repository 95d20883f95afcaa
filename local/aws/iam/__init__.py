"""IAM of the emulator: each service of the stack has exactly the permissions that deploy/iam gives its role.

``policies`` reads the files, ``evaluation`` implements IAM's rule, ``requests`` and ``launches`` list the permissions
that a request needs, ``enforcement`` refuses requests. Access keys of users, tests and the CLI are not restricted.
"""
