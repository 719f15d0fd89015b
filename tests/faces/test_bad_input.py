"""Bad input: one clear sentence that names the value and the next step, a documented exit code, nothing written."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import psycopg
import pytest

import warm
from tenure import postgres, settings, verbs
from tenure.embedded import attach
from tenure.errors import (
    BAD_SETTINGS,
    NO,
    NOT_ALLOWED,
    UNREACHABLE,
    USAGE,
    BadSettings,
    IdempotencyConflict,
    InvalidPayload,
    SchemaMismatch,
    TenureError,
)
from tenure.model import limits, payload
from tenure.model.copy_line import copy_line
from tenure.model.rows import Lane, NewRow
from tenure.postgres import migrate
from world import World

NOWHERE = "postgresql://tenure:s3cret@127.0.0.1:1/tenure"


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _of_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _dict_of_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["me"] = {"again": value}
    return value


PAYLOADS = {
    "nul": ({"a": "x\0y"}, r"payload\['a'\] contains a NUL character, which Postgres cannot store: remove it"),
    "nul in a key": ({"a\0": 1}, "a key in payload contains a NUL character"),
    "nul deep inside": ({"a": [{"b": "\0"}]}, r"payload\['a'\]\[0\]\['b'\] contains a NUL"),
    "lone surrogate": (["\ud800"], r"payload\[0\] contains a lone surrogate \('\\ud800'\)"),
    "lone surrogate in a key": ({"\udfff": 1}, "a key in payload contains a lone surrogate"),
    "nan": ({"a": math.nan}, r"payload\['a'\] is nan, which JSON does not have: send null or a string"),
    "infinity": ([math.inf], r"payload\[0\] is inf"),
    "minus infinity": (-math.inf, "payload is -inf"),
    "too big": ("x" * limits.PAYLOAD_BYTES_MAX, "payload has 1048578 bytes, the limit is 1048576: store the"),
    "too big in bytes": ("ü" * (limits.PAYLOAD_BYTES_MAX // 2), "the limit is 1048576"),
    "too deep": (_deep(limits.DEPTH_MAX), "nested deeper than 200 levels"),
    "a depth bomb": (_deep(100_000), "nested deeper than 200 levels"),
    "a list of itself": (_of_itself(), "nested deeper than 200 levels or contains itself"),
    "a dict of itself": (_dict_of_itself(), "nested deeper than 200 levels or contains itself"),
    "an object": (object(), "payload of type object is not JSON .*: send plain values"),
    "an object inside": ({"a": [object()]}, "payload of type dict is not JSON"),
    "a function": ({"f": print}, "is not JSON"),
    "a complex number": (1j, "payload of type complex is not JSON"),
    "a huge number": ({"n": 10**5000}, r"payload\['n'\] is a number of more than \d+ digits: send it as a string"),
    "a huge negative number": (-(10**5000), "payload is a number of more than"),
    "small floats": ([5e-324] * 149_000, "payload has 48872000 bytes as Postgres writes it, the limit is 1"),
    "small negative floats": ([-5e-324] * 4_000, "payload has 1316000 bytes as Postgres writes it"),
    "large floats": ([1e300] * 4_000, "payload has 1212000 bytes as Postgres writes it"),
    "two keys of one name": ({"a": {1: "a", "1": "b"}}, r"two keys in payload\['a'\] become '1' in JSON, .*rename"),
    "two keys of one day": ({date(2026, 12, 24): 1, "2026-12-24": 2}, "two keys in payload become '2026-12-24'"),
    "nan as a key": ([{math.nan: 1}], r"a key in payload\[0\] is nan, which JSON does not have: send a string"),
    "infinity as a key": ({-math.inf: 1}, "a key in payload is -inf"),
    "decimal nan as a key": ({Decimal("NaN"): 1}, "a key in payload is NaN"),
    "decimal nan": ({"a": Decimal("NaN")}, r"payload\['a'\] is NaN, which JSON does not have: send null or a string"),
    "decimal signaling nan": ([Decimal("sNaN")], r"payload\[0\] is sNaN"),
    "decimal infinity": (Decimal("-Infinity"), "payload is -Infinity"),
    "nothing as a key": ({None: 1}, "payload of type dict is not JSON"),
    "a tuple as a key": ({(1, 2): 1}, "payload of type dict is not JSON"),
}  # fmt: skip

RAW: dict[str, tuple[bytes, str]] = {
    "no json": (b"{", "payload of type Raw is not JSON .*: send plain values"),
    "too big": (b'"' + b"x" * limits.PAYLOAD_BYTES_MAX + b'"', "payload has 1048578 bytes, the limit is 1048576"),
    "too deep": (b"[" * 201 + b"]" * 201, "nested deeper than 200 levels"),
    "a depth bomb": (b"[" * 100_000, "nested deeper than 200 levels"),
    "nan": (b'{"a": NaN}', r"payload\['a'\] is nan"),
    "nul": (rb'{"a": ["\u0000"]}', r"payload\['a'\]\[0\] contains a NUL"),
    "nul in the first of two": (rb'{"a": "\u0000", "a": "x"}', r"payload\['a'\] contains a NUL"),
    "surrogate in the first of two": (rb'[{"a": "\ud800", "a": "x"}]', r"payload\[0\]\['a'\] contains a lone"),
    "nul in a key of the first of two": (rb'{"a": {"\u0000": 1}, "a": 2}', r"a key in payload\['a'\] contains a NUL"),
    "a number in the first of two": (b'{"a": 1e-20000, "a": 2}', r"payload\['a'\] is 1e-20000"),
    "many small numbers": (b"[" + b"1e-3000," * 130_000 + b"1]", "bytes as Postgres writes it, the limit is"),
    "many large numbers": (b"[" + b"1E+300," * 4_000 + b"1]", "payload has 1212003 bytes as Postgres writes it"),
    "a small number": (b"1e-20000", "payload is 1e-20000, a number of more than 4000 digits: send it as a string"),
    "a number as small as Postgres has": (b"[1e-16383]", r"payload\[0\] is 1e-16383, a number of more than"),
    "a tiny zero": (b"0e-20000", "payload is 0e-20000, a number of more than 4000 digits"),
    "a long fraction": (b"0." + b"1" * 20_000, "payload is 0.1{22}…, a number of more than 4000 digits"),
    "a long number": (b'{"n": -' + b"1" * 5_000 + b"}", r"payload\['n'\] is -1{23}…, a number of more than"),
    "a longer number": (b"1" * 200_000, "payload is 1{24}…, a number of more than 4000 digits"),
    "a large number": (b"1e400", "payload is 1e400, which is larger than any float: send it as a string"),
    "a large number in digits": (b"[" + b"9" * 400 + b".5]", r"payload\[0\] is 9{24}…, which is larger than any float"),
    "an exponent of its own size": (b"1e" + b"9" * 5_000, "payload is 1e9{22}…, a number of more than"),
    "an exponent that begins with zeros": (b"1e-" + b"0" * 30 + b"20000", "payload is 1e-0{21}…, a number of"),
    "utf-16": ('{"a": "ü"}'.encode("utf-16"), "payload must be JSON in UTF-8: .*decode"),
    "utf-16 without its mark": ("[1]".encode("utf-16-le"), "payload must be JSON in UTF-8"),
    "utf-32": ("[1]".encode("utf-32-be"), "payload must be JSON in UTF-8"),
    "latin-1": ('"ü"'.encode("latin-1"), "payload must be JSON in UTF-8"),
    "a byte-order mark": ("[1]".encode("utf-8-sig"), "payload must be JSON in UTF-8"),
}  # fmt: skip

LONG = "k" * 513
ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "empty kind": ({"kind": ""}, "kind='' has 0 bytes: it must have 1 to 128"),
    "long kind": ({"kind": "k" * 129}, "kind='k{40}'… has 129 bytes: it must have 1 to 128"),
    "nul in the kind": ({"kind": "a\0"}, "kind contains a NUL"),
    "surrogate in the kind": ({"kind": "\ud800"}, "kind contains a lone surrogate"),
    "no kind": ({"kind": None}, "kind=None must be text, not NoneType"),
    "bytes as kind": ({"kind": b"k"}, "kind=b'k' must be text, not bytes"),
    "empty queue": ({"queue": ""}, "queue='' has 0 bytes"),
    "long queue": ({"queue": "ü" * 65}, "has 130 bytes"),
    "nul in the queue": ({"queue": "\0"}, "queue contains a NUL"),
    "empty key": ({"key": ""}, "key='' has 0 bytes: it must have 1 to 512"),
    "long key": ({"key": LONG}, "has 513 bytes: it must have 1 to 512"),
    "nul in the key": ({"key": "a\0"}, "key contains a NUL"),
    "surrogate in the key": ({"key": "a\udc80"}, "key contains a lone surrogate"),
    "a number as key": ({"key": 9182}, "key=9182 must be text, not int"),
    "empty idempotency key": ({"idempotency_key": ""}, "idempotency_key='' has 0 bytes"),
    "long idempotency key": ({"idempotency_key": LONG}, "idempotency_key=.*has 513 bytes"),
    "nul in the idempotency key": ({"idempotency_key": "\0"}, "idempotency_key contains a NUL"),
    "surrogate in the idempotency key": ({"idempotency_key": "\ud800"}, "idempotency_key contains a lone surrogate"),
    "negative delay": ({"delay_seconds": -1}, "delay_seconds=-1 must be between 0 and 315576000"),
    "nan delay": ({"delay_seconds": math.nan}, "delay_seconds=nan must be between"),
    "endless delay": ({"delay_seconds": math.inf}, "delay_seconds=inf must be between"),
    "huge delay": ({"delay_seconds": 1e12}, "delay_seconds=1000000000000.0 must be between"),
    "a text as delay": ({"delay_seconds": "5"}, "delay_seconds='5' must be"),
    "no delay": ({"delay_seconds": None}, "delay_seconds=None must be"),
    "high priority": ({"priority": 101}, "priority=101 must be a whole number between -100 and 100"),
    "low priority": ({"priority": -101}, "priority=-101 must be"),
    "half a priority": ({"priority": 1.5}, "priority=1.5 must be"),
    "a truth as priority": ({"priority": True}, "priority=True must be"),
    "a text as priority": ({"priority": "1"}, "priority='1' must be"),
    "huge priority": ({"priority": 10**5000}, "priority=a huge number must be"),
    "no attempt": ({"max_attempts": 0}, "max_attempts=0 must be a whole number between 1 and 10000"),
    "too many attempts": ({"max_attempts": 10_001}, "max_attempts=10001 must be"),
    "naive time": ({"at": datetime(2026, 12, 24)}, "must be a datetime with a time zone"),
    "a text as time": ({"at": "tomorrow"}, "at='tomorrow' must be a datetime with a time zone"),
    "two times": ({"at": datetime(2026, 12, 24, tzinfo=UTC), "delay_seconds": 5}, "both say when the row is due"),
    "order without a key": ({"ordered": True}, "ordered=True needs a key"),
    "hold without order": ({"hold": True}, "hold=True needs ordered=True"),
    "a number as order": ({"ordered": 1, "key": "k"}, "ordered=1 must be True or False"),
    "no order": ({"ordered": None}, "ordered=None must be True or False"),
    "a text as order": ({"ordered": "yes", "key": "k"}, "ordered='yes' must be True or False"),
    "a number as hold": ({"hold": 1, "ordered": True, "key": "k"}, "hold=1 must be True or False"),
    "no hold": ({"hold": None}, "hold=None must be True or False"),
    "a text as hold": ({"hold": "no", "ordered": True, "key": "k"}, "hold='no' must be True or False"),
}  # fmt: skip


@pytest.mark.parametrize("case", PAYLOADS)
def test_a_payload_that_could_not_be_given_back_is_refused_before_anything_is_sent(case: str) -> None:
    value, words = PAYLOADS[case]
    for attempt in (lambda: verbs.enqueue(NewRow("k", value)), lambda: copy_line(NewRow("k", value))):
        with pytest.raises(InvalidPayload, match=words) as refused:
            attempt()
        _is_one_sentence(str(refused.value))


@pytest.mark.parametrize("case", RAW)
def test_json_that_was_written_elsewhere_is_refused_for_the_same_reasons(case: str) -> None:
    written, words = RAW[case]
    for attempt in (verbs.enqueue, copy_line):
        with pytest.raises(InvalidPayload, match=words) as refused:
            attempt(NewRow("k", msgspec.Raw(written)))
        _is_one_sentence(str(refused.value))


@pytest.mark.parametrize("case", ROWS)
def test_an_option_that_cannot_be_is_refused_before_anything_is_sent(case: str) -> None:
    options, words = ROWS[case]
    row = NewRow(**{"kind": "send_receipt", **options})
    for attempt in (lambda: verbs.enqueue(row), lambda: copy_line(row)):
        with pytest.raises(InvalidPayload, match=words) as refused:
            attempt()
        _is_one_sentence(str(refused.value))


def _is_one_sentence(said: str) -> None:
    assert said == said.strip() != ""
    assert "\n" not in said
    assert len(said) < 400
    said.encode()  # can be printed anywhere


def test_one_bad_row_of_a_bulk_call_refuses_them_all(world: World) -> None:
    with pytest.raises(InvalidPayload):
        world.run(verbs.enqueue_many([NewRow("k"), NewRow("")]))
    with pytest.raises(InvalidPayload):
        postgres.copy(world.conn, [NewRow("k"), NewRow("k", {"a": "\0"})], world.schema)
    assert world.count("live") == 0


def test_what_is_at_the_limit_is_taken_and_given_back(world: World) -> None:
    values: list[Any] = [_deep(limits.DEPTH_MAX - 1), "x" * (limits.PAYLOAD_BYTES_MAX - 2), 10**3600, -(2**63), 2**64]
    for value in values:
        world.enqueue(
            "k" * 128, value, key="k" * 512, queue="q" * 128, idempotency_key=None, priority=-100, max_attempts=10_000
        )
    jobs = world.claim("A", 10, lanes=[Lane("q" * 128, -100)])
    assert [json.loads(job.payload) for job in jobs] == values
    assert [job.decode() for job in jobs] == values


WRITTEN = ["1e-3900", "5e-324", "-5e-324", "1.25E+300", "-1e22", "0.1", "120.50e-3", "7e0", "9" * 3000, "0." + "3" * 99]


@pytest.mark.one_server
@pytest.mark.parametrize("number", WRITTEN, ids=lambda number: number[:12])
def test_a_payload_stays_within_its_limit_as_postgres_writes_it(world: World, number: str) -> None:
    """Its size is counted before it is sent: one number more than fits is refused."""
    length = len(world.sql("SELECT %s::jsonb::text", number)[0][0])
    fits = limits.PAYLOAD_BYTES_MAX // (max(length, len(number)) + 2)  # Postgres puts a space after each comma
    world.enqueue(payload=msgspec.Raw(f"[{','.join([number] * fits)}]".encode()))
    (stored,) = world.claim("A")
    assert len(stored.payload) <= limits.PAYLOAD_BYTES_MAX
    with pytest.raises(InvalidPayload, match="the limit is 1048576"):
        payload.encode(msgspec.Raw(f"[{','.join([number] * (fits + 1))}]".encode()))


@pytest.mark.one_server
def test_floats_are_counted_as_postgres_writes_them_and_come_back_the_same(world: World) -> None:
    for value in (5e-324, -2.2250738585072014e-308, 9.999e-5, 0.0001, 0.0, 1e15, 1e16, -1.5e16, 1.7976931348623157e308):
        length = len(world.sql("SELECT %s::jsonb::text", repr(value))[0][0])
        fits = limits.PAYLOAD_BYTES_MAX // (max(length, len(repr(value))) + 2)
        assert json.loads(payload.encode([value] * fits)) == [value] * fits
        with pytest.raises(InvalidPayload, match="the limit is 1048576"):
            payload.encode([value] * (fits + 1))
    world.enqueue(payload=[5e-324] * 3000)
    assert world.claim("A")[0].decode() == [5e-324] * 3000


def test_json_that_was_written_elsewhere_keeps_its_digits_and_the_last_of_two_equal_names(world: World) -> None:
    written = {
        b'{"a": 1, "a": 2}': '{"a": 2}',
        b"12345678901234567890.10": "12345678901234567890.10",
        b"0.1000000000000000055511151231257827": "0.1000000000000000055511151231257827",
        b"1e-400": "0." + "0" * 399 + "1",
        b"[-0, 1.50e1, 2E3]": "[0, 15.0, 2000]",
        '"\N{SNOWMAN} \\u2603 \\ud83d\\ude00"'.encode(): '"\N{SNOWMAN} \N{SNOWMAN} \N{GRINNING FACE}"',
        b" [1] ": "[1]",
    }
    for text in written:
        world.enqueue(payload=msgspec.Raw(text), key="k")
    assert [job.payload for job in world.claim("A", 10)] == list(written.values())


@dataclasses.dataclass
class Receipt:
    order_id: int
    at: datetime


def test_what_has_a_json_form_is_sent_in_it(world: World) -> None:
    at = datetime(2026, 12, 24, 18, tzinfo=UTC)
    sent: list[Any] = [Receipt(9182, at), UUID(int=1), (1, 2), {1: "one"}, b"bytes", {3}, Decimal("1.50"), {at: 2.5}]
    for value in sent:
        world.enqueue(payload=value, key="k")
    assert [job.decode() for job in world.claim("A", 10)] == [
        {"order_id": 9182, "at": "2026-12-24T18:00:00Z"}, str(UUID(int=1)), [1, 2], {"1": "one"}, "Ynl0ZXM=", [3],
        "1.50", {"2026-12-24T18:00:00Z": 2.5},
    ]  # fmt: skip


SQL_CALLS = {
    "enqueue('', '{}')": 'kind="" has 0 bytes: it must have 1 to 128',
    "enqueue(repeat('k', 129), '{}')": 'kind="k{40}"… has 129 bytes: it must have 1 to 128',
    "enqueue(NULL, '{}')": "kind is NULL: it must have 1 to 128 bytes",
    "enqueue('k', NULL)": "payload is NULL: an empty one is '{}'",
    "enqueue('k', '{}', queue => '')": 'queue="" has 0 bytes: it must have 1 to 128',
    "enqueue('k', '{}', partition_key => '')": 'partition_key="" has 0 bytes: it must have 1 to 512',
    "enqueue('k', '{}', partition_key => repeat('k', 513))": "partition_key=.* has 513 bytes: it must have 1 to 512",
    "enqueue('k', '{}', idempotency_key => '')": 'idempotency_key="" has 0 bytes: it must have 1 to 512',
    "enqueue('k', to_jsonb(repeat('x', 1048576)))": "payload has 1048578 bytes, the limit is 1048576",
    "enqueue('k', '{}', priority => 101)": "priority=101 must be a whole number between -100 and 100",
    "enqueue('k', '{}', delay_seconds => -1)": "delay_seconds=-1 must be between 0 and 315576000",
    "enqueue('k', '{}', delay_seconds => 'NaN')": "delay_seconds=NaN must be between 0 and 315576000",
    "enqueue('k', '{}', delay_seconds => 'Infinity')": "delay_seconds=Infinity must be between 0 and 315576000",
    "enqueue('k', '{}', at => 'infinity')": "at=infinity must be within ten years from now",
    "enqueue('k', '{}', at => '9999-12-31')": "at=9999-12-31 .* must be within ten years from now",
    "enqueue('k', '{}', at => now(), delay_seconds => 1)": "two answers to one question",
    "enqueue('k', '{}', max_attempts => 0)": "max_attempts=0 must be a whole number between 1 and 10000",
    "enqueue('k', '{}', ordered => true)": "an ordered row needs a partition_key",
    "enqueue('k', '{}', hold => true)": "hold needs ordered",
}


def test_the_sql_function_refuses_the_same_with_the_same_words(world: World) -> None:
    for call, words in SQL_CALLS.items():
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=words):
            world.sql(f"SELECT {call}")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        world.sql("SELECT enqueue('k', '{}', delay_seconds => NULL)")
    assert world.count("live") == world.count("idempotency") == 0


# -- settings


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("TENURE_DATABSE_URL", "TENURE_DATABASE_URL"),
        ("TENURE_SHEMA", "TENURE_SCHEMA"),
        ("TENURE_HOMEE", "TENURE_HOME"),
        ("TENURE_PGBIN", "TENURE_PG_BIN"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_one(name: str, near: str) -> None:
    with pytest.raises(BadSettings, match=f"unknown setting {name}: did you mean {near}?"):
        settings.load(environ={name: "x"})


def test_settings_that_are_not_ours_are_none_of_our_business() -> None:
    assert settings.load(environ={"PATH": "/bin", "TENUREX": "1"}).database_url is None


def test_a_setting_may_come_from_a_file_and_a_missing_file_is_named(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://tenure@db/tenure\n")
    loaded = settings.load(environ={"TENURE_DATABASE_URL_FILE": str(secret)})
    assert loaded.database_url == "postgresql://tenure@db/tenure"
    with pytest.raises(BadSettings, match="TENURE_DATABASE_URL_FILE names '/no/such/file', which cannot be read"):
        settings.load(environ={"TENURE_DATABASE_URL_FILE": "/no/such/file"})


WRONG_URLS = [
    "nonsense",
    "",
    "mysql://u:s3cret@h/db",
    "postgresql://u:s3cret@h/db?bogus=1",
    "postgresql://u:s3:cret@h:1/db?bogus=1",
    "postgresql://u:s3cret:s3cret@h:bad/db",
    "postgresql://u:s3/s3cret@h/db",
    "postgresql://u:s3@s3cret@h:1/db",
    "postgresql://h/db?password=s3cret&bogus=1",
    "host=h password=s3cret bogus=1",
    "host=h password = 's3 s3cret' bogus=1",
    "password='s3cret",
    "postgresql://[::1",
    "u:s3cret@h:5432/db",
    "postgresql://me@corp:s3cret@h/db",
    "postgres:/u:s3cret@h/db",
    "host=h pasword=s3cret",
    "postgresql://h/db?user=u&pass=s3cret",
]


@pytest.mark.parametrize("url", WRONG_URLS)
def test_a_wrong_address_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(BadSettings, match=r"--database-url.* (is|must be) ") as refused:
        settings.load(database_url=url, environ={})
    _is_one_sentence(str(refused.value))
    assert "s3" not in str(refused.value)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("schema", ["Tenure", "1a", "a-b", "pg_x", "a" * 64, 'a"; DROP TABLE x', "ü"])
def test_a_bad_schema_name_is_refused(schema: str) -> None:
    ways: list[dict[str, Any]] = [{"schema": schema, "environ": {}}, {"environ": {"TENURE_SCHEMA": schema}}]
    for way in ways:
        with pytest.raises(BadSettings, match="schema") as refused:
            settings.load(**way)
        _is_one_sentence(str(refused.value))


# -- the same through the command line


class Answer(NamedTuple):
    code: int
    out: str
    trouble: str


def _tenure(*arguments: str | bytes, url: str | None = None, **environ: str) -> Answer:
    """Run a command as a user would, from a process that has no settings but these."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    address = {"TENURE_DATABASE_URL": url} if url else {}
    done = warm.run(*arguments, env=kept | address | environ)
    return Answer(done.returncode, done.stdout, done.stderr)


def _refused(answer: Answer, code: int, *words: str) -> None:
    assert answer.code == code, answer
    assert answer.out == ""
    assert "Traceback" not in answer.trouble
    assert "s3cret" not in answer.trouble
    for word in words:
        assert word in answer.trouble, answer.trouble
    assert answer.trouble.startswith("tenure: ")
    _is_one_sentence(answer.trouble.removeprefix("tenure: ").rstrip("\n"))


COMMANDS: dict[str, tuple[list[str | bytes], int, str]] = {
    "nul": (["enqueue", "k", r'{"a": "\u0000"}'], USAGE, "payload['a'] contains a NUL character"),
    "surrogate": (["enqueue", "k", r'["\ud800"]'], USAGE, "payload[0] contains a lone surrogate"),
    "bytes that are no text": (["enqueue", b"k\xff"], USAGE, "kind contains a lone surrogate"),
    "nan": (["enqueue", "k", "NaN"], USAGE, "payload is nan"),
    "infinity": (["enqueue", "k", '{"a": -Infinity}'], USAGE, "payload['a'] is -inf"),
    "no json": (["enqueue", "k", "{order_id: 1}"], USAGE, """write it like {"order_id": 9182}"""),
    "a depth bomb": (["enqueue", "k", "[" * 50_000], USAGE, "is not JSON"),
    "too deep": (["enqueue", "k", "[" * 300 + "]" * 300], USAGE, "nested deeper than 200 levels"),
    "a huge number": (["enqueue", "k", "1" * 5000], USAGE, "1…, a number of more than 4000 digits: send it as"),
    "a small number": (["enqueue", "k", '{"a": 1e-20000}'], USAGE, "payload['a'] is 1e-20000, a number of more than"),
    "nul in the first of two": (["enqueue", "k", r'{"a": "\u0000", "a": 1}'], USAGE, "payload['a'] contains a NUL"),
    "empty payload": (["enqueue", "k", ""], USAGE, "PAYLOAD is empty: leave it out to send {}, or write it like"),
    "blank payload": (["enqueue", "k", " "], USAGE, "PAYLOAD is empty: leave it out to send {}"),
    "empty kind": (["enqueue", ""], USAGE, "kind='' has 0 bytes"),
    "empty key": (["enqueue", "k", "--key", ""], USAGE, "key='' has 0 bytes"),
    "long key": (["enqueue", "k", "--idempotency-key", LONG], USAGE, "has 513 bytes"),
    "priority": (["enqueue", "k", "--priority", "101"], USAGE, "priority=101"),
    "day alone": (["enqueue", "k", "--at", "2026-12-24"], USAGE, "has no time of day: write 2026-12-24T18:00+01:00"),
    "day and zone": (["enqueue", "k", "--at", "2026-12-24+01:00"], USAGE, "has no time of day"),
    "day in UTC": (["enqueue", "k", "--at", "2026-12-24Z"], USAGE, "has no time of day"),
    "naive time": (["enqueue", "k", "--at", "2026-12-24T18:00"], USAGE, "has no time zone"),
    "no time": (["enqueue", "k", "--at", "tomorrow"], USAGE, "--at 'tomorrow' must be a time"),
    "huge delay": (["enqueue", "k", "--at", "+99999999d"], USAGE, "delay_seconds="),
    "bad schema": (["migrate", "--schema", "Bad-Name"], BAD_SETTINGS, "schema 'Bad-Name' is not a plain name"),
    "nobody listens": (["enqueue", "k"], UNREACHABLE, "is it running, and is the URL right?"),
}  # fmt: skip


def test_a_migration_that_is_not_there_is_a_usage_error() -> None:
    answer = _tenure("migrate", "--sql", "--to", "99", url=NOWHERE)
    assert (answer.code, answer.out) == (USAGE, "")
    assert "--to 99: there is no such migration" in answer.trouble


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_ends_with_one_sentence_and_its_exit_code(case: str) -> None:
    arguments, code, words = COMMANDS[case]
    # Nobody listens there: what is refused with another code was refused before anything was sent.
    _refused(_tenure(*arguments, url=NOWHERE), code, words)


def test_wrong_settings_end_a_command_with_their_name() -> None:
    _refused(_tenure("migrate", TENURE_SHEMA="x"), BAD_SETTINGS, "unknown setting TENURE_SHEMA", "TENURE_SCHEMA")
    _refused(
        _tenure("migrate", url="mysql://u:s3cret@h/db"), BAD_SETTINGS, "TENURE_DATABASE_URL must be a database address"
    )


@pytest.mark.parametrize("arguments", [["nosuch"], ["enqueue"], ["enqueue", "k", "--priority", "x"], ["sql", "nosuch"]])
def test_a_command_nobody_knows_is_a_matter_of_usage(arguments: list[str]) -> None:
    answer = _tenure(*arguments, url=NOWHERE)
    assert (answer.code, answer.out) == (USAGE, "")
    assert "Error: " in answer.trouble
    assert "Traceback" not in answer.trouble


# -- what only a server can refuse


@pytest.fixture
def elsewhere(world: World) -> Iterator[str]:
    """The world's server under the name of a role that may connect and nothing else."""
    role = f"guest_{world.schema}"
    world.sql(f"CREATE ROLE {role} LOGIN")
    try:
        yield psycopg.conninfo.make_conninfo(world.url, user=role)
    finally:
        world.sql(f"DROP OWNED BY {role}")
        world.sql(f"DROP ROLE {role}")


def test_a_role_without_rights_is_told_whom_to_ask(world: World, elsewhere: str) -> None:
    answer = _tenure("enqueue", "k", url=elsewhere, TENURE_SCHEMA=world.schema)
    _refused(answer, NOT_ALLOWED, "permission denied", world.schema, "ask its owner for the right")
    world.sql(f"GRANT USAGE ON SCHEMA {world.schema} TO guest_{world.schema}")
    world.sql(f"GRANT SELECT ON migrations TO guest_{world.schema}")
    answer = _tenure("enqueue", "k", url=elsewhere, TENURE_SCHEMA=world.schema)
    _refused(answer, NOT_ALLOWED, "permission denied", "ask its owner for the right")
    with psycopg.connect(elsewhere) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        postgres.run(conn, verbs.enqueue(NewRow("k")), world.schema)
    assert world.count("live") == 0


def test_a_schema_of_another_version_names_the_command_that_helps(world: World) -> None:
    missing = "m" + world.schema
    answer = _tenure("enqueue", "k", url=world.url, TENURE_SCHEMA=missing)
    _refused(answer, BAD_SETTINGS, f"schema {missing!r} is missing: run `tenure migrate --schema {missing}`")
    world.sql(
        "INSERT INTO migrations (version, name, checksum, kind) VALUES (%s, 'x', 'x', 'contract')", migrate.newest() + 1
    )
    answer = _tenure("enqueue", "k", url=world.url, TENURE_SCHEMA=world.schema)
    _refused(answer, BAD_SETTINGS, "newer than", "pip install -U tenure")
    with pytest.raises(SchemaMismatch):
        migrate.require(world.conn, world.schema)
    assert world.count("live") == 0


def test_a_database_or_a_role_that_does_not_exist_is_named(world: World) -> None:
    no_database = psycopg.conninfo.make_conninfo(world.url, dbname="no_such_database")
    _refused(_tenure("migrate", url=no_database), UNREACHABLE, "no_such_database", "create the database")
    no_role = psycopg.conninfo.make_conninfo(world.url, user="no_such_role")
    _refused(_tenure("migrate", url=no_role), NOT_ALLOWED, "no_such_role", "check the user")


def test_a_conflict_of_keys_ends_a_command_with_no(world: World) -> None:
    def send(text: str) -> Answer:
        return _tenure("enqueue", "k", text, "--idempotency-key", "once", url=world.url, TENURE_SCHEMA=world.schema)

    assert send('{"a": 1}').out.startswith("enqueued ")
    assert send('{"a": 1}').out.startswith("duplicate ")
    _refused(send('{"a": 2}'), NO, "idempotency key 'once' belongs to row", "choose another key")
    with pytest.raises(IdempotencyConflict):
        world.enqueue("k", {"a": 3}, idempotency_key="once")
    assert world.count("live") == 1


def test_a_wrong_password_is_refused_and_never_shown(tmp_path: Path) -> None:
    with (
        attach(tmp_path / "locked", fast=True, linger_seconds=0) as server,
        psycopg.connect(server.url, autocommit=True) as owner,
    ):
        owner.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
        rules = Path(str(owner.execute("SHOW hba_file").fetchone()[0]))  # type: ignore[index]
        rules.write_text("local all guest scram-sha-256\n" + rules.read_text())
        owner.execute("SELECT pg_reload_conf()")
        for password, words in (("s3cret", "password authentication failed"), ("", "password")):
            url = psycopg.conninfo.make_conninfo(
                server.url, user="guest", **({"password": password} if password else {})
            )
            _refused(_tenure("migrate", url=url), NOT_ALLOWED, words, "check the user and password in the URL")
        assert owner.execute("SELECT to_regnamespace('tenure')").fetchone() == (None,)


def test_every_error_of_ours_has_a_documented_exit_code() -> None:
    from tenure.cli import EPILOG

    def kinds(of: type[TenureError]) -> Iterator[type[TenureError]]:
        for kind in of.__subclasses__():
            yield kind
            yield from kinds(kind)

    for kind in kinds(TenureError):
        assert f"{kind.exit_code} " in EPILOG, kind
