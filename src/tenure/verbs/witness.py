"""Who was there and what they saw, each as a Statement: the audit's chain, its lines about reading, and web tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from ..errors import InvalidPayload
from ..model.chain import Link
from ..model.limits import NAME_BYTES_MAX
from ..model.payload import check_name, check_text
from .statement import Statement

SEALED_MAX = 1000  # lines in one transaction
Reading = Literal["export", "reveal", "login_failed"]


class Chain(NamedTuple):
    """The two ends of the chain, and how many lines are not in it yet."""

    anchor_seq: int
    anchor_hash: str
    tip_seq: int
    tip_hash: str
    unsealed: int
    stray: int | None  # the first line that says it is linked and is not


class Token(NamedTuple):
    """A token for the web, without its secret."""

    id: str
    name: str
    role: str
    queues: list[str] | None
    reveal: bool
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None
    status: Literal["valid", "expired", "revoked"]


class Shown(NamedTuple):
    """What a token that somebody showed allows."""

    name: str
    role: str
    queues: list[str] | None
    reveal: bool
    expired: bool
    revoked: bool


def seal(most: int = SEALED_MAX) -> Statement[int | None]:
    """Link lines that are not in the chain yet; how many, or None if another session does it now."""
    return Statement("seal", {"most": most}, lambda rows: rows[0][0])


def forget_audit(seconds: float) -> Statement[int]:
    """Forget the oldest lines that ended so long ago; the chain then begins at the last hash of them."""
    if not 86_400 <= seconds <= 3.2e9:
        raise InvalidPayload(f"the audit is kept for {seconds / 86_400:g} days: give 1 day to 100 years")
    return Statement("forget_audit", {"seconds": seconds}, lambda rows: int(rows[0][0]))


def audit_links(after: int, n: int = 1000) -> Statement[list[Link]]:
    """The next links after this one, each with its line."""
    return Statement("audit_links", {"after": after, "n": n}, lambda rows: [Link(*row) for row in rows])


def audit_chain() -> Statement[Chain]:
    """Where the chain begins and ends."""
    return Statement("audit_chain", {}, lambda rows: Chain(*rows[0]))


def note_reading(actor: str, via: str, verb: Reading, target: str, reason: str = "") -> Statement[int]:
    """Begin a line about something that was read, or tried in vain; returns its number."""
    params = {
        "actor": check_text(actor, "actor")[: 2 * NAME_BYTES_MAX],
        "via": check_name(via, "via"),
        "verb": verb,
        "target": check_text(target, "target"),
        "reason": check_text(reason, "reason"),
    }
    return Statement("note_reading", params, lambda rows: int(rows[0][0]))


def end_reading(action: int, rows: int) -> Statement[bool]:
    """Write how many rows were read; False if there is no such open line of this database user."""
    return Statement("end_reading", {"action": action, "rows": rows}, lambda found: found[0][0] is not None)


def create_token(
    id: str,
    hash: bytes,
    *,
    name: str,
    role: str,
    seconds: float,
    created_by: str,
    queues: Sequence[str] | None = None,
    reveal: bool = False,
) -> Statement[bool]:
    """Keep a new token by the hash of its secret; False if the name was given before."""
    params = {
        "id": id,
        "name": check_name(name, "name"),
        "hash": hash,
        "role": role,
        "queues": None if queues is None else [check_name(queue, "queue") for queue in queues],
        "reveal": reveal,
        "seconds": seconds,
        "created_by": check_text(created_by, "created_by"),
    }
    return Statement("create_token", params, bool)


def revoke_token(name: str) -> Statement[bool]:
    """Let nobody in by this token from now on; False if there is none, or it was revoked before."""
    return Statement("revoke_token", {"name": check_name(name, "name")}, bool)


def use_token(id: str, hash: bytes) -> Statement[Shown | None]:
    """Whose token this is; None if nobody's."""
    return Statement("use_token", {"id": id, "hash": hash}, lambda rows: Shown(*rows[0]) if rows else None)


def tokens() -> Statement[list[Token]]:
    """Every token, the newest first."""
    return Statement("tokens", {}, lambda rows: [Token(*row) for row in rows])
