"""A theatre: `tenure serve --drills` over an empty database, and what a test wants to know behind the page's back."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from psycopg import sql as identifiers

import servers
from crew import eventually
from faces.browser.conftest import Visit
from faces.browser.shop import served
from world import World, new_world

PLAYED_MS = 240_000


@dataclass(frozen=True)
class Theatre:
    """The address of the server, and the database below it."""

    url: str
    world: World

    def stages(self) -> set[str]:
        """The schemas of all stages that are open now."""
        rows = self.world.sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenure_drill_%'")
        return {schema for (schema,) in rows}

    def ask(self, page: Any, query: str) -> list[tuple[Any, ...]]:
        """Plain SQL in the schema of the stage that a page has open."""
        with self.world.conn.transaction():
            path = identifiers.SQL("SET LOCAL search_path = {}").format(identifiers.Identifier(schema_of(page)))
            self.world.conn.execute(path)
            return self.world.sql(query)

    def count(self, page: Any, of: str) -> int:
        """How many rows a table of that stage has, e.g. count(page, "inbox WHERE status = 'completed'")."""
        return int(self.ask(page, f"SELECT count(*) FROM {of}")[0][0])


@contextlib.contextmanager
def open_theatre(folder: Path) -> Iterator[Theatre]:
    """The database and the server over it, while the block lasts."""
    with (
        servers.running(servers.available()[0], folder) as database_url,
        new_world(database_url) as world,
        served(world, "--drills") as url,
    ):
        yield Theatre(url, world)


@pytest.fixture(scope="module", name="shop")
def theatre_as_shop(playwright: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """Where `visit` goes in a module that imports this: an empty database with drills, not the shop of other pages."""
    with open_theatre(tmp_path_factory.mktemp("theatre")) as theatre:
        yield theatre


@pytest.fixture(name="theatre")
def shop_as_theatre(shop: Theatre) -> Theatre:
    """The same, by its own name."""
    return shop


def schema_of(page: Any) -> str:
    """The stage's name stands in the address."""
    found = re.search(r"stage=([0-9a-f]+)", page.url)
    assert found, page.url
    return f"tenure_drill_{found.group(1)}"


def state_of(pid: int) -> str:
    """As the kernel has it: R and S live, T stands still, Z and nothing are gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def button(page: Any, name: str, within: str = "") -> Any:
    """The button of this name, on the whole page or within a region of it."""
    place = page.get_by_role("region", name=within, exact=True) if within else page
    return place.get_by_role("button", name=name, exact=True)


def start(visit: Visit, scene: str, *, control: bool = False, **options: Any) -> Any:
    """A page on which this scene plays, without rests."""
    page = visit(f"drills?scene={scene}&pace=0" + ("&control=1" if control else ""), **options)
    button(page, "Play").click()
    return page


def verdict_of(page: Any) -> Any:
    """What the scene has shown, once it has been played."""
    verdict = page.get_by_role("status", name="Verdict")
    expect(verdict).to_be_visible(timeout=PLAYED_MS)
    return verdict


def end(page: Any, theatre: Theatre) -> None:
    """Press End, and see the schema go."""
    schema = schema_of(page)
    button(page, "End").click()
    eventually(lambda: schema not in theatre.stages())
