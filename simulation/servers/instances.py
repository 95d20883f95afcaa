"""The kubelets' machines, read from the emulator in the same process."""

from __future__ import annotations

from local.aws.control.endpoint import Control
from local.aws.emulator import Emulator
from local.cluster.kubelet.instances import Instance


class EmulatorInstances:
    """What ``GET /_dovetail/instances`` shows, without HTTP. An instance that did not change is the same object."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._control = Control(emulator)
        self._known: dict[str, Instance] = {}

    async def instances(self) -> dict[str, Instance]:
        """Every instance by id, also those that terminated within the last minute."""
        known, found = self._known, {}
        for row in self._control.instances():
            before = known.get(row["instanceId"])
            if before is None or before.state != row["state"] or before.tags != row["tags"]:
                before = Instance.model_validate(row)
            found[before.instance_id] = before
        self._known = found
        return found
