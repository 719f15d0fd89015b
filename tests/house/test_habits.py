"""The habits of the project: what its public files say is what the code and the tools do."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

import tenure
from tenure.settings import POSTGRES_MAJORS

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")}
LOCKS = ("demo", "dev", "release", "docs")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "mutants").glob("*.md")]
PACKAGE = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def _locked(name: str) -> dict[str, str]:
    """The packages of a lock, by name, with all that is said of each."""
    found, last = {}, ""
    for line in (ROOT / f"requirements/{name}.txt").read_text().splitlines():
        if match := PACKAGE.match(line):
            last = match[1]
            found[last] = line
        elif not line.startswith("#"):
            found[last] += line
    return found


def _on_the_package_page() -> str:
    """README.md as the build puts it into the metadata."""
    command = [sys.executable, "-m", "hatch_fancy_pypi_readme", "pyproject.toml"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout


def test_every_supported_python_and_postgres_is_in_the_matrix() -> None:
    matrix = WORKFLOWS["test"]["jobs"]["promises"]["strategy"]["matrix"]
    prefix = "Programming Language :: Python :: "
    pythons = [word.removeprefix(prefix) for word in PROJECT["project"]["classifiers"] if word.startswith(prefix)]
    assert matrix["python"] == pythons
    assert matrix["postgres"] == [str(major) for major in POSTGRES_MAJORS]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    promised = (ROOT / "docs/reference/versions.md").read_text()
    assert f"| Python | {pythons[0]} to {pythons[-1]} |" in promised
    assert f"| PostgreSQL | {POSTGRES_MAJORS[0]} to {POSTGRES_MAJORS[-1]} |" in promised


def test_the_package_and_its_metadata_have_one_version() -> None:
    printed = subprocess.run([ROOT / "tools/version"], capture_output=True, text=True, check=True, timeout=120)
    assert {PROJECT["project"]["version"], printed.stdout.strip()} == {tenure.__version__}


def test_a_release_without_a_dated_part_in_the_changelog_is_refused() -> None:
    (first,) = re.findall(r"^## (\S+) \(unreleased\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE) or [""]
    for version, code in ((first, 1), ("0.1.0", 0)):
        told = subprocess.run([ROOT / "tools/release_notes", version], capture_output=True, text=True, timeout=120)
        assert told.returncode == code, told.stderr
        assert bool(told.stdout) != bool(told.stderr)


def test_every_relative_link_leads_to_a_file() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(page.read_text())]
    assert not [f"{page.relative_to(ROOT)}: {link}" for page, link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", ".github/pull_request_template.md"])
def test_every_path_and_make_target_a_contributor_is_told_exists(page: str) -> None:
    said = re.findall(r"`([^`\n]+)`|^\$ (.+?)(?:  +#|$)", (ROOT / page).read_text(), re.MULTILINE)
    words = [word for quoted, command in said for word in (quoted or command).split()]
    paths = {word for word in words if re.fullmatch(r"(src|tests|docs|tools|mutants|requirements)/[\w./-]+", word)}
    targets = {target for quoted, command in said for target in re.findall(r"^make ([a-z-]+)", quoted or command)}
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets or paths
    assert not [path for path in paths if "NAME" not in path and "NNNN" not in path and not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_leads_to_a_heading(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        there = (page.parent / target if target else page).read_text()
        headings = re.findall(r"^#+ (.+)$", there, re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_is_there(page: Path) -> None:
    """Told by its path, or by its room and name: `worker/claimer.py`."""
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|sql|js))`", page.read_text())
    rooms = [ROOT, ROOT / "src/tenure", ROOT / "src/tenure/sql", page.parent]
    assert not [path for path in named if not any((room / path).exists() for room in rooms)]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_hashes_and_no_lock_an_address(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    assert "://" not in text
    assert "index" not in text
    assert _locked(name)
    assert not [line for line in _locked(name).values() if "--hash=sha256:" not in line]


def test_the_locks_agree_and_hold_what_was_asked_for() -> None:
    pins = {(name, line.split()[0]) for lock in LOCKS for name, line in _locked(lock).items()}
    assert len(pins) == len({name for name, _ in pins}), "one package, two versions: run `make pin`"
    extras = PROJECT["project"]["optional-dependencies"]
    needed = [*PROJECT["project"]["dependencies"], *extras["embedded"], *extras["web"], *extras["dev"][1:]]
    needed += PROJECT["build-system"]["requires"]
    asked = {"demo": needed, **{name: [] for name in LOCKS[1:]}}
    for lock in LOCKS:
        lines = (ROOT / f"requirements/{lock}.in").read_text().splitlines()
        names = [*asked[lock], *(line for line in lines if line[0] not in "#-")]
        missing = {re.split(r"[\[<>=]", name)[0] for name in names} - _locked(lock).keys()
        assert not missing, f"{lock}: run `make pin`"


def test_the_page_of_the_package_has_only_links_that_work_there() -> None:
    page = _on_the_package_page()
    assert not LINK.findall(page)
    here = re.findall(r"https://[\w.]+/tenure-queue/tenure/(?:blob/)?v[\d.]+/([^)#]+)\)", page)
    assert len(here) == len(LINK.findall((ROOT / "README.md").read_text())) > 20
    assert not [path for path in here if not (ROOT / path).exists()]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_begins_with_few_rights_and_pins_its_actions(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] in ({}, {"contents": "read"})
    jobs = WORKFLOWS[name]["jobs"].values()
    used = [step["uses"] for job in jobs for step in job.get("steps", []) if "uses" in step]
    assert not [action for action in used if not re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", action)]
    ran = "\n".join(step.get("run", "") for job in jobs for step in job.get("steps", []))
    targets = set(re.findall(r"^make ([a-z-]+)", ran, re.MULTILINE))
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert "${{" not in ran, "what a stranger can name (a branch, a title) goes to a shell by the environment only"


def test_the_source_archive_has_what_a_contributor_needs() -> None:
    packed = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    top = {path.name for path in ROOT.iterdir()} & {".ci", ".editorconfig", ".github", ".pre-commit-config.yaml"}
    assert top <= set(packed)
    assert {"requirements", "tools", "*.md", "Makefile", "LICENSE"} <= set(packed)


def test_the_public_workflow_audits_what_is_pinned_and_the_security_rules_are_on() -> None:
    steps = [step.get("run", "") for step in WORKFLOWS["test"]["jobs"]["audit"]["steps"]]
    assert "make audit" in steps
    makefile = (ROOT / "Makefile").read_text()
    assert "pip-audit --strict" in makefile.partition("\naudit:")[2].partition("\n\n")[0]
    lint = PROJECT["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert {rule for rule in lint["ignore"] if rule.startswith("S")} == {"S101", "S603", "S607"}


def test_only_one_module_writes_to_the_terminal() -> None:
    """Whatever else is printed would pass the control characters of a name."""
    ways = re.compile(r"\bclick\.(echo|secho|style)\(|(?<![\w.])print\(|sys\.std(out|err)\.write\(|\.print_exc")
    allowed = {
        "console/terminal.py": "the door itself",
        "drills/actors/protocol.py": "lines to the process that started it",
        "demo/show.py": "the foot, which passes `shown`",
    }
    package = ROOT / "src/tenure"
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if ways.search(path.read_text())}
    assert found == set(allowed)
