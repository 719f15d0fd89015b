"""An encrypted payload is read by its handler and by nobody else; a worker without its key leaves the row."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apps import vault
from crew import eventually, working
from tenure import Codec, Inbox, Job, NewRow, Retry, verbs
from tenure.app.key_ring import check_keys, keys_from_env, keys_from_file, parse
from tenure.errors import BadSettings, IdempotencyConflict, InvalidPayload
from tenure.events import EncryptionKeyMissing, JobCompleted, JobDeadLettered, JobReleased, JobRetried
from tenure.model.envelope import find, shown
from tenure.model.payload import encode
from tenure.model.veil import Veil
from tenure.settings.known import check_names, masked
from tenure.verbs import questions
from tenure.worker.outcomes import veiled
from world import World

ONE, TWO = {"k1": b"1" * 32}, {"k2": b"2" * 32}
CARD = "4111-1111-1111-1111"
IN_CLEAR = pytest.mark.parametrize(
    ("encrypt", "clear"), [(None, {}), (True, {}), (["card"], {"order": 7}), (False, {"order": 7, "card": CARD})]
)


class Cards(msgspec.Struct, array_like=True):
    cards: list[str]


def shop(keys: Any = ONE, **options: Any) -> tuple[Inbox, list[tuple[int, str]]]:
    """An inbox with one handler, and what it was called with."""
    inbox, seen = Inbox(codec=Codec(keys)), []

    @inbox.handler("pay", **options)
    def pay(order: int, card: str) -> None:
        seen.append((order, card))

    return inbox, seen


def stored(world: World) -> dict[str, Any]:
    """The payload of the only row, as it stands in the table."""
    ((text,),) = world.sql("SELECT payload::text FROM inbox")
    payload: dict[str, Any] = json.loads(text)
    return payload


def send(world: World, inbox: Inbox, **options: Any) -> Any:
    handler = inbox["pay"]
    handler.schema = world.schema
    return handler.using(**options).enqueue(world.conn, order=7, card=CARD)


@IN_CLEAR
def test_what_is_encrypted_is_read_by_the_handler_alone(world: World, encrypt: Any, clear: dict[str, Any]) -> None:
    inbox, seen = shop(encrypt=encrypt)
    send(world, inbox)
    payload = stored(world)
    payload.pop("$encrypted", None)
    assert payload == clear
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    assert seen == [(7, CARD)]


def test_a_payload_that_is_no_object_is_encrypted_whole(world: World) -> None:
    inbox, seen = Inbox(codec=Codec(ONE)), []

    @inbox.handler("pay", payload=Cards)
    def pay(cards: Cards) -> None:
        seen.append(cards.cards)

    pay.schema = world.schema
    pay.enqueue(world.conn, Cards([CARD]))
    assert CARD not in json.dumps(stored(world))
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    assert seen == [[CARD]]


def test_a_handler_in_a_process_reads_it_too(world: World) -> None:
    vault.inbox.use_schema(world.schema)
    vault.weigh.enqueue(world.conn, secret=CARD)
    assert CARD not in json.dumps(stored(world))
    with working(world, vault.inbox) as hired:
        hired.saw(JobCompleted)


@pytest.mark.parametrize("keys", [TWO, {"k1": b"x" * 32}], ids=["no key", "another key of that name"])
def test_a_worker_without_the_key_leaves_the_row_and_says_so(world: World, keys: Any) -> None:
    sent = send(world, shop()[0])
    with working(world, shop(keys)[0]) as hired:
        (told,) = hired.saw(EncryptionKeyMissing)
        hired.saw(JobReleased)
    row = world.row(sent.id)
    assert (told.job_id, told.key) == (sent.id, "k1")
    assert (row.status, row.attempts) == ("pending", 0)
    assert row.last_error is not None
    assert row.last_error.startswith("encrypted with key 'k1', ")
    assert row.available_at > row.created_at
    assert "encrypted with key 'k1'" in world.run(questions.why(sent.id))
    with working(world, shop({**TWO, **ONE})[0]) as other:
        world.due()
        other.saw(JobCompleted)


def test_a_worker_without_a_codec_leaves_the_row(world: World) -> None:
    sent = send(world, shop()[0])
    plain = Inbox()

    @plain.handler("pay")
    def pay(order: int, card: str) -> None: ...

    with working(world, plain) as hired:
        hired.saw(EncryptionKeyMissing)
        hired.saw(JobReleased)
    assert (world.row(sent.id).status, world.row(sent.id).attempts) == ("pending", 0)


def test_a_worker_in_a_process_without_the_key_leaves_the_row(world: World) -> None:
    inbox = Inbox(codec=Codec(TWO))

    @inbox.handler("weigh")
    def weigh(secret: str) -> None: ...

    weigh.schema = world.schema
    sent = weigh.enqueue(world.conn, secret=CARD)
    with working(world, vault.inbox) as hired:
        assert hired.saw(EncryptionKeyMissing)[0].key == "k2"
        hired.saw(JobReleased)
    assert (world.row(sent.id).status, world.row(sent.id).attempts) == ("pending", 0)


def test_keys_that_cannot_be_read_now_cost_no_attempt(world: World) -> None:
    def vault_is_shut() -> dict[str, bytes]:
        raise ConnectionError("no route to the vault")

    sent = send(world, shop()[0])
    with working(world, shop(vault_is_shut)[0]) as hired:
        assert "ConnectionError" in hired.saw(EncryptionKeyMissing)[0].reason
        hired.saw(JobReleased)
    assert (world.row(sent.id).status, world.row(sent.id).attempts) == ("pending", 0)


def test_a_worker_without_any_key_says_which_setting_is_missing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUR_KEYS", raising=False)
    send(world, shop()[0])
    with working(world, shop(keys_from_env("OUR_KEYS"))[0]) as hired:
        assert "OUR_KEYS is not set: give it keys like k1:BASE64" in hired.saw(EncryptionKeyMissing)[0].reason


def test_the_variable_of_the_guide_is_a_setting_and_its_value_is_shown_to_nobody() -> None:
    check_names({"TENURE_ENCRYPTION_KEYS": "k1:x", "TENURE_ENCRYPTION_KEYS_FILE": "/run/secrets/keys"})
    assert masked("TENURE_ENCRYPTION_KEYS", "k1:x") == "***"


@pytest.mark.parametrize("moved", ["kind", "queue", "partition_key"])
def test_a_ciphertext_opens_in_no_other_row(world: World, moved: str) -> None:
    inbox, seen = shop(queue="default", key="order-7")
    inbox.handler("refund")(lambda order, card: seen.append((order, card)))
    sent = send(world, inbox)
    to = {"kind": "refund", "queue": "vip", "partition_key": "order-8"}[moved]
    world.sql(f"UPDATE live SET {moved} = %s", to)
    with working(world, inbox, queues={"default": 1.0, "vip": 1.0}) as hired:
        (ended,) = hired.saw(JobDeadLettered)
    assert "cannot be decrypted with its key 'k1'" in ended.error
    assert world.status(sent.id) == "dead_letter"
    assert seen == []


def test_a_changed_ciphertext_does_not_open(world: World) -> None:
    inbox, seen = shop()
    send(world, inbox)
    world.sql(
        "UPDATE live SET payload = jsonb_set(payload, '{$encrypted,data}', "
        "to_jsonb(overlay(payload #>> '{$encrypted,data}' placing 'AAAA' from 20)))"
    )
    with working(world, inbox) as hired:
        hired.saw(JobDeadLettered)
    assert seen == []


# -- idempotency


def test_the_same_content_under_a_key_is_a_duplicate_and_other_content_a_conflict(world: World) -> None:
    inbox, _ = shop()
    first = send(world, inbox, idempotency_key="a")
    assert send(world, inbox, idempotency_key="a") == (first.id, "duplicate")
    handler = inbox["pay"].using(idempotency_key="a")
    assert handler.enqueue(world.conn, card=CARD, order=7).outcome == "duplicate", "fields have no order"
    with pytest.raises(IdempotencyConflict):
        handler.enqueue(world.conn, order=8, card=CARD)


def test_a_duplicate_stays_one_after_the_key_was_changed(world: World) -> None:
    first = send(world, shop(ONE)[0], idempotency_key="a")
    assert send(world, shop({**TWO, **ONE})[0], idempotency_key="a") == (first.id, "duplicate")


def test_a_digest_key_of_its_own_outlives_every_other_key(world: World) -> None:
    digest = {"digest": b"d" * 32}
    first = send(world, shop({**ONE, **digest})[0], idempotency_key="a")
    assert send(world, shop({**TWO, **digest})[0], idempotency_key="a") == (first.id, "duplicate")


def test_names_of_keys_are_in_order_by_their_numbers(world: World) -> None:
    """Without a digest key, the first name makes the digest: k10 is added after k9, not before it."""
    k9, k10 = {"k9": b"9" * 32}, {"k10": b"0" * 32}
    first = send(world, shop(k9)[0], idempotency_key="a")
    assert send(world, shop({**k9, **k10})[0], idempotency_key="a") == (first.id, "duplicate")
    assert send(world, shop({**k10, **k9})[0], idempotency_key="a") == (first.id, "duplicate")


@pytest.mark.parametrize("value", ['José "Pepe" O\'Neill', "Main\nStreet", "1234567"])
def test_a_value_is_covered_however_python_or_json_writes_it(value: str) -> None:
    veil = Veil(json.dumps({"name": value}))
    for text in (f"no {value}", f"no {value!r}", "no " + json.dumps({"name": value})):
        assert "***" in veil.over(text)
        assert not any(part in veil.over(text) for part in ("Jos", "Neill", "Street", "4567"))


@pytest.mark.parametrize("changed", ["order", "card"])
def test_a_clear_and_an_encrypted_field_both_make_a_conflict(world: World, changed: str) -> None:
    inbox, _ = shop(encrypt=["card"])
    send(world, inbox, idempotency_key="a")
    fields = {"order": 7, "card": CARD, changed: {"order": 8, "card": "5500"}[changed]}
    with pytest.raises(IdempotencyConflict):
        inbox["pay"].using(idempotency_key="a").enqueue(world.conn, **fields)


def test_equal_content_cannot_be_seen_across_rows(world: World) -> None:
    inbox, _ = shop()
    send(world, inbox, idempotency_key="a")
    send(world, inbox, idempotency_key="b")
    rows = world.sql("SELECT payload #>> '{$encrypted,data}', payload #>> '{$encrypted,digest}' FROM live")
    assert len({part for row in rows for part in row}) == 4
    assert len(set(world.sql("SELECT content_hash FROM idempotency"))) == 2


# -- what is told


@pytest.mark.parametrize("ends", ["raises", "returns", "does not fit"])
def test_no_error_tells_what_was_encrypted(world: World, ends: str) -> None:
    inbox = Inbox(codec=Codec(ONE))

    @inbox.handler("pay")
    def pay(order: int, card: str) -> Any:
        if ends == "returns":
            return Retry(f"card {card} refused")
        try:
            raise LookupError(card)
        except LookupError as error:
            raise ValueError(f"bad card {card!r}") from error

    pay.schema = world.schema
    sent = pay.enqueue(world.conn, order=7, card=CARD)
    if ends == "does not fit":
        other = Inbox(codec=Codec(ONE))
        other.handler("pay")(_wants_a_number)
        inbox = other
    with working(world, inbox) as hired:
        eventually(lambda: hired.of(JobRetried) or hired.of(JobDeadLettered))
    assert CARD not in repr(hired.events)
    row = world.row(sent.id)
    told = {"raises": "ValueError", "returns": "card *** refused", "does not fit": "does not fit the handler 'pay'"}
    assert row.last_error is not None
    assert told[ends] in row.last_error
    assert ends != "raises" or "in pay\n" in row.last_error
    everything = world.sql("SELECT row_to_json(i)::text FROM inbox AS i")
    everything += world.sql("SELECT row_to_json(a)::text FROM attempts AS a")
    assert CARD not in repr(everything)


def _wants_a_number(order: int, card: int) -> None: ...


def test_people_read_the_name_of_the_key(world: World) -> None:
    send(world, shop(encrypt=["card"])[0])
    send(world, shop()[0], idempotency_key="a")
    texts = [text for (text,) in world.sql("SELECT payload::text FROM live ORDER BY seq")]
    assert [shown(text) for text in texts] == [
        '{"order": 7, "$encrypted": "encrypted with key k1"}',
        '{"$encrypted": "encrypted with key k1"}',
    ]
    assert shown(texts[0][:70]) == '{"order": 7, "$encrypted": "encrypted with key k1"'
    assert shown('{"a": "\\"$encrypted\\""}') == '{"a": "\\"$encrypted\\""}'
    assert find('["$encrypted"]') is None


def test_a_schedule_keeps_its_payload_encrypted(world: World) -> None:
    inbox, _ = shop(encrypt=["card"])
    planned = inbox.schedule("nightly", "0 0 * * *", inbox["pay"], card=CARD, tick_as=None, order=3)
    assert CARD not in repr(planned)

    seen = []

    @inbox.handler("tick")
    def tick(card: str, at: str) -> None:
        seen.append((card, at))

    ticking = inbox.schedule("ticking", "0 0 * * *", tick, card=CARD, tick_as="at")
    text = encode(ticking.payload)
    assert CARD not in text
    world.sql("SELECT enqueue('tick', %s::jsonb || '{\"at\": \"noon\"}')", text)  # as a tick does
    inbox.schedules.clear()
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    assert seen == [(CARD, "noon")]


# -- settings


def test_keys_come_from_a_file_that_may_change_meanwhile(world: World, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nk1:" + "MTEx" * 10 + "MTE=\n")
    inbox, seen = shop(keys_from_file(file))
    send(world, inbox)
    sent = send(world, shop({"k2": b"2" * 32})[0])
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
        hired.saw(EncryptionKeyMissing)
        file.write_text(file.read_text() + "k2:" + "MjIy" * 10 + "MjI=\n")
        inbox.codec._asked = 0.0  # type: ignore[union-attr]
        hired.saw(JobReleased)
        world.due()
        hired.saw(JobCompleted, 2)
    assert world.status(sent.id) == "completed"
    assert len(seen) == 2


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUR_KEYS", "k2:" + "MjIy" * 10 + "MjI=,k1:" + "MTEx" * 10 + "MTE=")
    ring = check_keys(keys_from_env("OUR_KEYS")())
    assert (ring.writes, sorted(ring.prints)) == ("k2", ["k1", "k2"])
    monkeypatch.delenv("OUR_KEYS")
    monkeypatch.setenv("OUR_KEYS_FILE", str(tmp_path / "keys"))
    (tmp_path / "keys").write_text("k3:" + "MzMz" * 10 + "MzM=\n")
    assert check_keys(keys_from_env("OUR_KEYS")()).writes == "k3"
    monkeypatch.delenv("OUR_KEYS_FILE")
    with pytest.raises(BadSettings, match="OUR_KEYS is not set"):
        keys_from_env("OUR_KEYS")()


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({}, "no encryption key is given"),
        ({"digest": b"1" * 32}, "no encryption key is given"),
        ({"k1": b"short"}, "'k1' has 5 bytes, it must have 32"),
        ({"k1": "1" * 32}, "'k1' has str, it must have 32"),
        (["k1"], "come as list"),
    ],
)
def test_a_bad_ring_is_refused_in_one_sentence(keys: Any, sentence: str) -> None:
    with pytest.raises(BadSettings, match=sentence):
        Codec(keys)


@pytest.mark.parametrize("text", ["k1", "k1:", ":MTE=", "k1:no-base64", "k1:MTE=,k1:MTE="])
def test_a_bad_list_of_keys_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(BadSettings) as refused:
        parse(text, "OUR_KEYS")
    assert "OUR_KEYS" in str(refused.value)
    assert "no-base64" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"encrypt": ["cart"]}, "encrypts 'cart', but it does not take it: it takes order, card"),
        ({"key": "card:{card}"}, "would show 'card', which is encrypted"),
        ({"key": "card:{card}", "encrypt": ["card"]}, "would show 'card', which is encrypted"),
        ({"encrypt": "card"}, "give True, False or a list of fields"),
        ({"encrypt": []}, "names no field: write encrypt=False"),
    ],
)
def test_a_handler_that_would_show_it_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadSettings, match=sentence):
        shop(**options)


def test_a_clear_field_may_be_the_key(world: World) -> None:
    inbox, _ = shop(encrypt=["card"], key="order:{order}")
    assert world.row(send(world, inbox).id).partition_key == "order:7"


def test_encryption_without_a_codec_is_refused() -> None:
    with pytest.raises(BadSettings, match="its inbox has no codec"):
        Inbox().handler("pay", encrypt=True)(_wants_a_number)
    with pytest.raises(BadSettings, match="must be a Codec"):
        Inbox(codec=object()).handler("pay")(_wants_a_number)  # type: ignore[arg-type]


def test_the_name_of_the_envelope_is_taken(world: World) -> None:
    inbox = Inbox(codec=Codec(ONE))

    @inbox.handler("any")
    def any_field(**fields: Any) -> None: ...

    with pytest.raises(InvalidPayload, match="cannot be named"):
        any_field.row(**{"$encrypted": 1})


def test_neither_keys_nor_plain_text_show_in_a_repr() -> None:
    codec = Codec({"k1": os.urandom(32)})
    assert repr(codec) == "<Codec>"


def test_a_trace_gets_the_name_of_an_exception_and_not_its_text(world: World) -> None:
    world.enqueue("pay")
    job = Job(world.claim_one())
    error = ValueError(CARD)
    assert veiled(error, job) is error
    job.veil = Veil(json.dumps({"card": CARD}))
    hidden = veiled(error, job)
    assert (type(hidden).__qualname__, CARD in str(hidden)) == ("ValueError", False)
    assert CARD not in job.veil.over(f"no {CARD}") + repr(job.veil)


def test_a_row_in_clear_is_still_taken(world: World) -> None:
    world.run(verbs.enqueue(NewRow("pay", {"order": 7, "card": CARD})))
    inbox, seen = shop()
    with working(world, inbox) as hired:
        hired.saw(JobCompleted)
    assert seen == [(7, CARD)]
