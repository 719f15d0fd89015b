"""The chain of the audit: whatever is changed, removed or put in between is named, and writers wait for nobody."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from tenure import operate
from tenure.cli.audit import command
from tenure.verbs import operators, queues, witness
from world import World

ANN = operate.Actor("ann", "cli")


def pause(world: World, name: str = "mail") -> None:
    operate.noted(world.conn, queues.pause(name), ANN, "pause", name, world.schema)


def tenure(world: World, *words: str, input: str | None = None) -> tuple[int, str]:
    place = ["--database-url", world.url, "--schema", world.schema]
    done = CliRunner().invoke(command, [*words, *place], input=input)
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def verified(world: World, *words: str) -> tuple[int, dict[str, Any]]:
    code, said = tenure(world, "verify", "--json", *words)
    return code, json.loads(said)


def tampered(world: World, change: str) -> None:
    """What the owner of the tables can do, who is not kept out by a trigger."""
    world.sql("ALTER TABLE audit DISABLE TRIGGER ALL")
    world.sql(change)
    world.sql("ALTER TABLE audit ENABLE TRIGGER ALL")


def aged(world: World, which: str) -> None:
    """Make these lines nine days old, and the chain anew."""
    tampered(
        world, f"UPDATE audit SET at = at - interval '9 days', done_at = done_at - interval '9 days' WHERE {which}"
    )
    tampered(world, "UPDATE audit SET sealed = false")
    world.sql("DELETE FROM audit_links")
    world.sql("UPDATE audit_chain SET tip_seq = 0, tip_hash = repeat('0', 64)")


def test_lines_are_linked_one_after_the_other_and_all_fit(world: World) -> None:
    for name in ("a", 'b"\\', "ü\u2028\x01\x7f𝄞\n"):
        pause(world, name)
    links = world.run(witness.audit_links(0))
    assert [link.seq for link in links] == [1, 2, 3]
    assert [link.before for link in links[1:]] == [link.hash for link in links[:-1]]
    code, said = verified(world)
    assert (code, said["ok"], said["links"], said["unlinked"]) == (0, True, 3, 0)


@pytest.mark.parametrize(
    ("change", "line", "why"),
    [
        ("UPDATE audit SET actor = 'bob' WHERE id = 2", 2, "changed"),
        ("UPDATE audit SET target = 'other' WHERE id = 2", 2, "changed"),
        ("UPDATE audit SET reason = 'other' WHERE id = 2", 2, "changed"),
        ("UPDATE audit SET verb = 'other' WHERE id = 2", 2, "changed"),
        ("UPDATE audit SET via = 'other' WHERE id = 2", 2, "changed"),
        ("UPDATE audit SET database_user = 'other' WHERE id = 2", 2, "changed"),
        ("UPDATE audit SET rows = 0 WHERE id = 2", 2, "changed"),
        ("UPDATE audit SET at = at + interval '1 microsecond' WHERE id = 2", 2, "changed"),
        ("UPDATE audit SET done_at = done_at + interval '1 microsecond' WHERE id = 2", 2, "changed"),
        ("DELETE FROM audit WHERE id = 2", 2, "gone"),
        ("DELETE FROM audit_links WHERE line = 2", 3, "missing"),
        ("DELETE FROM audit_links WHERE line = 3", 0, "ends at link 2"),
        ("UPDATE audit_links SET before = repeat('1', 64) WHERE line = 2", 2, "another hash"),
        (
            "UPDATE audit_chain SET tip_hash = h.hash, tip_seq = 2 FROM audit_links AS h WHERE h.seq = 2",
            3,
            "link is gone",
        ),
    ],
)
def test_the_first_line_that_does_not_fit_is_named(world: World, change: str, line: int, why: str) -> None:
    for name in "abc":
        pause(world, name)
    if "audit_chain" in change:
        world.sql("DELETE FROM audit_links WHERE seq = 3")
    tampered(world, change)
    code, said = verified(world)
    assert (code, said["ok"], said["unfit"]["line"]) == (1, False, line)
    assert why in said["unfit"]["why"]


def test_a_chain_written_anew_is_found_by_a_tip_that_was_kept(world: World) -> None:
    pause(world, "a")
    pause(world, "b")
    tip = verified(world)[1]["tip"]
    pause(world, "c")
    assert verified(world, "--tip", tip)[0] == 0
    tampered(world, "UPDATE audit SET actor = 'bob', sealed = false")
    world.sql("DELETE FROM audit_links")
    world.sql("UPDATE audit_chain SET tip_seq = 0, tip_hash = repeat('0', 64)")
    assert verified(world)[0] == 0, "without a tip nobody can tell"
    code, said = verified(world, "--tip", tip)
    assert (code, said["unfit"]["line"]) == (1, 2)
    tampered(world, "DELETE FROM audit")
    world.sql("DELETE FROM audit_links")
    world.sql("UPDATE audit_chain SET tip_seq = 0, tip_hash = repeat('0', 64)")
    assert "its end is gone" in verified(world, "--tip", tip)[1]["unfit"]["why"]


def test_an_open_action_is_linked_as_begun_and_again_when_it_ends(world: World) -> None:
    action = world.run(operators.begin_audit("ann", "cli", "redrive", "kind:a"))
    assert world.run(witness.seal()) == 1
    assert world.run(witness.seal()) == 0
    world.run(operators.mark(action, 5, done=False))
    assert (verified(world)[0], world.run(witness.seal())) == (0, 0)
    world.run(operators.mark(action, 5, done=True))
    assert world.run(witness.seal()) == 1
    assert [(link.line, link.ended) for link in world.run(witness.audit_links(0))] == [(action, False), (action, True)]
    tampered(world, "UPDATE audit SET rows = 9")
    assert verified(world)[0] == 1


def test_a_writer_waits_for_nobody_who_seals_and_a_sealer_for_no_writer(world: World) -> None:
    pause(world, "a")
    with world.connect() as writer, world.connect() as sealer:
        with writer.transaction():
            open_line = world.run(operators.begin_audit("ann", "cli", "redrive", "kind:a"), writer)
            pause(world, "b")  # a later line that is there earlier
            assert [link.line for link in world.run(witness.audit_links(0))] == [1, open_line + 1]
        with sealer.transaction():
            assert world.run(witness.seal(), sealer) == 1
            assert world.run(witness.seal()) is None, "the chain's end is taken: leave it to the other"
            world.sql("SET lock_timeout = '2s'")
            pause(world, "c")  # waits for nothing
    assert world.run(witness.audit_chain()).unsealed == 1
    code, said = verified(world)
    assert (code, said["links"]) == (0, 4)
    with world.connect() as other:
        late = world.run(operators.begin_audit("ann", "cli", "redrive", "kind:b"))
        with other.transaction():
            world.run(operators.mark(late, 1, done=True), other)
            assert world.run(witness.seal()) == 1, "as begun: how it ends is not there yet"
        with other.transaction():
            other.execute("SELECT FROM audit FOR UPDATE")
            assert world.run(witness.seal()) == 0, "an ended line that somebody has locked is linked next time"
        assert world.run(witness.seal()) == 1


def test_many_writers_at_once_make_one_chain(world: World) -> None:
    def write(name: str) -> None:
        with world.connect() as conn:
            for n in range(5):
                operate.noted(conn, queues.pause(f"{name}{n}"), ANN, "pause", name, world.schema)

    threads = [threading.Thread(target=write, args=[name]) for name in "abcd"]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    code, said = verified(world)
    assert (code, said["links"], said["unlinked"]) == (0, 20, 0)


def test_forgotten_lines_leave_an_anchor_and_the_rest_fits(world: World) -> None:
    for name in "abcd":
        pause(world, name)
    aged(world, "id < 4")
    before = verified(world)[1]
    third = world.run(witness.audit_links(0))[2]
    assert (before["ok"], before["links"]) == (True, 4)
    code, said = tenure(world, "forget", "--older-than", "7d", "--yes")
    assert (code, said.strip()) == (0, "3 lines forgotten")
    code, after = verified(world)
    assert (code, after["anchor"], after["links"]) == (0, 3, 2)
    assert world.run(witness.audit_links(0))[0].before == third.hash
    assert [line.verb for line in world.run(operators.audit())] == ["forget_audit", "pause"]
    assert verified(world, "--tip", before["tip"])[0] == 0
    assert verified(world, "--tip", f"3:{third.hash}")[0] == 0, "what it begins after is known"
    code, answer = verified(world, "--tip", f"3:{'0' * 64}")
    assert (code, "not that of --tip" in answer["unfit"]["why"]) == (1, True)
    code, answer = verified(world, "--tip", f"2:{third.before}")
    assert (code, "begins after link 3" in answer["unfit"]["why"]) == (1, True)


def old(world: World, *lines: int) -> None:
    """Make these lines nine days old; their links are not looked at here."""
    times = "at = at - interval '9 days', done_at = done_at - interval '9 days'"
    tampered(world, f"UPDATE audit SET {times} WHERE id IN ({', '.join(map(str, lines))})")


def begun(world: World) -> int:
    action = world.run(operators.begin_audit("ann", "cli", "redrive", "kind:a"))
    world.run(witness.seal())
    return action


def ended(world: World, action: int) -> None:
    world.run(operators.mark(action, 0, done=True))
    world.run(witness.seal())


def forgotten(world: World) -> int:
    return world.run(witness.forget_audit(timedelta(days=7).total_seconds()))


def test_what_is_young_stops_forgetting_also_when_it_began_long_ago(world: World) -> None:
    pause(world, "a")
    action = begun(world)
    pause(world, "b")
    ended(world, action)
    old(world, 1, 3)
    assert forgotten(world) == 1
    assert [link.line for link in world.run(witness.audit_links(0))] == [action, 3, action]
    assert forgotten(world) == 0
    assert world.run(witness.audit_chain()).anchor_seq == 1


def test_a_line_whose_first_link_is_the_last_old_one_is_kept(world: World) -> None:
    first = begun(world)
    ended(world, first)  # links 1, 2
    second, young = begun(world), begun(world)  # 3, 4
    ended(world, second)  # 5
    old(world, first, second)
    assert forgotten(world) == 1
    assert [link.line for link in world.run(witness.audit_links(0))] == [second, young, second]


def test_a_line_is_forgotten_with_both_its_links_or_not_at_all(world: World) -> None:
    first, second, young = begun(world), begun(world), begun(world)  # links 1, 2, 3
    ended(world, second)  # 4
    ended(world, first)  # 5
    ended(world, young)
    old(world, first, second)
    assert forgotten(world) == 0
    assert len(world.run(witness.audit_links(0))) == 6
    old(world, young)
    assert forgotten(world) == 3
    assert world.run(witness.audit_links(0)) == []
    pause(world, "a")
    code, said = verified(world)
    assert (code, said["anchor"], said["links"]) == (0, 6, 1)


def test_a_line_whose_second_link_comes_after_a_young_one_stays(world: World) -> None:
    first, young = begun(world), begun(world)
    ended(world, first)
    ended(world, young)
    old(world, first)
    assert forgotten(world) == 0
    assert world.run(witness.audit_chain()).anchor_seq == 0


def test_an_action_that_was_broken_off_long_ago_is_forgotten_and_one_that_waits_for_its_link_is_not(
    world: World,
) -> None:
    broken = begun(world)
    old(world, broken)
    assert forgotten(world) == 1
    said = " ".join(CliRunner().invoke(command, ["forget", "--help"]).output.split())
    assert "An action that was broken off counts from its beginning" in said
    waiting = begun(world)
    world.run(operators.mark(waiting, 0, done=True))
    old(world, waiting)
    assert forgotten(world) == 0
    pause(world, "a")
    assert verified(world)[0] == 1, "its times were changed above"


def test_a_line_is_old_by_the_clock_and_not_by_the_transaction(world: World) -> None:
    pause(world, "a")
    with world.conn.transaction():
        world.sql("SELECT now()")
        tampered(world, "UPDATE audit SET done_at = clock_timestamp() - interval '7 days'")
        assert forgotten(world) == 1


def test_a_line_is_done_by_the_clock_and_not_by_the_transaction(world: World) -> None:
    """A day is left for clocks that are wrong: one counted from the beginning of a long transaction is less."""
    action = begun(world)
    with world.conn.transaction():
        world.sql("SELECT now()")
        world.sql("UPDATE audit SET done_at = clock_timestamp() + interval '1 day' WHERE id = %s", action)


def test_a_line_that_is_gone_is_not_forgotten_with_the_others(world: World) -> None:
    pause(world, "a")
    pause(world, "b")
    tampered(world, "DELETE FROM audit WHERE id = 1")
    old(world, 2)
    assert forgotten(world) == 0
    assert verified(world)[1]["unfit"]["why"] == "the line is gone"


def test_an_export_is_checked_without_the_database(world: World, tmp_path: Any) -> None:
    for name in ("a", "ü𝄞\x01", "c"):
        pause(world, name)
    code, text = tenure(world, "export")
    assert code == 0
    file = tmp_path / "audit.jsonl"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(command, ["verify", str(file)])
    assert (done.exit_code, done.output.split(" · ")[0]) == (0, "ok  3 links fit")
    file.write_text(text.replace('"actor": "ann"', '"actor": "bob"', 2).replace("bob", "ann", 1), encoding="utf-8")
    done = CliRunner().invoke(command, ["verify", str(file)])
    assert done.exit_code == 1
    assert done.output.startswith("the audit does not fit at line 2 (link 2): the line was changed")
    file.write_text('{"a": 1}\n', encoding="utf-8")
    assert CliRunner().invoke(command, ["verify", str(file)]).exit_code == 2
    later = tenure(world, "export", "--after", "2")[1]
    assert [json.loads(line)["seq"] for line in later.splitlines()] == [3]
    file.write_text(later, encoding="utf-8")
    first = json.loads(text.splitlines()[0])
    done = CliRunner().invoke(command, ["verify", str(file), "--tip", f"1:{first['hash']}"])
    assert (done.exit_code, "begins after link 2" in done.output) == (1, True)


@pytest.mark.parametrize("when", ["infinity", "-infinity", "294276-12-31 UTC", "4713-01-01 UTC BC"])
def test_no_operator_gives_a_line_a_time_that_no_calendar_has(world: World, when: str) -> None:
    action = begun(world)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        world.sql("UPDATE audit SET done_at = %s WHERE id = %s", when, action)
    ended(world, action)
    assert verified(world)[0] == 0


def test_operators_of_its_own_do_not_change_a_line_that_is_done(world: World) -> None:
    """The rule of the audit is read with the server's operators, whatever path the session has."""
    action = begun(world)
    ended(world, action)
    mine = f"{world.schema}_mine"
    world.sql(f"CREATE SCHEMA {mine}")
    try:
        world.sql(f'SET search_path = {mine}, pg_catalog, "{world.schema}"')
        for kind, sign in (("jsonb", "="), ("boolean", ">")):
            world.sql(f"CREATE FUNCTION yes({kind}, {kind}) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
            world.sql(f"CREATE OPERATOR {sign} (leftarg = {kind}, rightarg = {kind}, function = yes)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            world.sql("UPDATE audit SET rows = 0, done_at = NULL WHERE id = %s", action)
    finally:
        world.sql(f"DROP SCHEMA {mine} CASCADE")


@pytest.mark.parametrize(("age", "says"), [("365", "must be a span of time"), ("23h", "must be a day at least")])
def test_an_age_that_cannot_be_is_refused_in_one_sentence(world: World, age: str, says: str) -> None:
    code, said = tenure(world, "forget", "--older-than", age, "--yes")
    assert (code, says in said) == (2, True)


def test_a_tip_that_is_none_is_refused_in_one_sentence(world: World) -> None:
    code, said = tenure(world, "verify", "--tip", "nonsense")
    assert (code, "must be LINK:HASH" in said) == (2, True)
