"""An act: one thing that can be done on a stage, as a value; scenes, the page and tests use the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

if TYPE_CHECKING:
    from .stage import Stage

Name = Annotated[str, Meta(pattern=r"^worker-[A-Z]$")]


class Act(Struct, tag_field="verb", tag=str.lower, frozen=True, forbid_unknown_fields=True):
    """One thing that is done. The act itself is reported on the stage; the engine reports what follows."""

    def do(self, stage: Stage) -> None:
        """Do it now; DrillFailed or BadSettings say why it cannot be done."""
        raise NotImplementedError
