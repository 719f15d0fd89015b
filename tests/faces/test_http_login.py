"""Logins: wrong ones are slowed and told, a session ends on the server, and no secret need stand in the settings."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx
import pytest

from faces.serving import serving
from faces.web_tools import CHANGING, SHOWN, served
from slices import slice_of
from tenure.errors import BadSettings
from tenure.web.credentials import Credentials, credentials
from tenure.web.hashing import Hashed
from tenure.web.sessions import SESSIONS_EACH_MAX, SESSIONS_MAX, Sessions
from world import World

pytestmark = pytest.mark.one_server

TOKEN, PASSWORD = "a-token-for-logins", "kim-kim-kim"
MANY = slice_of(10_000, 600)


def door() -> Credentials:
    found = credentials(None, f"ann:operate:{TOKEN}", f"kim:read:{PASSWORD},lee:read:lee-lee-lee")
    assert found is not None
    return found


@pytest.fixture
def web(world: World) -> Iterator[httpx.Client]:
    with served(world, access=door()) as client:
        yield client


def from_address(web: httpx.Client, address: str) -> httpx.Client:
    """A client at another address of loopback."""
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=web.base_url, headers=CHANGING, timeout=120, transport=transport)


def login(web: httpx.Client, secret: str, name: str | None = None) -> httpx.Response:
    return web.post("/api/login", json={"token": secret, "name": name} if name else {"token": secret})


def guesses(web: httpx.Client, n: int, name: str | None = None, word: str = "guess") -> list[int]:
    return [login(web, f"{word}-number-{i}", name).status_code for i in range(n)]


def test_many_wrong_logins_are_slowed_and_told_in_a_few_lines_and_others_are_served(world: World) -> None:
    with serving(world, "--port", "0", TENURE_WEB_USERS=f"kim:read:{PASSWORD}") as server:
        with (
            httpx.Client(base_url=server.address, headers=CHANGING, timeout=120) as thief,
            httpx.Client(base_url=server.address, headers=CHANGING, timeout=120) as kim,
        ):
            assert login(kim, PASSWORD, "kim").status_code == 204
            answers = guesses(thief, MANY)
            assert answers.count(401) < 30 < answers.count(429)
            assert kim.get("/api/me").json()["actor"] == "kim"
        with from_address(kim, "127.0.0.2") as other:
            assert other.get("/api/me", headers=SHOWN).status_code == 200
        _, _, said = server.end(15)
        told = [line for line in said.splitlines() if "wrong login" in line]
        assert 1 <= len(told) <= 6, said[:2000]
        assert len(said) < 3000
        assert "127.0.0.1" in told[0]
        assert "guess-number" not in said


def test_a_name_is_guessed_slowly_from_many_addresses_and_its_owner_still_comes_in(web: httpx.Client) -> None:
    with from_address(web, "127.0.0.9") as kim:
        assert login(kim, PASSWORD, "kim").status_code == 204
        answers = []
        for n in range(10, 30):
            with from_address(web, f"127.0.0.{n}") as thief:
                answers += guesses(thief, 1, "kim", f"guess-{n}")
        assert answers.count(401) < 10 < answers.count(429) + 1
        assert login(kim, PASSWORD, "kim").status_code == 204
        with from_address(web, "127.0.0.31") as lee:
            assert login(lee, "lee-lee-lee", "lee").status_code == 204, "another name is not slowed"


@pytest.mark.parametrize("scheme", ["bearer", "basic"])
def test_a_header_is_no_way_around(web: httpx.Client, scheme: str) -> None:
    def status(secret: str) -> int:
        if scheme == "basic":
            return web.get("/api/me", auth=("kim", secret)).status_code
        return web.get("/api/me", headers={"authorization": f"Bearer {secret}"}).status_code

    right = PASSWORD if scheme == "basic" else TOKEN
    assert status(right) == 200
    answers = [status(f"a-guess-{n}") for n in range(60)]
    assert answers[0] == 401
    assert set(answers) == {401, 429}
    assert answers.count(401) < 25, "on a slow machine some waits are over meanwhile"
    assert status(right) == 200, "a secret that was right before is no guess"
    again = (web.get("/api/me", headers={"authorization": f"Bearer never-seen-{n}"}) for n in range(100))
    refused = next(answer for answer in again if answer.status_code == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert "try again in" in refused.json()["error"]


def test_a_client_with_an_old_secret_does_not_lock_out_its_neighbours(web: httpx.Client) -> None:
    for _ in range(100):
        assert web.get("/api/me", headers={"authorization": "Bearer of-last-year"}).status_code == 401
    assert web.get("/api/me", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_after_a_while_a_guess_is_heard_again(web: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.web import guesses as guessing

    now = [1000.0]
    monkeypatch.setattr(guessing, "_now", lambda: now[0])
    assert guesses(web, 60)[-1] == 429
    assert login(web, TOKEN).status_code == 429
    now[0] += guessing.WAIT_SECONDS_MAX + 1
    assert login(web, TOKEN).status_code == 204


# -- sessions


def test_a_session_ends_with_the_logout_for_everybody_who_has_its_cookie(web: httpx.Client) -> None:
    login(web, TOKEN)
    cookie = {"cookie": f"tenure={web.cookies['tenure']}"}
    web.cookies.clear()
    assert web.get("/api/me", headers=cookie).json()["actor"] == "ann"
    assert web.post("/api/logout", headers=cookie).status_code == 204
    assert web.get("/api/me", headers=cookie).status_code == 401
    assert web.get("/api/me", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_session_ends_after_its_time_and_with_the_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenure.web import sessions

    with served(world, access=door()) as web:
        login(web, TOKEN)
        cookie = {"cookie": f"tenure={web.cookies['tenure']}"}
        assert web.get("/api/me", headers=cookie).status_code == 200
        now = sessions._now()
        monkeypatch.setattr(sessions, "_now", lambda: now + sessions.SESSION_SECONDS + 1)
        assert web.get("/api/me", headers=cookie).status_code == 401
        monkeypatch.setattr(sessions, "_now", lambda: now)
    with served(world, access=door()) as again:
        assert again.get("/api/me", headers=cookie).status_code == 401


def test_a_forged_cookie_and_too_many_sessions_let_nobody_in(web: httpx.Client) -> None:
    login(web, TOKEN)
    first = web.cookies["tenure"]
    for value in (first[:-1], first + "x", f"{first[:-1]}{'A' if first[-1] != 'A' else 'B'}", "", "%ff"):
        web.cookies.clear()
        assert web.get("/api/me", headers={"cookie": f"tenure={value}"}).status_code == 401
    for _ in range(SESSIONS_EACH_MAX):
        login(web, TOKEN)
    web.cookies.clear()
    assert web.get("/api/me", headers={"cookie": f"tenure={first}"}).status_code == 401


def test_neither_secrets_nor_sessions_are_kept(world: World) -> None:
    known = door()
    with served(world, access=known) as web:
        login(web, PASSWORD, "kim")
        kept = repr([vars(known), vars(known._sessions), known._tokens, known._users])
        assert not [secret for secret in (TOKEN, PASSWORD, web.cookies["tenure"]) if secret in kept]


# -- hashed secrets


def tenure_hash(secret: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tenure.cli import main; main()", "serve", "--hash"]
    return subprocess.run(command, input=secret, capture_output=True, text=True, timeout=120)


def test_a_hash_from_the_command_is_taken_in_place_of_the_secret_and_hides_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    made = tenure_hash("a secret, with a comma\n")
    assert (made.returncode, made.stderr) == (0, "")
    hashed = made.stdout.strip()
    assert re.fullmatch(r"[\w.-]+", hashed), "nothing in it that a shell or a list would take for its own"
    assert tenure_hash("a secret, with a comma").stdout.strip() != hashed, "each has its own salt"
    listed = credentials(hashed, f"ann:operate:{Hashed.of(TOKEN)}", f"kim:read:{hashed}")
    assert not caplog.records
    with served(world, access=listed) as web:
        secret = "a secret, with a comma"
        assert web.get("/api/me", auth=("kim", secret)).json()["actor"] == "kim"
        assert web.get("/api/me", headers={"authorization": f"Bearer {TOKEN}"}).json()["actor"] == "ann"
        assert login(web, secret).status_code == 204
        assert web.get("/api/me").json()["role"] == "admin"
        web.cookies.clear()
        assert web.get("/api/me", auth=("kim", hashed)).status_code == 401, "the hash itself lets nobody in"
        assert web.get("/api/me", auth=("nobody", secret)).status_code == 401


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The secrets that a hash was computed of."""
    secrets: list[str] = []
    matches = Hashed.matches

    def noted(self: Hashed, secret: str) -> bool:
        secrets.append(secret)
        return matches(self, secret)

    monkeypatch.setattr(Hashed, "matches", noted)
    return secrets


def test_a_hash_is_computed_once_and_not_for_every_request(world: World, computed: list[str]) -> None:
    with served(world, access=credentials(None, None, f"kim:read:{Hashed.of(PASSWORD)}")) as web:
        for _ in range(5):
            assert web.get("/api/me", auth=("kim", PASSWORD)).status_code == 200
        assert computed == [PASSWORD]
        assert web.get("/api/me", auth=("nobody", PASSWORD)).status_code == 401
        assert len(computed) == 2, "an unknown name takes as long as a known one"


def test_guesses_at_a_hash_that_come_all_at_once_are_slowed_too(world: World, computed: list[str]) -> None:
    with served(world, access=credentials(None, None, f"kim:read:{Hashed.of(PASSWORD)}")) as web:
        threads = [threading.Thread(target=login, args=[web, f"a-guess-{n}", "kim"]) for n in range(60)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(120)
    assert 1 <= len(computed) < 20


def test_a_plain_secret_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    from tenure.web.credentials import _warn_of_plain_text

    _warn_of_plain_text.cache_clear()
    for _ in range(3):
        credentials("a-plain-token", None, f"ann:read:another-one,kim:read:{Hashed.of(PASSWORD)}")
    told = [each.getMessage() for each in caplog.records]
    assert [line.split()[0] for line in told] == ["TENURE_WEB_TOKEN", "TENURE_WEB_USERS"]
    assert not [line for line in told if "a-plain-token" in line or "another-one" in line]


def test_a_damaged_hash_is_refused_and_not_taken_for_a_secret() -> None:
    whole = str(Hashed.of(PASSWORD))
    for damaged in (whole[:-1], whole.replace("16384", "16385"), whole.replace("16384", "8388608"), "scrypt.x"):
        with pytest.raises(BadSettings, match="'kim' is not complete: make it with `tenure serve --hash`"):
            credentials(None, None, f"kim:read:{damaged}")


def test_a_short_secret_gets_no_hash() -> None:
    made = tenure_hash("short\n")
    assert (made.returncode, made.stdout) == (78, "")
    assert "must have 8 characters" in made.stderr
    assert "short\n" not in made.stderr


def test_a_new_session_ends_no_other_before_there_are_too_many() -> None:
    kept: Sessions[str] = Sessions()
    mine = [kept.begin("ann") for _ in range(SESSIONS_EACH_MAX)]
    assert [kept.find(each) for each in mine] == ["ann"] * SESSIONS_EACH_MAX
    kept.begin("ann")
    assert [kept.find(each) for each in mine] == [None, *["ann"] * (SESSIONS_EACH_MAX - 1)]
    others = [kept.begin(f"someone {n}") for n in range(SESSIONS_MAX - SESSIONS_EACH_MAX)]
    assert all(kept.find(each) for each in (*mine[1:], *others))
