"""A handler of its own process whose payload is encrypted."""

from __future__ import annotations

from tenure import Codec, Inbox, Job

inbox = Inbox(codec=Codec({"k1": b"1" * 32}))


@inbox.handler("weigh", pool="process")
def weigh(secret: str) -> None:
    assert len(secret) == 19


@inbox.handler("not_kept", pool="process", keep_payload=False)
def fenced_and_not_kept(job: Job, secret: str) -> None:
    assert secret
    with job.fenced():
        pass
