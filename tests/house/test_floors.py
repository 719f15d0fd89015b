"""The floor plan: imports go downward, never up and never in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tenure

ROOT = Path(tenure.__file__).parent

# From the ground up: a room may import from itself and from the rooms below it.
FLOORS = [
    ["__init__", "errors", "settings", "operator_verbs", "other_words", "events"],
    ["sql"],
    ["model"],
    ["verbs"],
    ["postgres"],
    ["embedded"],
    ["telemetry"],
    ["app", "log"],
    ["worker"],
    ["operate"],
    ["shapes"],
    ["console"],
    ["drills", "testing"],
    ["doctor", "web"],
    ["demo"],
    ["cli"],
    ["contrib"],
    ["__main__"],
]
PURE = ("model", "verbs")  # they say what to run, and run nothing
# The rooms inside drills/, from the ground up; its other modules stand above them.
IN_DRILLS = ["actors", "stage", "scenes"]
# Which face a command is about: it may import that one, to start it, and no other.
FACES = ("doctor", "drills", "web", "demo")
STARTS = {
    "cli.demo": "demo",
    "cli.dev": "web",
    "cli.doctor": "doctor",
    "cli.door": "web",
    "cli.drill": "drills",
    "cli.drill_explore": "drills",
    "cli.drill_failover": "drills",
    "cli.drill_tune": "drills",
    "cli.serve": "web",
}
# Whose imports for type checkers alone are not looked at, and why.
ONLY_FOR_TYPES = {
    "__init__": "the public names, each loaded when it is asked for",
}
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}


def _modules() -> dict[str, Path]:
    """Every module by its dotted name below the package: "errors", "cli.pg", "sql", "__init__"."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        found[".".join(parts)] = path
    return found


MODULES = _modules()


def _imports(name: str) -> Iterator[str]:
    """Modules of ours that a module imports, at its head or later, when it runs or for type checkers alone."""
    path = MODULES[name]
    package = [] if name == "__init__" else name.split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    stack: list[ast.AST] = [ast.parse(path.read_text())]
    while stack:
        node = stack.pop()
        if name in ONLY_FOR_TYPES and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
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


def _room(name: str) -> str:
    return name.split(".")[0]


def test_the_plan_names_every_room_and_no_other() -> None:
    assert set(FLOOR_OF) == {_room(name) for name in MODULES}


def test_imports_only_go_downward() -> None:
    upward = [
        f"{name} imports {target}"
        for name in MODULES
        for target in _imports(name)
        if FLOOR_OF[_room(target)] > FLOOR_OF[_room(name)]
    ]
    assert not upward


def test_inside_drills_imports_only_go_downward_too() -> None:
    def floor(name: str) -> int:
        room = name.split(".")[1]
        return IN_DRILLS.index(room) if room in IN_DRILLS else len(IN_DRILLS)

    inside = [name for name in MODULES if _room(name) == "drills" and name != "drills"]
    upward = [
        f"{name} imports {target}"
        for name in inside
        for target in _imports(name)
        if target in inside and floor(target) > floor(name)
    ]
    assert not upward


def test_shapes_do_not_import_each_other_and_use_no_private_name_of_others() -> None:
    for name in MODULES:
        if _room(name) != "shapes" or name == "shapes":
            continue
        shape = name.split(".")[1]
        others = [t for t in _imports(name) if _room(t) == "shapes" and t.split(".")[1:2] not in ([shape], [])]
        assert not others, f"{name} imports {others}"
        text = MODULES[name].read_text()
        private = re.findall(
            r"^from \.\.\.[\w.]* import .*\b_\w+|\b(?:job|inbox|handler|host)\._\w+", text, re.MULTILINE
        )
        assert not private, f"{name}: {private}"


def test_a_command_imports_a_face_only_to_start_it() -> None:
    borrowed = [
        f"{name} imports {target}"
        for name in MODULES
        if _room(name) == "cli"
        for target in _imports(name)
        if _room(target) in FACES and _room(target) != STARTS.get(name)
    ]
    assert not borrowed, "what several faces share belongs into console/, a question into verbs/"
    assert set(STARTS) <= set(MODULES)


def test_what_says_what_to_run_has_no_database_driver() -> None:
    heads = {name: ast.parse(MODULES[name].read_text()).body for name in MODULES if _room(name) in PURE}
    imports = {
        name: [ast.unparse(n) for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
        for name, body in heads.items()
    }
    assert not [name for name, found in imports.items() if any("psycopg" in line for line in found)]


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
