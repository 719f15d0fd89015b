"""Groups that somebody else vouches for, as roles: the highest of a person's groups counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import BadSettings
from ..operator_verbs import ROLES, Role
from .access import Access
from .credentials import role_of

SETTING = "TENURE_WEB_GROUPS"
EVERYBODY = "*"
ACTOR_MAX = 200
OURS = ("local", "nobody", "token")  # names that the audit has for others
OURS_BEFORE = "token:"


@dataclass(frozen=True, slots=True)
class Groups:
    """Which group has which role, as `sre=admin+reveal,dev=operate,*=read`."""

    roles: tuple[tuple[str, Role, bool], ...]

    @classmethod
    def read(cls, text: str) -> Groups:
        """The groups of this setting."""
        found = []
        for number, entry in enumerate(filter(None, map(str.strip, text.split(","))), 1):
            group, sign, role = entry.rpartition("=")
            if not sign or not group:
                raise BadSettings(f"entry {number} of {SETTING} must be group=role: write e.g. sre=admin, *=read")
            found.append((group, *role_of(role, f"{SETTING}: the role of {group!r}")))
        if not found:
            raise BadSettings(f"{SETTING} must say which group has which role: write e.g. sre=admin,*=read")
        return cls(tuple(found))

    @property
    def give_reveal(self) -> bool:
        """Does one of them have the right to see payloads?"""
        return any(reveal for _, _, reveal in self.roles)

    def access(self, name: str, groups: Iterable[str]) -> Access | None:
        """Who this is by the highest role of their groups; None if none of them has one."""
        theirs = {EVERYBODY, *groups}
        mine = [(role, reveal) for group, role, reveal in self.roles if group in theirs]
        if not mine:
            return None
        return Access(name, max((role for role, _ in mine), key=ROLES.index), any(reveal for _, reveal in mine))


def clean_name(text: object) -> str | None:
    """A name that may stand in the audit; None if this is none."""
    name = text.strip() if isinstance(text, str) else ""
    return name if name.isprintable() and 1 <= len(name.encode()) <= ACTOR_MAX else None


def is_ours(name: str) -> bool:
    """Is it a name by which Tenure itself calls somebody, in whatever case? Nobody else may go by it."""
    return name.casefold() in OURS or name.casefold().startswith(OURS_BEFORE)


def not_theirs(name: str) -> str:
    """The sentence about such a name."""
    return f"{name!r} is a name of Tenure's own, and the audit could not tell the two: give this person another"
