from world import World


def test_smoke(world: World) -> None:
    id = world.enqueue()
    job = world.claim_one()
    assert world.complete(job.lease).standing == "applied"
    assert world.status(id) == "completed"
    id = world.enqueue()
    job = world.claim_one()
    world.expire(job.lease)
    assert world.complete(job.lease).reason == "lease_expired"
    assert len(world.sweep()) == 1
    assert world.complete(job.lease).reason == "lease_expired"
    world.due()
    two = world.claim_one("B")
    assert two.lease.generation == 2
    assert world.complete(job.lease).reason == "token_mismatch"
    assert world.retry(two.lease).standing == "applied"
    assert world.retry(two.lease).standing == "already_mine"
