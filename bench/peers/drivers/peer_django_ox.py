"""django-ox. Best: a pool of connections, 20 threads, polls every 50 ms."""

import sys
from urllib.parse import parse_qs, unquote, urlsplit

from driver import fields


def _ready(url, best=True):
    import django
    from django.conf import settings

    at = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(at.query).items()}
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": at.path.lstrip("/"),
        "USER": query.get("user", unquote(at.username or "")),
        "PASSWORD": unquote(at.password or ""),
        "HOST": query.get("host", at.hostname or ""),
        "PORT": at.port or query.get("port", ""),
        "OPTIONS": {"pool": {"min_size": 4, "max_size": 40}} if best else {},
    }
    settings.configure(
        INSTALLED_APPS=["django_ox"],
        DATABASES={"default": database},
        TASKS={"default": {"BACKEND": "django_ox.backend.OxBackend"}},
        USE_TZ=True,
        SECRET_KEY="bench",
    )
    django.setup()
    import peer_django_ox_work

    sys.modules.setdefault("peer_django_ox_work", peer_django_ox_work)
    return peer_django_ox_work


def setup(url):
    _ready(url)
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def one(url, kind, ks):
    work = getattr(_ready(url), kind)
    yield None
    for k in ks:
        work.enqueue(**fields(k))
        yield k


def many(url, kind, ks):
    work = getattr(_ready(url), kind)
    from django_ox.bulk import enqueue_many

    yield None
    for first in range(ks.start, ks.stop, 1000):
        enqueue_many(work, [((), fields(k)) for k in range(first, min(first + 1000, ks.stop))])
    yield ks.stop


def worker(url, best):
    _ready(url, best)
    from django.core.management import call_command

    call_command("ox_worker", **({"concurrency": 20, "interval": 0.05} if best else {}))
