"""One check at every door: what one of them refuses, all refuse, in one sentence with the value and the limit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import httpx
import msgspec
import psycopg
import pytest

import warm
from faces.web_tools import served
from guarantees.test_roles import Cast
from guarantees.test_roles import cast as cast  # the fixture
from tenure import Lane, postgres, verbs
from tenure.errors import InvalidPayload
from tenure.model import limits, payload
from tenure.model.rows import NewRow
from world import World

GOOD = {
    "kind": "k",
    "payload": "{}",
    "queue": "default",
    "priority": 0,
    "max_attempts": 5,
    "ordered": False,
    "hold": False,
}
FAR = "2099-01-01T00:00:00+00:00"


def _deep(levels: int) -> str:
    return "[" * levels + "]" * levels


# What is wrong: the column, its value, what every door says of it, and which limit it names.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"kind": ""}, "has 0 bytes: it must have 1 to 128"),
    "a long kind": ({"kind": "k" * 129}, "has 129 bytes: it must have 1 to 128"),
    "a huge kind": ({"kind": "kü" * 350_000}, "has 1050000 bytes: it must have 1 to 128"),
    "no queue": ({"queue": ""}, "has 0 bytes: it must have 1 to 128"),
    "a long queue": ({"queue": "ü" * 65}, "has 130 bytes: it must have 1 to 128"),
    "a huge queue": ({"queue": "0123456789abcdef" * 60_000}, "has 960000 bytes: it must have 1 to 128"),
    "no key": ({"partition_key": ""}, "has 0 bytes: it must have 1 to 512"),
    "a long key": ({"partition_key": "k" * 513}, "has 513 bytes: it must have 1 to 512"),
    "a huge key": ({"partition_key": "".join(map(str, range(2000)))}, "has 6890 bytes: it must have 1 to 512"),
    "a large payload": ({"payload": json.dumps("x" * 1_048_575)}, "has 1048577 bytes, the limit is 1048576"),
    "a payload of spaces": (
        {"payload": f"[{'0,' * 400_000}0]"},
        "has 1200003 bytes as Postgres writes it, the limit is 1048576",
    ),
    "a payload of zeros": ({"payload": f"[{'1e-3900,' * 300}0]"}, "the limit is 1048576"),
    "a deep payload": ({"payload": _deep(201)}, "nested deeper than 200 levels"),
    "large headers": ({"headers": json.dumps({"a": "x" * 4088})}, "have 4097 bytes, the limit is 4096"),
    "a priority": ({"priority": 101}, "priority=101 must be a whole number between -100 and 100"),
    "a low priority": ({"priority": -101}, "priority=-101 must be a whole number between -100 and 100"),
    "no attempts": ({"max_attempts": 0}, "max_attempts=0 must be a whole number between 1 and 10000"),
    "attempts below none": ({"max_attempts": -5}, "max_attempts=-5 must be a whole number between 1 and 10000"),
    "too many attempts": ({"max_attempts": 10_001}, "max_attempts=10001 must be a whole number between 1 and 10000"),
    "a far time": ({"available_at": FAR}, "must be within ten years from now"),
    "an early time": ({"available_at": "1999-01-01T00:00:00+00:00"}, "must be within ten years from now"),
    "order without a key": ({"ordered": True}, "order is kept per key"),
    "hold without order": ({"hold": True, "partition_key": "k"}, "hold"),
}
# What only SQL can say: Python has no such value, JSON has no such word.
SQL_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a few numbers of many zeros": ({"payload": f"[{'1e131000,' * 9}0]"}, "the limit is 1048576"),
    "never": ({"available_at": "infinity"}, "available_at=infinity must be within ten years from now"),
    "since ever": ({"available_at": "-infinity"}, "available_at=-infinity must be within ten years from now"),
    "before Christ": ({"available_at": "4713-01-01 00:00:00+00 BC"}, "BC must be within ten years from now"),
    "headers of numbers": ({"headers": '{"a": 1}'}, 'headers={"a": 1} must be an object of texts: quote its numbers'),
    "headers of lists": ({"headers": '{"a": ["x"]}'}, 'headers={"a": ["x"]} must be an object of texts'),
    "headers as a list": ({"headers": "[1]"}, "headers=[1] must be an object of texts"),
    "a run that is no number": (
        {"headers": '{"tenure-run": "x"}'},
        'tenure-run="x" and tenure-version= in headers must be whole numbers below 2100000000',
    ),
    "a version out of range": (
        {"headers": '{"tenure-version": "99999999999"}'},
        'tenure-run= and tenure-version="99999999999" in headers must be whole numbers below 2100000000',
    ),
    "a deadline that is no number": (
        {"headers": '{"tenure-deadline": "soon"}'},
        'tenure-deadline="soon" in headers must be seconds, like "3600"',
    ),
    "a deadline out of range": (
        {"headers": '{"tenure-deadline": "1e+09"}'},
        'tenure-deadline="1e+09" in headers must be',
    ),
    "a redrive at no time": (
        {"headers": '{"tenure-redriven": "now"}'},
        'tenure-redriven="now" in headers must be seconds since 1970',
    ),
    "headers as null": ({"headers": "null"}, "headers=null must be an object of texts"),
}
EDGES: list[dict[str, Any]] = [
    {"kind": "k" * 128},
    {"queue": "ü" * 64},
    {"partition_key": "k" * 512},
    {"payload": json.dumps("x" * 1_048_574)},
    {"payload": f"[{'0, ' * 349_524}0]"},
    {"payload": _deep(200)},
    {"payload": '{"a": ' * 199 + "{}" + "}" * 199},
    {"headers": json.dumps({"a": "x" * 4087})},
    {"headers": '{"tenure-run": "12", "tenure-version": "2026111901"}'},
    {"headers": '{"tenure-deadline": "+2.592e+06", "tenure-redriven": "1763510400.123456"}'},
    {"headers": '{"tenure-deadline": "99999999.5"}'},
    {"priority": 100},
    {"priority": -100},
    {"max_attempts": 1},
    {"max_attempts": 10_000},
    {"ordered": True, "partition_key": "k", "hold": True},
]
Door = Callable[[dict[str, Any]], None]


def _sql(conn: psycopg.Connection[Any], query: str, *values: object) -> None:
    try:
        conn.execute(query.encode(), values)
    except psycopg.errors.CheckViolation as error:
        raise Refused(error.diag.message_primary) from None
    except psycopg.errors.InvalidParameterValue as error:
        raise Refused(error.diag.message_primary) from None


class Refused(Exception):
    """What a door said."""


def _insert(conn: psycopg.Connection[Any]) -> Door:
    def send(row: dict[str, Any]) -> None:
        _sql(conn, f"INSERT INTO live ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})", *row.values())

    return send


def _copy(conn: psycopg.Connection[Any]) -> Door:
    def send(row: dict[str, Any]) -> None:
        try:
            with conn.cursor().copy(f"COPY live ({', '.join(row)}) FROM STDIN".encode()) as stream:
                stream.write_row(list(row.values()))
        except psycopg.errors.CheckViolation as error:
            raise Refused(error.diag.message_primary) from None

    return send


def _enqueue_many(conn: psycopg.Connection[Any]) -> Door:
    names: tuple[str, ...] = ("kind", "payload", "partition_key", "queue", "priority", "available_at", "delay")
    names += ("idempotency_key", "max_attempts", "ordered", "hold", "headers")
    types = (
        "text",
        "jsonb",
        "text",
        "text",
        "smallint",
        "timestamptz",
        "float8",
        "text",
        "int",
        "bool",
        "bool",
        "jsonb",
    )

    def send(row: dict[str, Any]) -> None:
        whole = {**GOOD, "delay": 0, **row}
        arrays = ", ".join(f"ARRAY[%s::{type}]" for type in types)
        _sql(conn, f"SELECT enqueue_many({arrays})", *(whole.get(name) for name in names))

    return send


def _enqueue(conn: psycopg.Connection[Any]) -> Door:
    def send(row: dict[str, Any]) -> None:
        given = {"at" if name == "available_at" else name: value for name, value in row.items()}
        types = {"payload": "::jsonb", "headers": "::jsonb", "at": "::timestamptz"}
        _sql(
            conn,
            f"SELECT enqueue({', '.join(f'{name} => %s{types.get(name, str())}' for name in given)})",
            *given.values(),
        )

    return send


def _of(row: dict[str, Any]) -> NewRow:
    names = {"partition_key": "key", "available_at": "at"}
    given = {names.get(name, name): value for name, value in row.items()}
    given["payload"] = msgspec.Raw(given["payload"].encode())
    if "headers" in given:
        given["headers"] = json.loads(given["headers"])
    if "at" in given:
        given["at"] = msgspec.convert(given["at"], type=datetime)
    return NewRow(**given)


def _python(conn: psycopg.Connection[Any], schema: str) -> Door:
    def send(row: dict[str, Any]) -> None:
        try:
            postgres.run(conn, verbs.enqueue(_of(row)), schema)
        except InvalidPayload as error:
            raise Refused(str(error)) from None

    return send


def _python_copy(conn: psycopg.Connection[Any], schema: str) -> Door:
    def send(row: dict[str, Any]) -> None:
        try:
            postgres.copy(conn, [_of(row)], schema)
        except InvalidPayload as error:
            raise Refused(str(error)) from None

    return send


def _http(web: httpx.Client) -> Door:
    names = {"partition_key": "key", "available_at": "at"}

    def send(row: dict[str, Any]) -> None:
        parts = {
            names.get(name, name): value if name in ("payload", "headers") else json.dumps(value)
            for name, value in row.items()
        }
        body = "{" + ", ".join(f'"{name}": {text}' for name, text in parts.items()) + "}"
        answer = web.post("/api/rows", content=body, headers={"content-type": "application/json"})
        if answer.status_code != 201:
            assert answer.status_code in (400, 413, 422), answer.text
            raise Refused(answer.json()["error"])

    return send


def _command(world: World) -> Door:
    flags = {"partition_key": "--key", "available_at": "--at", "max_attempts": "--max-attempts"}

    def send(row: dict[str, Any]) -> None:
        words = ["enqueue", "--database-url", world.url, "--schema", world.schema]
        for name, value in row.items():
            if name in ("ordered", "hold"):
                words += [f"--{name}"] * value
            elif name not in ("kind", "payload"):
                words.append(f"{flags.get(name, f'--{name}')}={value}")
        answer = warm.run(*words, "--", row["kind"], row["payload"])
        if answer.returncode:
            assert (answer.returncode, len(answer.stderr.splitlines())) == (2, 1), answer.stderr
            raise Refused(answer.stderr)

    return send


SQL_DOORS = {"insert": _insert, "copy": _copy, "enqueue_many": _enqueue_many, "enqueue": _enqueue}


@pytest.fixture
def doors(world: World) -> Iterator[dict[str, Door]]:
    """Every door by its name."""
    made = {name: door(world.conn) for name, door in SQL_DOORS.items()}
    made |= {"python": _python(world.conn, world.schema), "python copy": _python_copy(world.conn, world.schema)}
    with served(world) as web:
        yield made | {"http": _http(web), "command": _command(world)}


def _unfit(door: str, fault: dict[str, Any]) -> bool:
    """A command line takes no headers, and no argument of more than 128 kB."""
    return door == "command" and ("headers" in fault or any(len(str(value)) > 100_000 for value in fault.values()))


@pytest.mark.parametrize("name", FAULTS)
def test_every_door_refuses_it_in_one_sentence_with_the_value_and_the_limit(
    world: World, doors: dict[str, Door], name: str
) -> None:
    fault, words = FAULTS[name]
    row = {"kind": "k", "payload": "{}", **fault}
    said = {}
    for door, send in doors.items():
        if _unfit(door, fault):
            continue
        try:
            send(row)
            said[door] = "let in"
        except Refused as refused:
            said[door] = str(refused)
    sql_words = words.replace(" as Postgres writes it", "")
    told = {door: text for door, text in said.items() if (sql_words if door in SQL_DOORS else words) not in text}
    if "payload" in fault or name in ("a huge kind", "a huge queue"):
        told.pop("http", None)  # a body of its size is refused before it is read
    assert told == {}
    assert all("\n" not in text.strip() and len(text) < 400 for text in said.values())
    assert (world.count("live"), world.count("idempotency")) == (0, 0)


@pytest.mark.parametrize("name", SQL_FAULTS)
def test_every_door_in_sql_refuses_what_only_sql_can_say(world: World, name: str) -> None:
    fault, words = SQL_FAULTS[name]
    row = {"kind": "k", "payload": "{}", **fault}
    for door, make in SQL_DOORS.items():
        with pytest.raises(Refused) as refused:
            make(world.conn)(row)
        assert (words.replace("available_at=", "at=") if door == "enqueue" else words) in str(refused.value)
    assert world.count("live") == 0


@pytest.mark.parametrize("token", [-1, 2**63 - 1])
def test_a_token_leaves_room_for_the_next_one(world: World, token: int) -> None:
    """An operator may insert rows with their tokens; the next claim adds one, and must not end every worker."""
    with pytest.raises(psycopg.errors.CheckViolation):
        world.sql("INSERT INTO live (kind, payload, lease_generation) VALUES ('k', '{}', %s)", token)


@pytest.mark.parametrize("seq", [-1, 0, 2**63 - 1])
def test_a_number_under_which_no_claim_would_find_the_row_is_refused(world: World, seq: int) -> None:
    by_hand = "INSERT INTO live (kind, payload, seq) OVERRIDING SYSTEM VALUE VALUES ('k', '{}', %s)"
    with pytest.raises(psycopg.errors.CheckViolation, match=f"seq={seq} must be between 1 and"):
        world.sql(by_hand, seq)
    for good in (1, 2**63 - 2):
        world.sql(by_hand, good)


@pytest.mark.parametrize("name", ["kind", "queue"])
def test_a_name_that_is_null_is_said_to_be_so(world: World, name: str) -> None:
    arguments = {"kind": "'k'", "queue": "'q'", name: "NULL"}
    known = f"enqueue_as_given({arguments['kind']}, '{{}}', queue => {arguments['queue']})"
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"{name} is NULL: it must have 1 to 128 bytes"):
        world.sql(f"SELECT {known}")


@pytest.mark.parametrize("door", [*SQL_DOORS, "python"])
def test_an_idempotency_key_has_its_limit(world: World, door: str) -> None:
    if door in ("insert", "copy"):  # by the owner alone: nobody else may write the column
        sends = [("x" * 513, "513"), ("", "0")]
    else:
        sends = [("x" * 513, "513"), ("", "0"), ("".join(map(str, range(2000))), "6890")]
    made = {name: make(world.conn) for name, make in SQL_DOORS.items()} | {"python": _python(world.conn, world.schema)}
    for key, n in sends:
        with pytest.raises(Refused, match=f"idempotency_key=.* has {n} bytes: it must have 1 to 512"):
            made[door]({"kind": "k", "payload": "{}", "idempotency_key": key})
    assert (world.count("live"), world.count("idempotency")) == (0, 0)
    made[door]({"kind": "k", "payload": "{}", "idempotency_key": "x" * 512})


def test_what_is_at_the_limit_comes_in_by_every_door(world: World, doors: dict[str, Door]) -> None:
    for fault in EDGES:
        row = {"kind": "k", "payload": "{}", **fault}
        for door, send in doors.items():
            if not _unfit(door, fault):
                send(row)


def test_a_later_statement_of_a_transaction_is_checked_too(world: World) -> None:
    with world.conn.transaction(force_rollback=True):
        world.enqueue("first")
        with pytest.raises(psycopg.errors.CheckViolation, match="max_attempts=0 must be"):
            world.sql("INSERT INTO live (kind, payload, max_attempts) VALUES ('k', '{}', 0)")


def test_one_bad_row_among_many_keeps_the_statement_out(world: World) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="max_attempts=0 must be"):
        world.sql(
            "INSERT INTO live (kind, payload, max_attempts) SELECT 'k', '{}', 100 - n FROM generate_series(1, 100) n"
        )
    assert world.count("live") == 0


@pytest.mark.parametrize("role", ["producer", "worker"])
def test_no_operator_of_its_own_gets_a_login_past_the_check(cast: Cast, role: str) -> None:
    """A function of the login's own before the server's would say that all is well."""
    login = f"{cast.prefix}_{role}_login"
    cast.world.sql(f"CREATE SCHEMA evil_{role} AUTHORIZATION {login}")
    try:
        conn = cast.connect(role)
        conn.execute(f"CREATE FUNCTION evil_{role}.octet_length(text) RETURNS int LANGUAGE sql AS 'SELECT 5'".encode())
        conn.execute(f"SET search_path = evil_{role}, pg_catalog, {cast.world.schema}".encode())
        with pytest.raises(psycopg.errors.CheckViolation, match=r"kind=.* has 200 bytes"):
            conn.execute("INSERT INTO live (kind, payload) VALUES (repeat('k', 200), '{}')")
    finally:
        cast.world.sql(f"DROP SCHEMA evil_{role} CASCADE")


OLD_ROWS: dict[str, Any] = {"kind": "k" * 200, "max_attempts": -5, "partition_key": "k" * 600, "queue": "q" * 200}


@pytest.mark.parametrize("column", OLD_ROWS)
def test_a_row_from_before_the_check_comes_back_from_the_dead_letters_as_it_was(world: World, column: str) -> None:
    row: dict[str, Any] = {"kind": "k", "payload": "{}", column: OLD_ROWS[column]}
    with world.unguarded():
        ((id,),) = world.sql(
            f"INSERT INTO live ({', '.join(row)}) VALUES ({', '.join('%s' for _ in row)}) RETURNING id", *row.values()
        )
    good = world.enqueue("good")
    for queue in {row.get("queue", "default"), "default"}:
        for job in world.claim("A", 10, lanes=[Lane(str(queue))]):
            world.dead_letter(job.lease)
    back = world.run(verbs.redrive([id, good]))
    assert sorted(back) == sorted([id, good])
    assert world.sql(f"SELECT {column} FROM live WHERE id = %s", id) == [(OLD_ROWS[column],)]
    with pytest.raises(psycopg.errors.CheckViolation, match="it must have 1 to 512"):
        world.sql("INSERT INTO live (kind, payload, partition_key) VALUES ('k', '{}', repeat('k', 600))")


def test_a_compressed_payload_hides_nothing(world: World) -> None:
    """A value out of another table comes as it is kept there: 88 MB of digits in a kilobyte."""
    world.sql("CREATE TABLE kept (payload jsonb)")
    world.sql(
        "INSERT INTO kept SELECT ('[' || repeat('1e-16000,', 5000) || '0]')::jsonb"
        " UNION ALL SELECT (repeat('[', 900) || repeat(']', 900))::jsonb"
    )
    for words in ("the limit is 1048576", "nested deeper than 200 levels"):
        with pytest.raises(psycopg.errors.CheckViolation, match=words):
            world.sql("INSERT INTO live (kind, payload) SELECT 'k', payload FROM kept")
        world.sql("DELETE FROM kept WHERE jsonb_array_length(payload) > 1")


def test_python_and_sql_have_the_same_limits(world: World) -> None:
    ((text,),) = world.sql(
        "SELECT pg_get_functiondef('fault_of'::regproc) || pg_get_functiondef('refuse_row'::regproc)"
    )
    for limit in (
        limits.NAME_BYTES_MAX, limits.KEY_BYTES_MAX, limits.PAYLOAD_BYTES_MAX, limits.DEPTH_MAX, limits.ATTEMPTS_MAX,
        limits.HEADERS_BYTES_MAX, -limits.PRIORITY_MAX,
    ):  # fmt: skip
        assert text.count(f" {limit}") + text.count(f"{{{limit}}}") >= 2, limit
    assert limits.DELAY_SECONDS_MAX <= 3653 * 86_400
    assert payload.encode(msgspec.Raw(f"[{'0,' * 349_524}0]".encode()))


NULLS: dict[str, tuple[dict[str, Any], str]] = {
    f"{name} is NULL": ({name: None}, said)
    for name, said in [
        *[("kind", "kind is NULL"), ("queue", "queue is NULL"), ("payload", "payload is NULL")],
        *[("priority", "priority=NULL"), ("max_attempts", "max_attempts=NULL"), ("available_at", "available_at=NULL")],
        *[("ordered", "ordered and hold must be"), ("hold", "ordered and hold must be")],
    ]
}


def test_the_check_itself_names_each_fault(world: World) -> None:
    """The one function that all doors ask; of the value itself it says no more than 40 characters."""
    asked = (
        "SELECT fault_of(%(kind)s, %(queue)s, %(partition_key)s, %(idempotency_key)s, %(payload)s::jsonb,"
        " %(headers)s::jsonb, %(priority)s, %(max_attempts)s, %(available_at)s, %(ordered)s, %(hold)s)"
    )
    unset = dict.fromkeys(("partition_key", "idempotency_key", "headers")) | {"available_at": "now"}
    long_key = {"a long idempotency key": ({"idempotency_key": "k" * 513}, 'kkk"… has 513 bytes')}
    for name, (wrong, said) in {**FAULTS, **SQL_FAULTS, **NULLS, **long_key}.items():
        ((fault,),) = world.conn.execute(asked.encode(), {**unset, **GOOD, **wrong}).fetchall()
        assert fault, name
        assert said.replace(" as Postgres writes it", "") in fault
    for right in [{}, *EDGES]:
        assert world.conn.execute(asked.encode(), {**unset, **GOOD, **right}).fetchall() == [(None,)]
