"""The work of django-ox, in a module that its worker can import."""

from django.tasks import task
from driver import do


@task
def nothing(k, email, note):
    do("nothing", k)


@task
def tell(k, email, note):
    do("tell", k)


@task
def hang(k, email, note):
    do("hang", k)
