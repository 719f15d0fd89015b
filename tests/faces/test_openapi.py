"""The description of the API is true: schemathesis asks the running server everything it says, and what it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import servers
import tenure.web
from faces.web_tools import running
from tenure.model.filter import STATUSES, Filter
from tenure.verbs import schedules
from tenure.web.credentials import credentials
from tenure.web.feed import Feed, Refuses
from tenure.web.openapi import document
from tenure.web.routes import ROUTES
from world import World, new_world

TOKEN = "a-token-for-schemathesis"
EXAMPLES = 5

# What JSON Schema cannot say of a text, our formats do.
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00/%"), min_size=1, max_size=20)
# Written out beforehand: where a schema asks for a length that no filter has, schemathesis draws a thousand of them.
filters = st.sampled_from(
    [
        str(Filter(statuses=statuses, kind=kind, attempts=attempts, payload=payload, ordered=ordered))
        for statuses in ((), *((status,) for status in STATUSES), STATUSES[:2])
        for kind, attempts, payload, ordered in (
            (None, None, (), None),
            ("send_receipt", (1, 3), (), True),
            ("send_*", None, (("order_id", "9182"),), False),
        )
    ]
)
soon = st.integers(-1000, 1000).map(lambda hours: (datetime.now(UTC) + timedelta(hours=hours)).isoformat())
DOCUMENT = document(ROUTES, "")
OPERATIONS = [f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods]


@cache
def described() -> Any:
    """The description as schemathesis reads it: loaded by who asks, as it takes seconds."""
    import schemathesis
    from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig

    for name, texts in (("tenure-name", names), ("tenure-filter", filters), ("date-time", soon)):
        schemathesis.openapi.format(name, texts)
    # A NUL is refused everywhere, which no schema says either: a test of its own does.
    generation = GenerationConfig(allow_x00=False, with_security_parameters=False)
    config = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(generation=generation)))
    return schemathesis.openapi.from_dict(DOCUMENT, config=config)


@cache
def operations() -> dict[str, Any]:
    """Each operation by its label, as "GET /api/rows"."""
    return {each.label: each for each in (found.ok() for found in described().get_all_operations())}


async def _first_event(
    feed: Feed, last_id: str | None, refused: Refuses, *, fleet: bool, actor: str
) -> AsyncIterator[bytes]:
    """A stream that ends: schemathesis reads to the end."""
    stream = feed._stream(last_id, refused, fleet, actor)
    yield await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running server with a little of everything in its database."""
    patch = pytest.MonkeyPatch()
    patch.setattr(Feed, "open", _first_event)
    folder = tmp_path_factory.mktemp("pg")
    with servers.running(servers.available()[0], folder) as url, new_world(url) as world:
        furnish(world)
        access = credentials(TOKEN, None, None)
        with running(tenure.web.app(database_url=url, schema=world.schema, access=access)) as found:
            yield found
    patch.undo()


def furnish(world: World) -> None:
    """Rows in every state, a blocked key, a schedule."""
    for status in ("complete", "retry", "fail", "dead_letter"):
        world.enqueue(payload={"order_id": 9182})
        getattr(world, status)(world.claim_one().lease)
    world.enqueue(key="order:1", ordered=True, hold=True)
    world.fail(world.claim_ordered()[0].lease)
    world.run(schedules.plan(schedules.Schedule("nightly", "30 2 * * *", "report")))


@pytest.mark.parametrize("label", OPERATIONS)
def test_the_server_does_what_the_description_says(label: str, address: str) -> None:
    from schemathesis.core.parameters import ParameterLocation
    from schemathesis.generation.feedback import FeedbackSources
    from schemathesis.pytest._test_builder import build_operation_test
    from schemathesis.specs.openapi.checks import negative_data_rejection

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def answers(case: Any) -> None:
        # Any text is a name: one in a path that is said to violate the format of names is taken like others.
        path = case.meta.components.get(ParameterLocation.PATH)
        left_out = [negative_data_rejection] if path is not None and path.mode.is_negative else []
        headers = {"Authorization": f"Bearer {TOKEN}"}
        case.call_and_validate(base_url=address, headers=headers, excluded_checks=left_out)

    # Built when it runs: its plugin for pytest thinks up all cases of all routes whenever tests are collected.
    build_operation_test(
        config=described().config,
        operation=operations()[label],
        test_func=answers,
        given_kwargs={},
        feedback=FeedbackSources(),
    )()


def test_a_description_that_lies_is_found_out(address: str) -> None:
    """The negative control."""
    import schemathesis

    lie = document(ROUTES, "")
    lie["paths"]["/health/live"]["get"]["responses"]["200"]["content"]["application/json"]["schema"] = {"type": "array"}
    case = schemathesis.openapi.from_dict(lie)["/health/live"]["GET"].Case()
    with pytest.raises(schemathesis.errors.FailureGroup, match="violates schema"):
        case.call_and_validate(base_url=address)


def test_the_server_describes_itself_so_and_every_route_is_there(address: str) -> None:
    assert sorted(OPERATIONS) == sorted(operations())
    told = httpx.get(f"{address}/api/openapi.json", timeout=120).json()
    assert told == described().raw_schema
    assert told["openapi"] == "3.1.0"
    listed = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
    assert listed == {(route.method, route.path.replace(":text}", "}")) for route in ROUTES}
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"].endswith("."), (method, path)
