"""Tenure in a Django project: put "tenure.contrib.django" into INSTALLED_APPS; see docs/guides/django.md."""
