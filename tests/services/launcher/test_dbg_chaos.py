from tests.services.launcher.test_garbage import *
from tests.services.launcher.test_garbage import _no_machines
from services.launcher.inventory import take_inventory
from services.launcher.orphans import orphans
async def test_dbg(world, control, monkeypatch):
    ms=[await world.registered(f"default-{l}") for l in "ab"]
    world.clock.advance(3600)
    await _no_machines(world, monkeypatch)
    look=await take_inventory(world.kube, world.garbage.store, world.cloud.ec2, CLUSTER)
    print("DBG", look.machines, look.owned, look.readable, list(look.instances), look.records, [o.id for o in orphans(look)])
    assert 0
