"""Web tokens in the database: whose it is, whether it still counts, and when it was last used."""

from __future__ import annotations

from tenure.verbs import witness
from world import World

HASH = b"h" * 32


def make(world: World, name: str = "ci", id: str = "i", seconds: float = 3600.0) -> bool:
    made = witness.create_token(id, HASH, name=name, role="read", seconds=seconds, created_by="ann", queues=["mail"])
    return world.run(made)


def used(world: World, id: str = "i", hash: bytes = HASH) -> witness.Shown | None:
    return world.run(witness.use_token(id, hash))


def last_used(world: World, name: str = "ci") -> object:
    return {each.name: each.last_used_at for each in world.run(witness.tokens())}[name]


def test_only_the_whole_token_is_used(world: World) -> None:
    make(world)
    make(world, "other", "j")
    assert used(world) == ("ci", "read", ["mail"], False, False, False)
    assert used(world, "j") == ("other", "read", ["mail"], False, False, False)
    assert used(world, "k") is None
    assert used(world, hash=b"x" * 32) is None


def test_a_name_and_an_id_are_given_once(world: World) -> None:
    assert make(world)
    assert not make(world, id="j")
    assert not make(world, name="other")
    assert world.run(witness.revoke_token("ci"))
    assert not make(world, id="j"), "also after it was revoked"


def test_a_revoked_one_is_known_as_such_and_the_others_go_on(world: World) -> None:
    make(world)
    make(world, "other", "j")
    assert not world.run(witness.revoke_token("nobody"))
    assert world.run(witness.revoke_token("ci"))
    ((at,),) = world.sql("SELECT revoked_at FROM tokens WHERE name = 'ci'")
    assert not world.run(witness.revoke_token("ci"))
    assert world.sql("SELECT revoked_at FROM tokens WHERE name = 'ci'") == [(at,)]
    found, other = used(world), used(world, "j")
    assert found
    assert other
    assert (found.revoked, other.revoked) == (True, False)
    assert {each.name: each.status for each in world.run(witness.tokens())} == {"ci": "revoked", "other": "valid"}


def test_the_last_use_is_written_once_a_minute_for_this_token_and_while_it_counts(world: World) -> None:
    make(world)
    make(world, "other", "j")
    assert last_used(world) is None
    used(world)
    first = last_used(world)
    assert first is not None
    assert last_used(world, "other") is None
    used(world)
    assert last_used(world) == first
    world.sql("UPDATE tokens SET last_used_at = last_used_at - interval '2 minutes'")
    before = last_used(world)
    world.run(witness.revoke_token("ci"))
    used(world)
    assert last_used(world) == before
    make(world, "old", "o", seconds=0.0)
    found = used(world, "o")
    assert found
    assert found.expired
    assert last_used(world, "old") is None


def test_who_shows_a_token_does_not_wait_for_another_who_does(world: World) -> None:
    make(world)
    with world.connect() as other, other.transaction():
        world.run(witness.use_token("i", HASH), other)
        world.sql("SET lock_timeout = '2s'")
        assert used(world) is not None


def test_time_goes_on_within_a_transaction(world: World) -> None:
    with world.conn.transaction():
        make(world, seconds=0.001)
        world.sql("SELECT pg_sleep(0.01)")
        found = used(world)
        assert found
        assert found.expired
        make(world, "long", "j")
        used(world, "j")
        world.run(witness.revoke_token("long"))
        ((began,),) = world.sql("SELECT now()")
        ((used_at, revoked_at),) = world.sql("SELECT last_used_at, revoked_at FROM tokens WHERE name = 'long'")
    assert used_at > began
    assert revoked_at > began
