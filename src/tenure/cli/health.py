"""`tenure health`: ask a worker or a server whether it lives or is ready, for probes in images that have no curl."""

from __future__ import annotations

import http.client
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from .. import settings
from ..console.terminal import echo
from ..errors import NO, UNREACHABLE
from .option_types import Number

PORT = 8901
PATHS = {"live": ("/livez", "/health/live"), "ready": ("/readyz", "/health/ready")}  # of a worker, of `tenure serve`
BODY_BYTES_MAX = 65_536


class Answer(NamedTuple):
    """What came back."""

    status: int
    said: dict[str, Any]


@click.command()
@click.argument("question", type=click.Choice(list(PATHS)), default="live")
@click.option("--url", metavar="URL", help=f"The address to ask [http://127.0.0.1:{PORT}; env: TENURE_HEALTH_PORT].")
@click.option(
    "--timeout-seconds", type=Number(min=0, min_open=True), default=3.0, show_default=True, help="How long to wait."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(question: str, url: str | None, timeout_seconds: float, as_json: bool) -> None:
    """Ask whether a worker or server is live (the default) or ready.

    Exit codes: 0 yes, 1 no, 69 nobody answers at this address. A worker answers on its --health-port, `tenure serve` on
    its own port. A path in the URL is kept, for a server that is mounted under a prefix.
    """
    asked = url or f"http://{settings_host()}:{settings_port()}"
    try:
        answer = ask(asked, question, timeout_seconds)
    except TimeoutError:
        said = f"{asked} is there but did not answer within {timeout_seconds:g} s"
        _say(asked, question, Answer(0, {"error": said}), as_json)
        raise click.exceptions.Exit(UNREACHABLE) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        said = f"nobody answers at {asked} ({why}): is it started with --health-port?"
        _say(asked, question, Answer(0, {"error": said}), as_json)
        raise click.exceptions.Exit(UNREACHABLE) from None
    _say(asked, question, answer, as_json)
    if answer.status != 200:
        raise click.exceptions.Exit(NO if answer.status == 503 else UNREACHABLE)


def settings_host() -> str:
    """The address of a worker with these settings; one that listens everywhere is asked on loopback."""
    found = settings.find("TENURE_HEALTH_HOST")
    host = found.value if found else "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{host}]" if ":" in host else host


def settings_port() -> int:
    """The port of a worker with these settings."""
    return int(settings.number("TENURE_HEALTH_PORT")) if settings.find("TENURE_HEALTH_PORT") else PORT


def ask(url: str, question: str, timeout_seconds: float) -> Answer:
    """Ask for the worker's page, and if there is none for the server's; proxies of the environment are not used."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(f"--url {url!r} must be an address: write http://127.0.0.1:{PORT}")
    answer = Answer(404, {})
    for path in PATHS[question]:
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=max(0.001, timeout_seconds))
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers={"Accept": "application/json"})
            response = connection.getresponse()
            answer = Answer(response.status, _document(response.read(BODY_BYTES_MAX)))
        finally:
            connection.close()
        if answer.status != 404:
            return answer
    return Answer(404, {"error": f"the server at {url} has no such page: is it a Tenure worker or server?"})


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _say(url: str, question: str, answer: Answer, as_json: bool) -> None:
    ok = answer.status == 200
    if as_json:
        echo(
            json.dumps({"schema": 1, "ok": ok, "question": question, "url": url, "answer": answer.said}, sort_keys=True)
        )
        return
    reasons = answer.said.get("reasons") or [
        answer.said.get("error") or answer.said.get("status") or f"HTTP {answer.status}"
    ]
    if ok:
        echo(question)
    else:
        echo(f"tenure: not {question}: {'; '.join(map(str, reasons))}", err=True)
