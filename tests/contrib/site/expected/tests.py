"""What Django expects of a backend for tasks, asked of ours.

The questions are those of Django's own tests of its backends (tests/tasks): a task is ready when it was enqueued, its
result can be had again from anywhere, and after it was run the result says how it ended.
"""

import contextlib
import dataclasses
import pickle
from datetime import datetime, timedelta
from importlib.util import find_spec

from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone
from django.utils.module_loading import import_string

from tenure.contrib.django.contract import InvalidTask, Task, TaskResultDoesNotExist, TaskResultStatus, TenureTask
from tenure.contrib.django.tasks import TenureBackend
from tenure.contrib.django.test import run_pending

from . import tasks as the_tasks

if find_spec("django.tasks"):
    from django.tasks import default_task_backend, task, task_backends
    from django.tasks.exceptions import InvalidTaskBackend, TaskResultMismatch
    from django.tasks.signals import task_enqueued, task_finished, task_started
else:
    from django_tasks import default_task_backend, task, task_backends
    from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
    from django_tasks.exceptions import TaskResultMismatch
    from django_tasks.signals import task_enqueued, task_finished, task_started

BACKEND = "tenure.contrib.django.tasks.TenureBackend"
BOTH = [the_tasks.noop_task, the_tasks.noop_task_async]


def ran(result, **how):
    """The same result, after everything due was run."""
    run_pending(raises=False, **how)
    result.refresh()
    return result


class Enqueued(TestCase):
    """As tests/tasks/test_dummy_backend.py asks."""

    def test_using_correct_backend(self):
        self.assertEqual(default_task_backend, task_backends["default"])
        self.assertIsInstance(task_backends["default"], TenureBackend)
        self.assertEqual(default_task_backend.alias, "default")
        self.assertEqual(default_task_backend.options, {"max_attempts": 1})

    def test_every_feature_is_supported(self):
        flags = ("supports_defer", "supports_async_task", "supports_get_result", "supports_priority")
        self.assertEqual([getattr(default_task_backend, flag) for flag in flags], [True] * 4)

    def test_enqueue_task(self):
        for each in BOTH:
            with self.subTest(each):
                self.check_ready(each.enqueue(1, two=3), each, [1], {"two": 3})

    async def test_enqueue_task_async(self):
        for each in BOTH:
            with self.subTest(each):
                self.check_ready(await each.aenqueue(), each, [], {})

    def check_ready(self, result, each, args, kwargs):
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertIs(result.is_finished, False)
        self.assertIsNotNone(result.enqueued_at)
        self.assertIsNone(result.started_at)
        self.assertIsNone(result.last_attempted_at)
        self.assertIsNone(result.finished_at)
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            result.return_value
        self.assertEqual(result.task, each)
        self.assertEqual((result.args, result.kwargs), (args, kwargs))
        self.assertEqual(result.attempts, 0)

    def test_get_result(self):
        result = default_task_backend.enqueue(the_tasks.noop_task, (), {})
        self.assertEqual(default_task_backend.get_result(result.id), result)
        self.assertEqual(the_tasks.noop_task.get_result(result.id), result)

    async def test_get_result_async(self):
        result = await default_task_backend.aenqueue(the_tasks.noop_task, (), {})
        self.assertEqual(await default_task_backend.aget_result(result.id), result)
        self.assertEqual(await the_tasks.noop_task.aget_result(result.id), result)

    async def test_refresh_result(self):
        result = await the_tasks.noop_task.aenqueue()
        before = dataclasses.asdict(result)
        await result.arefresh()
        self.assertEqual(dataclasses.asdict(result), before)

    async def test_get_missing_result(self):
        for missing in ("123", "0198c0de-0000-7000-8000-000000000000"):
            with self.assertRaises(TaskResultDoesNotExist):
                await default_task_backend.aget_result(missing)

    def test_get_incorrect_result(self):
        result = default_task_backend.enqueue(the_tasks.noop_task_async, (), {})
        with self.assertRaisesMessage(TaskResultMismatch, "Task does not match"):
            the_tasks.noop_task.get_result(result.id)

    def test_enqueue_logs(self):
        seen = []
        task_enqueued.connect(lambda sender, task_result, **_: seen.append((sender, task_result.id)), weak=False)
        result = the_tasks.noop_task.enqueue()
        self.assertEqual(seen, [(TenureBackend, result.id)])

    def test_enqueue_with_invalid_argument(self):
        with self.assertRaisesMessage(TypeError, "Unsupported type"):
            the_tasks.noop_task.enqueue(datetime.now())
        self.assertEqual(run_pending(), [])

    def test_validate_on_enqueue(self):
        other = the_tasks.noop_task.using(queue_name="mail")
        with (
            override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": ["queue-1"]}}),
            self.assertRaisesMessage(InvalidTask, "Queue 'mail' is not valid for backend"),
        ):
            other.enqueue()

    def test_a_row_that_is_rolled_back_was_never_there(self):
        with contextlib.suppress(KeyError), transaction.atomic():
            result = the_tasks.noop_task.enqueue()
            raise KeyError
        with self.assertRaises(TaskResultDoesNotExist):
            default_task_backend.get_result(result.id)

    def test_an_idempotency_key_is_used_once(self):
        once = the_tasks.noop_task.using(idempotency_key="receipt-1")
        first, again = once.enqueue(1), once.enqueue(1)
        self.assertEqual(first.id, again.id)
        self.assertEqual(len(run_pending()), 1)

    def test_what_a_task_is_sent_with_comes_back(self):
        at = timezone.now() + timedelta(days=1)
        sent = the_tasks.noop_task.using(priority=7, queue_name="mail", run_after=at, key="k", max_attempts=3)
        result = sent.enqueue()
        self.assertEqual(default_task_backend.get_result(result.id), result)
        self.assertEqual(result.task, sent)
        self.assertEqual(run_pending(), [])

    def test_a_queue_that_no_row_can_have_is_refused(self):
        with self.assertRaisesMessage(InvalidTask, "queue"):
            the_tasks.noop_task.using(queue_name="x" * 300, backend="patient")

    @override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": {"databse": "default"}}})
    def test_an_option_that_is_not_known_is_named(self):
        with self.assertRaisesMessage(ValueError, "unknown name 'databse'"):
            the_tasks.noop_task.enqueue()


class Ran(TestCase):
    """As tests/tasks/test_immediate_backend.py asks, once the task was run."""

    def check_times(self, result):
        self.assertIs(result.is_finished, True)
        self.assertGreaterEqual(result.started_at, result.enqueued_at)
        self.assertGreaterEqual(result.last_attempted_at, result.started_at)
        self.assertGreaterEqual(result.finished_at, result.started_at)

    def test_enqueue_task(self):
        for each in BOTH:
            with self.subTest(each):
                result = ran(each.enqueue(1, two=3))
                self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
                self.check_times(result)
                self.assertIsNone(result.return_value)
                self.assertEqual(result.task, each)
                self.assertEqual((result.args, result.kwargs, result.attempts), ([1], {"two": 3}, 1))

    async def test_enqueue_task_async(self):
        for each in BOTH:
            with self.subTest(each):
                result = await each.aenqueue()
                await sync_to_async(run_pending)()
                await result.arefresh()
                self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)

    def test_catches_exception(self):
        expected = [
            (the_tasks.failing_task_value_error, ValueError, "This Task failed due to ValueError"),
            (the_tasks.failing_task_async, ValueError, "This Task failed due to ValueError"),
            (the_tasks.failing_task_system_exit, SystemExit, "This Task failed due to SystemExit"),
        ]
        for each, exception, message in expected:
            with self.subTest(each):
                result = ran(each.enqueue())
                self.assertEqual(result.status, TaskResultStatus.FAILED)
                with self.assertRaisesMessage(ValueError, "Task failed"):
                    result.return_value
                self.check_times(result)
                self.assertEqual(len(result.errors), 1)
                self.assertEqual(result.errors[0].exception_class, exception)
                self.assertTrue(result.errors[0].traceback.endswith(f"{exception.__name__}: {message}\n"))
                self.assertEqual(result.task, each)
                self.assertEqual((result.args, result.kwargs), ([], {}))

    def test_complex_exception(self):
        result = ran(the_tasks.complex_exception.enqueue())
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.check_times(result)
        self.assertIsNone(result._return_value)
        self.assertEqual(result.errors[0].exception_class, ValueError)
        self.assertIn('ValueError(ValueError("This task failed"))', result.errors[0].traceback)

    def test_complex_return_value(self):
        result = ran(the_tasks.complex_return_value.enqueue())
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        self.assertIsNone(result._return_value)
        self.assertEqual(result.errors[0].exception_class, TypeError)
        self.assertIn("Unsupported type", result.errors[0].traceback)

    def test_result(self):
        result = ran(default_task_backend.enqueue(the_tasks.calculate_meaning_of_life, [], {}))
        self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual(result.return_value, 42)

    def test_takes_context(self):
        result = ran(the_tasks.get_task_id.enqueue())
        self.assertEqual(result.return_value, result.id)

    def test_context(self):
        self.assertEqual(ran(the_tasks.check_context.enqueue(1)).status, TaskResultStatus.SUCCESSFUL)

    def test_enqueue_logs(self):
        seen = []
        for signal in (task_enqueued, task_started, task_finished):
            signal.connect(lambda sender, task_result, **_: seen.append(task_result.status), weak=False)
        the_tasks.noop_task.enqueue()
        run_pending()
        self.assertEqual(seen, ["READY", "RUNNING", "SUCCESSFUL"])
        the_tasks.failing_task_value_error.enqueue()
        run_pending(raises=False)
        self.assertEqual(seen[3:], ["READY", "RUNNING", "FAILED"])

    def test_a_task_is_tried_again_while_it_has_attempts(self):
        finished = []
        task_finished.connect(lambda sender, task_result, **_: finished.append(task_result.status), weak=False)
        result = the_tasks.third_time.enqueue()
        for attempt in (1, 2):
            ran(result)
            self.assertEqual((result.status, result.attempts), (TaskResultStatus.READY, attempt))
            self.assertEqual(result.errors[-1].exception_class, KeyError)
            with connection.cursor() as cursor:
                cursor.execute("UPDATE tenure.live SET available_at = clock_timestamp() WHERE id = %s", [result.id])
        ran(result)
        self.assertEqual((result.return_value, result.attempts, len(result.errors)), ("lucky", 3, 2))
        self.assertEqual(finished, ["SUCCESSFUL"])

    def test_higher_priorities_go_first(self):
        results = [the_tasks.noop_task.using(priority=n).enqueue(n) for n in (0, -100, 100, 5)]
        done = [each.payload["args"][0] for each in run_pending()]
        self.assertEqual(done, [100, 5, 0, -100])
        self.assertEqual({default_task_backend.get_result(each.id).status for each in results}, {"SUCCESSFUL"})


class Tasks(TestCase):
    """As tests/tasks/test_tasks.py asks."""

    def test_task_decorator(self):
        for each in (*BOTH, the_tasks.noop_task_from_bare_decorator):
            self.assertIsInstance(each, Task)
            self.assertIsInstance(each, TenureTask)

    def test_using_creates_new_instance(self):
        other = the_tasks.noop_task.using()
        self.assertEqual(other, the_tasks.noop_task)
        self.assertIsNot(other, the_tasks.noop_task)

    def test_chained_using(self):
        at = timezone.now()
        other = the_tasks.noop_task.using(run_after=at).using(priority=10).using(max_attempts=4)
        self.assertEqual((other.run_after, other.priority, other.max_attempts), (at, 10, 4))
        self.assertEqual(the_tasks.noop_task.priority, 0)

    def test_using_unknown_backend(self):
        with self.assertRaisesMessage(InvalidTaskBackend, "The connection 'unknown' doesn't exist."):
            the_tasks.noop_task.using(backend="unknown")

    def test_naive_datetime(self):
        with self.assertRaisesMessage(InvalidTask, "run_after must be an aware datetime."):
            the_tasks.noop_task.using(run_after=datetime.now())

    def test_invalid_priority(self):
        for priority in (-101, 101, 3.1):
            with self.assertRaisesMessage(InvalidTask, "priority must be a whole number between -100 and 100."):
                the_tasks.noop_task.using(priority=priority)

    def test_unknown_queue_name(self):
        with self.assertRaisesMessage(InvalidTask, "Queue 'queue-2' is not valid for backend."):
            the_tasks.noop_task.using(queue_name="queue-2")
        self.assertEqual(the_tasks.noop_task.using(queue_name="queue-2", backend="patient").queue_name, "queue-2")

    async def test_call_task_async(self):
        self.assertEqual(await the_tasks.calculate_meaning_of_life.acall(), 42)
        self.assertIsNone(await the_tasks.noop_task_async.acall())

    def test_call_task(self):
        self.assertEqual(the_tasks.calculate_meaning_of_life.call(), 42)

    def test_invalid_function(self):
        for invalid in (any, self.test_invalid_function):
            with self.assertRaisesMessage(InvalidTask, "Task function must be defined at a module level."):
                task()(invalid)

    def test_takes_context_without_taking_context(self):
        with self.assertRaisesMessage(InvalidTask, "does not have a first argument of 'context'."):
            task(takes_context=True)(the_tasks.calculate_meaning_of_life.func)

    def test_module_path(self):
        self.assertEqual(the_tasks.noop_task.module_path, "expected.tasks.noop_task")
        self.assertIs(import_string(the_tasks.noop_task.module_path), the_tasks.noop_task)

    def test_pickle_task(self):
        if not hasattr(Task, "_reconstruct"):
            self.skipTest("tasks can be pickled since Django 6")
        self.assertEqual(pickle.loads(pickle.dumps(the_tasks.noop_task)), the_tasks.noop_task)

    def test_a_system_check_says_that_the_app_is_missing(self):
        with self.modify_settings(INSTALLED_APPS={"remove": "tenure.contrib.django"}):
            (error,) = default_task_backend.check()
        self.assertIn("INSTALLED_APPS", error.msg)
        self.assertEqual(default_task_backend.check(), [])


class Committed(TransactionTestCase):
    """Outside of a transaction the same holds."""

    available_apps = ["tenure.contrib.django", "expected"]

    def test_a_task_is_there_at_once_and_after_the_commit(self):
        with transaction.atomic():
            result = the_tasks.noop_task.enqueue()
            self.assertIsNotNone(result.enqueued_at)
            self.assertEqual(default_task_backend.get_result(result.id), result)
        self.assertEqual(ran(result).status, TaskResultStatus.SUCCESSFUL)
