"""The stage and its actors: what is waited for, who may bear which name, and what is said when something cannot be."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import socket
import struct
import time

import psycopg
import pytest

from drills.tales import alive, schemas, silent
from patience import SECONDS_MAX, soon
from tenure import postgres
from tenure.drills.scenes.receipt import receipt
from tenure.drills.stage import acts
from tenure.drills.stage.actor import DrillFailed
from tenure.drills.stage.crowd import CONNECT_SECONDS_MAX, at_once
from tenure.drills.stage.proxy import FaultProxy
from tenure.drills.stage.said import Said
from tenure.drills.stage.scene import Event, Fact, Step, perform, play
from tenure.drills.stage.stage import NAMES, Stage
from tenure.errors import BadSettings

pytestmark = pytest.mark.one_server

RECEIPT = receipt().scene


def test_a_step_that_does_not_come_is_the_trouble_and_leaves_nothing(server_url: str) -> None:
    never = Step("Nobody comes.", (acts.Enqueue(),), (Event("job_completed", seconds_max=0.05),))
    verdict = perform(server_url, dataclasses.replace(RECEIPT, steps=(never,)), silent)
    assert not verdict.ok
    assert verdict.fields()["shown"] is None
    assert verdict.trouble == "nobody did not report job_completed within 0 s"


def test_a_fact_that_is_not_seen_is_named(server_url: str) -> None:
    never = Step("Nothing is.", (), (Fact("a second moon", "SELECT false", 0.05),))
    verdict = perform(server_url, dataclasses.replace(RECEIPT, steps=(never,)), silent)
    assert verdict.trouble == "a second moon was not seen within 0 s"


def test_a_step_that_only_watches_sees_what_came_before_it_began(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        stage.build()
        both = Step("One.", (acts.Enqueue(1), acts.Enqueue(2)), (Event("enqueued", fields={"order": 1}),))
        watching = Step("Two.", (), (Event("enqueued", fields={"order": 2}, seconds_max=0.1),))
        verdict = play(stage, dataclasses.replace(RECEIPT, steps=(both, watching), proofs=()))
    assert verdict.trouble is None


def test_an_event_from_before_an_act_does_not_count_for_it(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        stage.build()
        both = Step("One.", (acts.Enqueue(1), acts.Enqueue(2)), (Event("enqueued", fields={"order": 1}),))
        acting = Step("Two.", (acts.Enqueue(3),), (Event("enqueued", fields={"order": 2}, seconds_max=0.05),))
        verdict = play(stage, dataclasses.replace(RECEIPT, steps=(both, acting), proofs=()))
    assert "did not report enqueued" in str(verdict.trouble)


class Break(acts.Act, frozen=True):
    """The database ends the stage's connection."""

    def do(self, stage: Stage) -> None:
        """As an administrator might."""
        with stage.connect() as conn:
            conn.execute("SELECT pg_terminate_backend(%s::int)", [stage.conn.info.backend_pid])


def test_trouble_with_the_database_is_a_red_verdict_and_leaves_nothing(server_url: str) -> None:
    log: list[Said] = []
    broken = Step("The line breaks.", (Break(), acts.Enqueue()))
    verdict = perform(server_url, dataclasses.replace(RECEIPT, steps=(broken,)), log.append)
    assert (verdict.ok, verdict.checks) == (False, ())
    assert "terminat" in str(verdict.trouble)
    assert "\n" not in str(verdict.trouble)
    assert (log[0].event, log[-1].event) == ("schema_made", "schema_removed")


def test_an_act_that_is_refused_in_a_scene_is_its_trouble(server_url: str) -> None:
    nobody = Step("Nobody is killed.", (acts.Kill("worker-A"),))
    verdict = perform(server_url, dataclasses.replace(RECEIPT, steps=(nobody,)), silent)
    assert verdict.trouble == "there is no worker-A on this stage: it has nobody"


def test_an_act_upon_somebody_who_is_not_there_is_refused_by_name(server_url: str) -> None:
    with Stage(server_url, silent) as stage, pytest.raises(BadSettings, match="there is no worker-A on this stage"):
        acts.Kill("worker-A").do(stage)


def test_a_word_that_nobody_waits_for_is_refused_and_ends_nobody(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        acts.Cast("worker-A").do(stage)
        with pytest.raises(BadSettings, match="worker-A waits for nothing yet"):
            acts.Answer("worker-A").do(stage)
        acts.Work("worker-A").do(stage)
        with pytest.raises(BadSettings, match="worker-A works already"):
            acts.Work("worker-A").do(stage)


def test_a_stage_has_room_for_eight(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        for _ in range(8):
            acts.Cast(stage._free(None)).do(stage)
        with pytest.raises(BadSettings, match="8 workers are on this stage already"):
            acts.Cast("worker-Z").do(stage)


def test_a_name_is_borne_by_one_at_a_time_and_comes_back_when_all_were_borne(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        names = []
        for _ in range(len(NAMES) + 2):
            names.append(stage._free(None))
            acts.Cast(names[-1]).do(stage)
            if names[-1] != "worker-B":
                acts.Kill(names[-1]).do(stage)
        assert names == [*NAMES, "worker-A", "worker-C"]  # worker-B is still there
        with pytest.raises(BadSettings, match="worker-B is on this stage already"):
            acts.Cast("worker-B").do(stage)
        assert sorted(stage.actors) == list(NAMES)
        told = [said for said in stage.log if said.event in ("worker_hired", "worker_gone")]
        hired, gone, again, *_ = [said for said in told if said.fields["worker"] == "worker-A"]
        assert (hired.event, gone.event, again.event) == ("worker_hired", "worker_gone", "worker_hired")
        assert hired.fields["pid"] == gone.fields["pid"] != again.fields["pid"]


def test_one_that_stands_still_is_answered_once(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        acts.Start("worker-A", gated=True).do(stage)
        acts.Pause("worker-A").do(stage)
        acts.Answer("worker-A").do(stage)
        with pytest.raises(BadSettings, match="worker-A has its answer and is stopped"):
            acts.Answer("worker-A").do(stage)


def test_one_that_has_just_ended_cannot_be_paused_and_that_is_said(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        actor = stage.cast("worker-A")
        actor.kill()
        with pytest.raises(DrillFailed, match="worker-A ended before it could be stopped"):
            actor.pause()


def test_nobody_can_read_a_url_in_what_an_actor_was_told(server_url: str) -> None:
    with Stage(server_url, silent) as stage:
        actor = stage.cast("worker-A")
        actor.tell("work")
        assert actor.told == {"work"}


def test_one_connection_that_cannot_be_had_ends_the_others_at_once(server_url: str) -> None:
    calls = itertools.count()
    began = time.monotonic()
    with Stage(server_url, silent) as stage:

        def connect() -> postgres.QueueConnection:
            if next(calls) == 2:
                raise psycopg.OperationalError("too many\nclients")
            return stage.connect()

        with pytest.raises(DrillFailed, match=r"4 transactions at once could not be run \(too many clients\)"):
            at_once(4, connect, lambda conn: conn.info.backend_pid)
        assert len(set(at_once(4, stage.connect, lambda conn: conn.info.backend_pid))) == 4
    assert time.monotonic() - began < soon(CONNECT_SECONDS_MAX)


def test_the_line_leads_to_the_address_that_was_given_not_to_the_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"host=nowhere.invalid hostaddr=127.0.0.1 port={server.getsockname()[1]}"
        with FaultProxy(url) as line, socket.create_connection(_address(line.url)) as client:
            client.sendall(struct.pack("!II", 8, 80_877_103))  # does the server encrypt?
            server.settimeout(SECONDS_MAX)
            server.accept()[0].close()


def _address(url: str) -> tuple[str, int]:
    given = psycopg.conninfo.conninfo_to_dict(url)
    return str(given["hostaddr"]), int(given["port"] or 0)


def test_a_stage_that_fails_ends_its_processes_and_removes_its_schema(server_url: str) -> None:
    stage = Stage(server_url, silent)
    with contextlib.suppress(DrillFailed), stage:
        stage.build()
        stage.cast("worker-A").pause()
        assert alive(stage.actors["worker-A"].pid)
        raise DrillFailed("as it happens")
    assert stage.schema not in schemas(server_url)
    assert not alive(stage.actors["worker-A"].pid)
