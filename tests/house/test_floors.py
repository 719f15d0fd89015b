"""The floor plan: imports go downward, never up and never in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure

ROOT = Path(tenure.__file__).parent

# From the ground up; a module may import from its own floor and from those below it.
FLOORS = [
    # words
    ["__init__", "errors", "model", "outcome", "events", "settings"],
    # rules: no I/O
    [
        "sql",
        "statement",
        "payload",
        "digits",
        "standing",
        "trouble",
        "backoff",
        "pace",
        "partition",
        "ring",
        "filter",
        "tracing",
    ],
    # verbs and questions as values
    ["verbs", "settle", "fleet", "limits", "schedule", "questions", "finding", "history", "acts"],
    # the only I/O
    ["connect", "db"],
    # one promise each
    ["migrate", "fence", "cron", "lender", "operate"],
    # what a handler's author sees
    ["terms", "signature", "job", "handler", "inbox"],
    # what the threads of a worker share
    ["holds", "intake", "arrivals", "settling", "tally", "line", "tail", "children"],
    # one loop each
    ["desk", "keeper", "housekeeping", "pools"],
    # the process
    ["worker"],
    # its telemetry
    ["log", "metrics", "fleet_metrics", "health"],
    # a server of our own
    ["embedded"],
    # scenes, built from public verbs
    ["drills"],
    # the operating surface
    ["doctor", "web"],
    # all of it in one shop, to look at
    ["demo"],
    # faces
    ["cli"],
    ["__main__"],
]
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}


def _modules() -> dict[str, Path]:
    """Every module by its dotted name below the package: "db", "cli.pg", "sql", "__init__"."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        found[".".join(parts)] = path
    return found


MODULES = _modules()


def _imports(name: str) -> Iterator[str]:
    """Modules of ours that a module imports when it runs, at its head or later; not what only type checkers read."""
    path = MODULES[name]
    package = [] if name == "__init__" else name.split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    stack: list[ast.AST] = [ast.parse(path.read_text())]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            stack.extend(node.orelse)
            continue
        stack.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
            elif (node.module or "").split(".")[0] == "tenure":
                base = []
            else:
                continue
            steps = (node.module or "").split(".") if node.module else []
            target = [*base, *(steps if node.level else steps[1:])]
            for alias in node.names:
                inner = ".".join([*target, alias.name])
                yield inner if inner in MODULES else ".".join(target) or "__init__"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tenure":
                    yield ".".join(alias.name.split(".")[1:]) or "__init__"


def test_every_module_has_a_floor() -> None:
    without = {name.split(".")[0] for name in MODULES} - set(FLOOR_OF)
    assert not without, f"give {', '.join(sorted(without))} a floor in this file"


def test_every_room_of_the_plan_exists() -> None:
    assert set(FLOOR_OF) <= {name.split(".")[0] for name in MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_imports_only_go_downward(name: str) -> None:
    here = FLOOR_OF[name.split(".")[0]]
    upward = [target for target in _imports(name) if FLOOR_OF[target.split(".")[0]] > here]
    assert not upward, f"{name} imports {', '.join(upward)} from a floor above"


def test_no_import_goes_in_a_circle() -> None:
    graph = {name: {target for target in _imports(name) if target != name} for name in MODULES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_words_need_no_database_driver() -> None:
    """`tenure --help` must not pay for one."""
    for name in FLOORS[0]:
        tree = ast.parse(MODULES[name].read_text())
        at_head = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not [node for node in at_head if "psycopg" in ast.unparse(node)], name
