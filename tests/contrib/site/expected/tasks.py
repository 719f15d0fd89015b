"""The tasks that Django tries its own backends with, and a few more."""

from importlib.util import find_spec

if find_spec("django.tasks"):
    from django.tasks import TaskContext, task
else:
    from django_tasks import TaskContext, task


@task()
def noop_task(*args, **kwargs):
    return None


@task
def noop_task_from_bare_decorator(*args, **kwargs):
    return None


@task()
async def noop_task_async(*args, **kwargs):
    return None


@task()
def calculate_meaning_of_life():
    return 42


@task()
def failing_task_value_error():
    raise ValueError("This Task failed due to ValueError")


@task()
def failing_task_system_exit():
    raise SystemExit("This Task failed due to SystemExit")


@task()
async def failing_task_async():
    raise ValueError("This Task failed due to ValueError")


@task()
def complex_exception():
    raise ValueError(ValueError("This task failed"))


@task()
def complex_return_value():
    return lambda: True


@task(takes_context=True)
def get_task_id(context):
    return context.task_result.id


@task(takes_context=True)
def check_context(context, attempt):
    assert isinstance(context, TaskContext)
    assert context.attempt == attempt


@task(takes_context=True, backend="patient", max_attempts=3)
def third_time(context):
    if context.attempt < 3:
        raise KeyError(f"attempt {context.attempt}")
    return "lucky"
