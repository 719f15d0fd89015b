"""`tenure completion`, `--help`, `sql` and `--json`: the command line as a whole."""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tenure.cli
import warm
from faces.test_fleet_commands import tenure as tenure_on
from pages import understood
from tenure import errors, sql
from tenure.cli import COMMANDS, EPILOG, PURPOSES
from tenure.cli.examples import EXAMPLES
from tenure.errors import NO, USAGE
from world import World

CPU_SECONDS_MAX = 0.150
SLACK = 2.0  # a busy machine, cold caches; what is meant is that nothing heavy is imported


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return warm.run(*arguments, env={**os.environ, **env})


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with `tenure` in it, for a PATH."""
    program = tmp_path / "tenure"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.argv[0] = 'tenure'\nfrom tenure.cli import main\nmain()\n")
    program.chmod(0o755)
    return tmp_path


# -- completion


def test_bash_completes_commands_and_options(bin_folder: Path) -> None:
    script = """
        eval "$(tenure completion bash)"
        COMP_WORDS=(tenure do); COMP_CWORD=1; COMPREPLY=(); _tenure_completion tenure; echo "${COMPREPLY[@]}"
        COMP_WORDS=(tenure health --ur); COMP_CWORD=2; COMPREPLY=(); _tenure_completion tenure; echo "${COMPREPLY[@]}"
        COMP_WORDS=(tenure completion ""); COMP_CWORD=2; COMPREPLY=(); _tenure_completion tenure; echo "${COMPREPLY[@]}"
        complete -p tenure
    """
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    answer = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=120, env=env)
    command, option, shells, registered = answer.stdout.splitlines()
    assert command == "doctor"
    assert option == "--url"
    assert shells.split() == ["bash", "zsh", "fish"]
    assert "_tenure_completion" in registered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_take_their_scripts(bin_folder: Path, shell: str) -> None:
    answer = run("completion", shell)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert f"_TENURE_COMPLETE={shell}_complete" in answer.stdout
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed here")
    checked = subprocess.run([program, "-n"], input=answer.stdout, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stderr


ZSH = """
compdef() { print "registered $*" }
_describe() { print -l -- "${(@P)3}" }
compadd() { print -l -- "${(@P)@[-1]}" }
eval "$(tenure completion zsh)"
words=(tenure do); CURRENT=2; _tenure_completion
words=(tenure health --ur); CURRENT=3; _tenure_completion
words=(tenure completion ""); CURRENT=3; _tenure_completion
"""
FISH = """
tenure completion fish | source
complete -C "tenure do"
complete -C "tenure health --ur"
complete -C "tenure completion "
"""


@pytest.mark.parametrize(("shell", "script", "between"), [("zsh", ZSH, ":"), ("fish", FISH, "\t")])
def test_zsh_and_fish_complete_with_what_each_word_means(
    bin_folder: Path, shell: str, script: str, between: str
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed here")
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(bin_folder)}
    file = bin_folder / "script"
    file.write_text(script)
    start = [program, "-f", str(file)] if shell == "zsh" else [program, "--no-config", str(file)]
    told = subprocess.run(start, capture_output=True, text=True, timeout=240, env=env).stdout.splitlines()
    if shell == "zsh":
        assert told.pop(0) == "registered _tenure_completion tenure"
    command, option, *shells = told
    assert command == f"doctor{between}{COMMANDS['doctor']}", "whole, with its commas"
    assert option.startswith(f"--url{between}The address to ask")
    assert sorted(shells) == ["bash", "fish", "zsh"]


def test_a_shell_that_is_none_is_refused() -> None:
    answer = run("completion", "tcsh")
    assert answer.returncode == USAGE
    assert "'bash', 'zsh', 'fish'" in answer.stderr


# -- help


def test_help_costs_little_and_loads_nothing_heavy() -> None:
    """Measured as CPU time of the process, the best of five."""
    code = "import sys; sys.argv = ['tenure', '--help']\nfrom tenure.cli import main\nmain()"
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True, timeout=120)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(times) < CPU_SECONDS_MAX * SLACK, times
    code = "import sys; import tenure.cli; print([name for name in sys.modules if name.split('.')[0] in HEAVY])"
    heavy = ["psycopg", "msgspec", "cronsim", "rich", "starlette", "uvicorn", "asyncio", "tomllib", "opentelemetry"]
    loaded = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {heavy!r}\n{code}"], capture_output=True, text=True, timeout=120
    )
    assert loaded.stdout == "[]\n", loaded.stdout


def test_help_names_every_command_and_every_exit_code() -> None:
    said = run("--help").stdout
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", said, re.MULTILINE), name
    codes = {value for name, value in vars(errors).items() if name.isupper() and type(value) is int}
    assert codes == {1, 2, 69, 70, 74, 75, 77, 78, 130}
    for code in codes | {0}:
        assert re.search(rf"\b{code} ", EPILOG), code


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_an_unknown_option_is_a_usage_error(name: str) -> None:
    answer = run(name, "--help")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"Usage: tenure {name}") or "Usage: " in answer.stdout
    wrong = run(name, "--no-such-option")
    assert wrong.returncode == USAGE
    assert "Traceback" not in wrong.stderr


def test_every_command_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(COMMANDS)


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, many in EXAMPLES.items() for words, _ in many])
def test_every_example_of_the_help_can_be_typed(name: str, words: str) -> None:
    first, *rest = shlex.split(words)
    assert first == name
    made = understood([first, *rest])
    while made.parent is not None and made.parent.parent is not None:
        made = made.parent
    said = made.get_help()
    assert f"  tenure {words}" in said


def test_help_groups_the_commands_by_purpose() -> None:
    said = run("--help").stdout
    heads = re.findall(r"^(\w+):$", said, re.MULTILINE)
    assert heads == ["Options", *PURPOSES] == ["Options", "Start", "Look", "Act", "Operate", "Learn"]
    assert sorted(name for names in PURPOSES.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize(
    ("asked", "same"),
    [("help", "--help"), ("help rows", "rows --help"), ("help queues pause", "queues pause --help"),
     ("queues help", "queues --help"), ("queues help pause", "queues pause --help")],
)  # fmt: skip
def test_help_is_a_word_too(asked: str, same: str) -> None:
    said, meant = run(*asked.split()), run(*same.split())
    assert (said.returncode, said.stdout, said.stderr) == (0, meant.stdout, "")


def test_help_about_a_word_that_is_no_command_gets_the_one_that_was_meant() -> None:
    answer = run("help", "hlth")
    assert answer.returncode == USAGE
    assert "there is no command 'hlth': did you mean health?" in answer.stderr


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("jobs", "rows"), ("hlth", "health"), ("unpause", "queues resume"),
        ("kill", "workers drain, or cancel for rows"), ("discard", "delete"),
    ],
)  # fmt: skip
def test_a_word_that_is_no_command_gets_the_one_that_was_meant(word: str, meant: str) -> None:
    answer = run(word)
    assert answer.returncode == USAGE
    assert f"there is no command {word!r}: did you mean {meant}?" in answer.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("queues unpause mail", "resume"), ("queues stop mail", "pause"), ("queues paus mail", "pause"),
        ("schedules delete nightly", "remove"), ("schedules enable nightly", "resume"), ("workers kill w-1", "drain"),
        ("pg shutdown", "stop"), ("sql discard", "delete"), ("sql unpause", "resume"),
    ],
)  # fmt: skip
def test_a_word_below_a_command_gets_the_one_that_was_meant_never_its_opposite(words: str, meant: str) -> None:
    answer = run(*words.split())
    assert answer.returncode == USAGE
    assert answer.stderr.endswith(f"{words.split()[1]!r}: did you mean {meant}?\n") or (
        f"{words.split()[1]!r} here: did you mean {meant}?\n" in answer.stderr
    )


@pytest.mark.parametrize("words", ["queues explode", "schedules explode", "sql explode", "pg explode"])
def test_a_word_that_is_like_no_other_gets_no_guess_but_the_list(words: str) -> None:
    answer = run(*words.split())
    assert answer.returncode == USAGE
    assert "did you mean" not in answer.stderr
    assert re.search("there are .*pause|choose from .*pause|lists them|there are .*start", answer.stderr)


def test_a_command_that_is_none_is_refused() -> None:
    answer = run("explode")
    assert answer.returncode == USAGE
    assert "explode" in answer.stderr


def test_no_command_ends_with_a_number_that_nobody_has_named() -> None:
    """Exit codes are the documented ones, by name."""
    for path in sorted(Path(tenure.cli.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("exceptions.Exit", "ctx.exit")):
                given = [each.value for each in node.args if isinstance(each, ast.Constant)]
                assert set(given) <= {0}, f"{path.name}:{node.lineno}"


# -- what every reading command has in common

READS = [
    ["queues"], ["schedules"], ["workers"], ["ring"], ["ring", "--bucket", "5"], ["migrate", "--check"], ["migrate"],
    ["top", "--once"], ["doctor"],
]  # fmt: skip


@pytest.mark.one_server
@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_every_reading_command_gives_one_document_with_sorted_keys_and_a_number(
    world: World, command: list[str]
) -> None:
    answer = tenure_on(world, *command, "--json")
    assert answer.returncode in (0, NO), answer.stderr
    found = json.loads(answer.stdout)
    assert found["schema"] == 1
    assert json.dumps(found, sort_keys=True) == json.dumps(found)  # a dict keeps the order it was read in
    assert len(answer.stdout.splitlines()) == 1


@pytest.mark.one_server
@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_piped_output_is_plain(world: World, command: list[str]) -> None:
    assert "\x1b" not in tenure_on(world, *command).stdout


def test_the_list_of_sql_and_one_file_of_it() -> None:
    found = json.loads(run("sql", "--json").stdout)
    assert found["schema"] == 1
    assert sorted(found["verbs"]) == sql.names("verbs")
    assert sorted(found["questions"]) == sql.names("questions")
    one = json.loads(run("sql", "claim", "--schema", "jobs", "--json").stdout)
    assert '"jobs".live' in one["sql"]
    assert run("sql").stdout.startswith("verbs:\n  add_chore: enter a chore")


@pytest.mark.parametrize(
    ("old", "now"), [("backlog-per-worker", "backlog"), ("fence_strip", "lease_counts"), ("note", "begin_audit")]
)
def test_a_name_of_the_first_release_still_prints_its_sql_and_says_the_new_one(old: str, now: str) -> None:
    answer = run("sql", old)
    assert answer.stdout == run("sql", now).stdout
    assert answer.stdout.startswith(f"-- {now}: ")
    assert f"is called {now} now" in answer.stderr


def test_names_may_be_written_with_hyphens_and_a_wrong_one_gets_the_nearest() -> None:
    assert run("sql", "lease-counts").stdout.startswith("-- lease_counts: ")
    answer = run("sql", "calim")
    assert answer.returncode == USAGE
    assert "did you mean claim?" in answer.stderr


@pytest.mark.one_server
def test_the_autoscalers_question_counts_what_there_is_to_run_now(world: World) -> None:
    def backlog() -> int:
        text = run("sql", "backlog", "--schema", world.schema).stdout
        return int(world.sql(text)[0][0])  # as it is printed: no parameters

    assert backlog() == 0
    world.enqueue()
    world.enqueue()
    world.enqueue(delay_seconds=3600)
    for _ in range(3):
        world.enqueue(ordered=True, key="one-at-a-time")
    assert backlog() == 3
    world.claim_one("A")
    assert backlog() == 3  # what runs still needs its worker
    world.sql("INSERT INTO queues (queue, paused) VALUES ('default', true)")
    assert backlog() == 0
