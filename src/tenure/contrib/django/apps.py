"""The Django app. Its label is `tenure`: so it is named by `manage.py migrate tenure`."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks

from . import conf


class TenureConfig(AppConfig):
    """Tenure's tables, its pages of the admin, and its checks."""

    name = "tenure.contrib.django"
    label = "tenure"
    verbose_name = "Tenure"
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(getattr(settings, "TENURE", {}), dict):  # else a check says so
            conf.export()  # before any module of the project is imported that makes an Inbox

    def ready(self) -> None:
        """Have `manage.py check` ask what must be true of a project with Tenure."""
        from .checks import of_the_database, of_the_settings

        checks.register(of_the_settings, "tenure")
        checks.register(of_the_database, checks.Tags.database, deploy=True)  # not before `migrate` itself
