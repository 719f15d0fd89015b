"""`tenure hooks`: endpoints are added, shown, changed, paused, tested and sent to again; no secret is shown twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from click.testing import CliRunner, Result

from tenure.cli import tenure
from tenure.shapes.webhook import public_key
from tenure.verbs import endpoints, operators
from world import World

pytestmark = pytest.mark.one_server
URL = "https://acme.example/hook"
NONE = "from tenure import Inbox\ninbox = Inbox()\n@inbox.handler('k')\ndef k(job): ...\n"
APP = """
import os
from tenure import Codec, Inbox
from tenure.shapes.webhook import Guard, Webhooks
inbox = Inbox(codec=None)
hooks = Webhooks(inbox, guard=Guard(allow_networks=("10.1.0.0/16",)), queue="calls")
"""


def call(world: World, *words: str) -> Result:
    ran = CliRunner().invoke(tenure, ["hooks", *words, "--database-url", world.url, "--schema", world.schema])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        ran.output_bytes = f"{ran.output}{ran.exception}".encode()  # as `main` says it, in one sentence
        ran.exit_code = ran.exception.exit_code  # type: ignore[attr-defined]
    return ran


def answer(world: World, *words: str) -> Any:
    ran = call(world, *words, "--json")
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def add(world: World, tenant: str = "acme", *more: str) -> tuple[str, str]:
    made = answer(world, "add", tenant, URL, "--kind", "order.*", *more)
    return made["endpoint"], made["secret"]


def called(world: World, endpoint: str, status: int | None, ms: int, webhook: UUID | None = None) -> None:
    world.sql(
        "INSERT INTO deliveries (row_id, fence_token, attempt, endpoint_id, webhook_id, status, ms, note) "
        "VALUES (new_id(), 1, 1, %s, %s, %s, %s, 'said')",
        *(endpoint, webhook or uuid4(), status, ms),
    )


def test_an_endpoint_is_added_and_its_secret_is_printed_once(world: World) -> None:
    assert "tenure hooks add" in call(world).output
    id, secret = add(world)
    assert secret.startswith("whsec_")
    assert call(world, "add", "acme", URL, "--kind", "*").output.startswith("endpoint ")
    for seen in (call(world), call(world, "--json"), call(world, "show", id), call(world, "show", id, "--json")):
        assert seen.exit_code == 0, seen.output
        assert "acme" in seen.output
        assert "whsec" not in seen.output
    assert [line.verb for line in world.run(operators.audit())] == ["add_endpoint", "add_endpoint"]
    assert "whsec" not in str(world.run(operators.audit()))


def test_the_list_says_what_waits_and_how_the_last_calls_went(world: World) -> None:
    id, _ = add(world)
    add(world, "other")
    world.run(endpoints.send_webhook("acme", "order.paid", b"{}", queue="webhooks"))
    for status, ms in ((200, 10), (500, 30), (None, 9000)):
        called(world, id, status, ms)
    (one,) = answer(world, "--tenant", "acme")["endpoints"]
    assert (one["pending"], one["state"]) == (1, "active")
    lately = one["calls"]
    assert (lately["calls"], lately["ok"], lately["p50_ms"], lately["p99_ms"]) == (3, 1, 30, 9000)
    assert lately["answers"] == [None, 500, 200]
    line = call(world, "--tenant", "acme").output
    assert "- 500 200" in line
    assert "9000 ms" in line
    shown = call(world, "show", id).output
    assert "no answer" in shown
    assert "1 row pending" in shown
    world.sql("UPDATE endpoints SET open_until = clock_timestamp() + interval '1 hour', failures = 5 WHERE id = %s", id)
    assert "circuit open until" in call(world).output


def test_pause_keeps_what_waits_and_resume_makes_it_due(world: World) -> None:
    id, _ = add(world)
    world.run(endpoints.send_webhook("acme", "order.paid", b"{}", queue="webhooks"))
    world.sql("UPDATE live SET available_at = clock_timestamp() + interval '1 hour'")
    assert call(world, "pause", id, "--reason", "they asked").output == f"{id} is paused\n"
    assert "they asked" in call(world).output
    assert answer(world, "resume", id)["due"] == 1
    lines = world.run(operators.audit())
    assert [(line.verb, line.target) for line in lines[:2]] == [("resume_endpoint", id), ("pause_endpoint", id)]


def test_what_an_endpoint_is_can_be_changed_and_its_state_stays(world: World) -> None:
    id, _ = add(world)
    call(world, "pause", id)
    assert call(world, "set", id, "--url", "https://b.example/x", "--kind", "user.*").exit_code == 0
    (one,) = answer(world)["endpoints"]
    assert (one["url"], one["kinds"], one["state"]) == ("https://b.example/x", ["user.*"], "paused")
    assert call(world, "set", id, "--disable").output == f"{id} is disabled\n"
    assert answer(world)["endpoints"][0]["state"] == "disabled"


def test_a_secret_is_rotated_once_until_the_overlap_is_over(world: World) -> None:
    id, secret = add(world)
    other = answer(world, "rotate", id, "--overlap", "2h")["secret"]
    assert other != secret
    assert answer(world)["endpoints"][0]["rotating_until"] is not None
    refused = call(world, "rotate", id)
    assert refused.exit_code == 78
    assert "a rotation is open" in refused.output
    assert "--overlap 0s" in refused.output
    assert answer(world, "rotate", id, "--overlap", "0s")["secret"] not in (secret, other)
    assert answer(world)["endpoints"][0]["rotating_until"] is None
    verbs = [line.verb for line in world.run(operators.audit())]
    assert verbs == ["rotate_secret", "rotate_secret", "add_endpoint"]
    assert call(world, "replay", id, "--since", "1h").output == "nothing to send again: none is kept since then\n"


def test_a_receiver_is_given_a_public_key_and_the_signing_key_is_never_printed(world: World) -> None:
    made = answer(world, "add", "acme", URL, "--kind", "*", "--ed25519")
    assert made["public_key"].startswith("whpk_")
    assert "secret" not in made
    ((kept,),) = world.sql("SELECT secret FROM endpoints")
    assert public_key(kept) == made["public_key"]
    rotated = call(world, "rotate", made["endpoint"], "--ed25519").output
    assert "public key whpk_" in rotated
    assert "whsk_" not in rotated


def test_a_test_is_sent_to_one_endpoint_whatever_it_wants(world: World) -> None:
    id, _ = add(world)
    sent = answer(world, "test", id)["webhook"]
    assert world.sql("SELECT kind, tenant FROM webhooks WHERE id = %s", sent) == [("tenure.test", "acme")]
    assert world.sql("SELECT partition_key, queue FROM live") == [(f"endpoint:{id}", "webhooks")]
    call(world, "set", id, "--disable")
    assert call(world, "test", id).exit_code == 1


def test_kept_webhooks_are_sent_again_by_id_and_by_time(world: World) -> None:
    kept = [world.run(endpoints.send_webhook("acme", f"order.{n}", b"{}", queue="webhooks")).webhook_id for n in "ab"]
    world.run(endpoints.send_webhook("acme", "user.made", b"{}", queue="webhooks"))
    id, _ = add(world)
    unknown = str(UUID(int=9))
    resent = answer(world, "resend", id, unknown, str(kept[0]))
    assert (resent["sent"], resent["asked"], resent["left_out"]) == (1, 2, [unknown])
    told = call(world, "resend", id, unknown, str(kept[0])).output
    assert told == f"1 webhook will be sent again; its tenant has none with the id {unknown}\n"
    world.sql("DELETE FROM live WHERE id = (SELECT max(id::text)::uuid FROM live)")
    assert answer(world, "replay", id, "--since", "1h", "--dry-run")["matched"] == 2
    assert world.count("live") == 1
    unattended = call(world, "replay", id, "--since", "1h")
    assert unattended.exit_code == 2
    assert "--yes" in unattended.output
    assert answer(world, "replay", id, "--since", "1h", "--yes")["sent"] == 2
    assert world.count("live") == 3
    assert [(line.verb, line.rows) for line in world.run(operators.audit())][:2] == [
        ("replay", 2),
        ("resend_webhooks", 1),
    ]


def test_the_queue_is_the_one_that_workers_have_declared(world: World) -> None:
    world.sql(
        "INSERT INTO kinds (kind, form, queue, keyed, ordered, hold, priority, max_attempts, encrypted, worker, "
        "started_at, seen_at) SELECT 'webhook', 'f', 'calls', 'in_code', false, false, 0, 10, false, 'w', t, t "
        "FROM clock_timestamp() AS t"
    )
    id, _ = add(world)
    answer(world, "test", id)
    assert world.sql("SELECT queue FROM live") == [("calls",)]


def test_a_tenant_is_erased_and_the_audit_does_not_name_it(world: World) -> None:
    id, _ = add(world)
    add(world, "other")
    sent = world.run(endpoints.send_webhook("acme", "order.paid", b"{}", queue="webhooks"))
    called(world, id, 200, 1, sent.webhook_id)
    assert answer(world, "erase", "acme", "--yes") == {"schema": 1, "endpoints": 1, "webhooks": 1, "deliveries": 1}
    assert [each["tenant"] for each in answer(world)["endpoints"]] == ["other"]
    assert "acme" not in str(world.run(operators.audit(1)))


def test_the_guard_and_the_codec_of_an_application_are_used(world: World, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(APP)
    inside = "https://10.1.2.3/hook"
    assert call(world, "add", "acme", inside, "--kind", "*").exit_code == 2  # the control: nobody has allowed it
    assert call(world, "add", "acme", inside, "--kind", "*", "--app", f"{tmp_path}/plain.py:inbox").exit_code == 0
    (tmp_path / "none.py").write_text(
        "from tenure import Inbox\ninbox = Inbox()\n@inbox.handler('k')\ndef k(job): ...\n"
    )
    refused = call(world, "add", "acme", URL, "--kind", "*", "--app", f"{tmp_path}/none.py:inbox")
    assert "has no webhooks: write `hooks = Webhooks(inbox)`" in refused.output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nine"), 2, "'nine' must be the id of an endpoint. `tenure hooks` lists the endpoints."),
        (("show", str(UUID(int=9))), 1, "there is no endpoint"),
        (("pause", str(UUID(int=9))), 1, "`tenure hooks` lists the endpoints"),
        (("resume", str(UUID(int=9))), 1, "there is no endpoint"),
        (("test", str(UUID(int=9))), 1, "there is no endpoint"),
        (("set", str(UUID(int=9)), "--kind", "*"), 1, "there is no endpoint"),
        (("set", str(UUID(int=9))), 2, "set what?"),
        (("rotate", str(UUID(int=9))), 1, "there is no endpoint"),
        (("rotate", str(UUID(int=9)), "--overlap", "soon"), 2, "must be a span of time"),
        (("resend", str(UUID(int=9)), str(UUID(int=8))), 1, "none of these webhooks"),
        (("resend", str(UUID(int=9)), "eight"), 2, "must be the id of a webhook"),
        (("replay", str(UUID(int=9)), "--since", "1h", "--yes"), 1, "there is no endpoint"),
        (("add", "acme", "http://acme.example/", "--kind", "*"), 2, "give an https URL"),
        (("add", "acme", "https://127.0.0.1/", "--kind", "*"), 2, "not an address of the public internet"),
        (("add", "acme", URL, "--kind", "a*b"), 2, "'--kind': 'a*b': a star stands at the end"),
        (("add", "acme", URL, "--kind", ""), 2, "'--kind': '' must be a name of visible ASCII characters"),
        (("set", str(UUID(int=9)), "--kind", ""), 2, "'--kind': '' must be a name"),
        (("add", "", URL, "--kind", "*"), 2, "'TENANT': '' must be text of 1 to 256 bytes"),
        (("rotate", str(UUID(int=9)), "--overlap", "99999d"), 2, "'--overlap': '99999d' must be 30d at most"),
        (("erase", "acme"), 2, "give --yes"),
        (("puase", "x"), 2, "did you mean pause?"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_nothing_is_written(
    world: World, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = call(world, *words)
    assert said in " ".join(ran.output.split()), ran.output
    assert ran.exit_code == code
    assert world.run(operators.audit()) == []
