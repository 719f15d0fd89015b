"""Settings of the Django project of the tests; the database comes from the environment."""

import json
import os
from importlib.util import find_spec

from psycopg.conninfo import conninfo_to_dict

_found = conninfo_to_dict(os.environ["SITE_DATABASE"])
_database = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": os.environ.get("SITE_NAME") or _found["dbname"],
    "USER": _found.get("user", ""),
    "PASSWORD": _found.get("password", ""),
    "HOST": _found.get("host", ""),
    "PORT": _found.get("port", ""),
    "OPTIONS": {"options": "-c search_path=public"},  # the role is called tenure, too: its own schema would come first
    "TEST": {"NAME": os.environ.get("SITE_TEST_NAME")},
}
DATABASES = {"default": _database}
SECRET_KEY = "for tests"
USE_TZ = True
DEBUG = os.environ.get("SITE_DEBUG") == "yes"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
_backport = [] if find_spec("django.tasks") else ["django_tasks"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    *_backport,
    "tenure.contrib.django",
    "expected",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "site_urls"
STATIC_URL = "static/"
TENURE = json.loads(os.environ.get("SITE_TENURE", '{"INBOX": "shop.jobs:inbox"}'))
TASKS = {
    "default": {
        "BACKEND": "tenure.contrib.django.tasks.TenureBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"max_attempts": 1},
    },
    "patient": {"BACKEND": "tenure.contrib.django.tasks.TenureBackend", "QUEUES": []},
}
