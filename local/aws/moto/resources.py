"""Import moto without the data that one region does not need, and with the types that it lacks. Must run before any
other module imports ``moto.ec2``.

Written against moto 5.2.5. At import moto reads the instance-type offerings of every region (0.5 s, 130 MB) and 1,299
images that no EKS node uses, both through ``moto.utilities.utils.load_resource``. That function is replaced during the
import only. Regions other than ``AWS_REGION`` therefore offer no instance types.

moto also creates botocore sessions repeatedly, and each one reads the same files again, which is half of the time of
the emulator's start and of a reset. Here all sessions of a process read them once.
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

from local.aws.catalogue.further_types import with_further_offerings, with_further_types

OFFERINGS = "ec2/resources/instance_type_offerings/"
TYPES = "ec2/resources/instance_types.json"
IMAGES = "ec2/resources/amis.json"


def import_moto(region: str) -> None:
    """Import moto's EC2 models with the offerings of ``region`` only."""
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    sessions: Any = importlib.import_module("botocore.session")
    sessions.create_loader = functools.cache(sessions.create_loader)
    resources: Any = importlib.import_module("moto.utilities.utils")
    complete = resources.load_resource

    def trimmed(resource: str) -> Any:
        if resource == IMAGES:
            return []
        if resource.startswith(OFFERINGS) and f"/{region}.json" not in resource:
            return []
        found = complete(resource)
        if resource == TYPES:
            return with_further_types(found)
        return with_further_offerings(found) if resource.startswith(OFFERINGS) else found

    resources.load_resource = trimmed
    try:
        importlib.import_module("moto.ec2.models")
    finally:
        resources.load_resource = complete
