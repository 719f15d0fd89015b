"""Settings of the project; libpq's own variables (PGHOST, PGUSER, …) say where the database is."""

import os
from importlib.util import find_spec

SECRET_KEY = "change me"  # noqa: S105
DEBUG = True
USE_TZ = True
ROOT_URLCONF = "project.urls"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("PGDATABASE", "shop"),
        "OPTIONS": {"options": "-c search_path=public"},
    }
}
INSTALLED_APPS = [
    *([] if find_spec("django.tasks") else ["django_tasks"]),
    "tenure.contrib.django",
    "shop",
]
TENURE = {"INBOX": "shop.jobs:inbox", "SLOTS": 10}
TASKS = {"default": {"BACKEND": "tenure.contrib.django.tasks.TenureBackend"}}
