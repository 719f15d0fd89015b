"""The address of a test's schema: a connection made with it finds the tables of the test first."""

from __future__ import annotations

from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict, make_conninfo


def with_schema(url: str, schema: str) -> str:
    """The URL with this schema first on the search path; it stays a URL, for libraries that take no other."""
    path = f"-c search_path={schema},public"
    given = conninfo_to_dict(url).get("options")
    if given or not url.startswith(("postgresql://", "postgres://")):
        return make_conninfo(url, options=f"{given or ''} {path}".strip())
    return f"{url}{'&' if '?' in url else '?'}options={quote(path)}"
