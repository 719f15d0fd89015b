"""How much of the slow tests a run takes: `make test` a slice of each, `make test-all` (TENURE_TEST_ALL) everything."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar
from zlib import crc32

import pytest

T = TypeVar("T")
VARIABLE = "TENURE_TEST_ALL"
EVERYTHING = os.environ.get(VARIABLE) == "yes"

# Faces that take seconds each and share their code with what `make test` does run: left to `make test-all`.
LATER = frozenset(
    {
        "test_a_completed_row_ends_its_tape_with_a_tick_and_fits_a_phone",
        "test_a_database_that_tenure_has_migrated_is_taken_over",
        "test_a_database_that_the_environment_names_is_left_alone_and_that_is_told",
        "test_a_file_that_is_no_recording_is_refused_in_a_sentence",
        "test_a_group_leads_to_its_latest_row_and_to_all_of_them",
        "test_a_killed_demo_leaves_only_its_schema_and_reset_removes_that",
        "test_a_port_that_is_taken_is_told_and_another_one_taken",
        "test_a_question_mark_shows_the_keys_and_escape_puts_them_away",
        "test_a_queue_shows_its_rows_by_state_and_leads_to_them",
        "test_a_recording_is_saved_and_played_again_when_the_server_is_gone",
        "test_a_reload_finds_the_stage_again_with_all_it_said",
        "test_a_ring_that_is_gone_leads_back",
        "test_a_schedule_is_told_in_words_paused_and_resumed",
        "test_a_server_without_a_guardian_is_replaced_by_one_with",
        "test_a_signal_before_the_dashboard_is_served_ends_it_as_well",
        "test_a_token_that_ends_takes_its_streams_of_a_stage_with_it",
        "test_above_a_thousand_rows_the_number_must_be_typed",
        "test_all_of_them_are_a_line_each_and_one_that_fails_fails_them_all",
        "test_an_inbox_that_cannot_be_loaded_is_told_in_one_sentence",
        "test_an_old_word_is_understood_and_the_new_one_is_named_under_the_box",
        "test_an_operator_may_pause_a_schedule_and_not_remove_it",
        "test_an_operator_may_redrive_and_not_delete",
        "test_arrow_keys_walk_the_buckets_and_enter_keeps_one",
        "test_before_anything_was_changed_it_says_so",
        "test_both_answer_the_same",
        "test_broken_code_is_told_in_a_sentence_and_the_save_that_mends_it_is_waited_for",
        "test_each_number_leads_to_its_rows",
        "test_every_command_shows_them",
        "test_every_digit_of_the_payload_is_a_digit_of_the_row_and_secrets_are_not_shown",
        "test_every_drill_stands_in_the_row_of_scenes_and_its_control_behind_a_switch",
        "test_every_key_does_what_it_says",
        "test_everybody_can_read_it",
        "test_few_slots_and_slow_handlers_are_named_handlers",
        "test_floats_are_counted_as_postgres_writes_them_and_come_back_the_same",
        "test_in_a_fresh_clone_both_are_followed_word_for_word",
        "test_in_free_play_every_button_does_what_it_says",
        "test_it_follows_what_others_do",
        "test_makemigrations_finds_nothing_to_do",
        "test_older_lines_are_pages_and_the_address_says_which",
        "test_peers_are_measured_by_a_protocol_that_tenure_keeps_as_well",
        "test_people_read_the_proof_in_plain_lines_without_colour_codes",
        "test_pg_lists_the_databases_with_their_folders",
        "test_pip_installs_the_wheel_into_an_empty_environment",
        "test_rows_are_walked_chosen_and_opened_by_keyboard",
        "test_rows_that_trickle_past_sleeping_workers_are_named_poll_interval",
        "test_sqlmigrate_prints_the_file_for_a_person_who_runs_it",
        "test_the_box_completes_fields_states_and_values_by_keyboard",
        "test_the_charts_are_drawn_in_both_themes_and_read_out_what_they_show",
        "test_the_command_and_the_sql_are_copied",
        "test_the_control_loses_rows_and_says_how_many",
        "test_the_explorer_says_which_guard_stopped_the_stale_write",
        "test_the_filter_is_exported",
        "test_the_rail_counts_and_leads_to_each_state",
        "test_the_row_is_shown_beside_the_sql_that_shows_it",
        "test_the_same_rows_are_taken_at_once_by_workers_that_listen",
        "test_the_same_stands_in_words_below",
        "test_the_shop_with_a_hundred_thousand_rows_shows_its_groups",
        "test_the_steps_of_the_dockerfile_run_in_an_empty_environment",
        "test_the_tuner_measures_and_names_the_bottleneck",
        "test_two_groups_wait_side_by_side",
        "test_typing_changes_the_address_without_filling_the_history_and_enter_makes_a_step",
        "test_what_a_scene_rests_on_cannot_be_set",
        "test_what_cannot_be_is_said_in_a_sentence",
        "test_what_grows_is_a_curve_with_a_picture",
        "test_what_only_fits_a_wide_screen_in_the_light_would_be_found",
        "test_where_everybody_is_let_in_there_is_no_way_out_and_a_broken_address_is_no_stumble",
        "test_while_a_scene_plays_the_buttons_wait_and_say_why",
        "test_who_may_only_read_sees_no_button",
        "test_who_may_only_read_sees_no_switch",
    }
)

# Many cases of one rule, each a process or a page: `make test` takes so many of them, spread over the list.
SOME = {
    "test_a_command_ends_with_one_sentence_and_its_exit_code": 8,
    "test_a_database_in_another_encoding_is_refused": 2,
    "test_a_day_of_the_archive_is_a_day_of_utc_whatever_the_session_says": 5,
    "test_a_drill_is_played_on_the_page_as_promised": 1,
    "test_a_field_finds_its_row_and_no_other": 10,
    "test_a_folder_that_is_not_utf8_is_told_in_one_sentence": 3,
    "test_a_frozen_process_cannot_renew_and_the_fence_stops_its_write": 1,
    "test_a_mistyped_address_is_said_to_be_no_page_and_leads_back": 1,
    "test_a_payload_stays_within_its_limit_as_postgres_writes_it": 2,
    "test_a_record_of_anothers_migrations_is_told_in_one_sentence": 2,
    "test_a_row_from_before_the_check_comes_back_from_the_dead_letters_as_it_was": 3,
    "test_a_rule_that_never_speaks_would_be_found": 3,
    "test_a_scene_ends_as_it_must_and_leaves_nothing": 6,
    "test_a_scene_tells_its_steps_in_order_and_each_in_a_line": 6,
    "test_a_scene_turns_red_where_its_guard_is_missing": 4,
    "test_a_server_that_answers_is_not_said_to_be_silent": 3,
    "test_a_server_that_is_told_to_stop_leaves_no_process_and_no_schema": 1,
    "test_a_start_that_cannot_be_is_refused": 3,
    "test_a_system_check_says_in_one_sentence_what_is_wrong": 1,
    "test_a_token_from_before_is_refused_after": 2,
    "test_a_type_checker_finds_every_mistake_and_none_in_the_examples": 1,
    "test_a_value_in_a_link_means_itself_and_nothing_more": 2,
    "test_a_value_is_never_anything_but_a_value": 10,
    "test_a_word_that_does_not_hold_lets_nobody_in": 4,
    "test_an_address_that_is_not_utf8_is_told_in_one_sentence": 1,
    "test_an_error_in_their_module_is_theirs_and_named_with_its_line": 2,
    "test_an_error_takes_both_back": 12,
    "test_an_import_that_the_first_docs_taught_works_in_a_new_process": 3,
    "test_an_inbox_is_found_by_module_and_by_file": 3,
    "test_an_old_fault_put_back_is_found_by_the_search": 2,
    "test_an_outcome_that_is_none_ends_its_own_attempt_alone": 5,
    "test_each_verb_acts_on_the_chosen_rows_and_on_no_other": 1,
    "test_every_combination_ends_on_the_real_engine_as_the_rule_says": 1,
    "test_every_command_has_help_and_an_unknown_option_is_a_usage_error": 5,
    "test_every_door_refuses_it_in_one_sentence_with_the_value_and_the_limit": 14,
    "test_every_reading_command_gives_one_document_with_sorted_keys_and_a_number": 3,
    "test_everybody_can_read_a_page_and_finds_its_menu_on_a_phone": 2,
    "test_everybody_can_read_every_page": 5,
    "test_handlers_outlive_a_restart_that_is_shorter_than_half_the_grace": 1,
    "test_headers_that_a_copy_let_in_are_borne": 4,
    "test_however_it_is_told_to_end_nothing_is_left": 1,
    "test_inside_another_transaction_it_is_refused": 15,
    "test_its_app_says_what_to_do_where_no_database_answers": 1,
    "test_json_that_was_written_elsewhere_is_refused_for_the_same_reasons": 9,
    "test_no_two_times_on_the_tape_stand_upon_each_other": 2,
    "test_nothing_is_left_however_it_ends": 1,
    "test_one_word_that_does_not_hold_is_enough": 10,
    "test_only_a_refusal_is_said_to_have_changed_nothing": 1,
    "test_other_schema_names_work_even_reserved_words": 4,
    "test_other_users_get_a_server_of_their_own": 1,
    "test_piped_output_is_plain": 3,
    "test_the_command_comes_to_the_same_verdict": 1,
    "test_the_first_line_that_does_not_fit_is_named": 8,
    "test_the_pointer_finds_the_bucket_under_it": 1,
    "test_the_server_does_what_the_description_says": 3,
    "test_what_cannot_be_asked_is_refused_in_a_sentence": 6,
    "test_what_django_expects_of_a_task_backend_holds_and_its_test_cases_can_run_handlers": 1,
    "test_what_is_copied_for_the_terminal_is_understood_there": 1,
    "test_whatever_a_reader_sets_a_scene_ends_as_it_must": 2,
    "test_whatever_is_raised_is_a_retry_and_the_worker_goes_on": 8,
    "test_where_there_is_none_it_says_so": 3,
    "test_who_has_lost_it_before_does_not_begin": 15,
    "test_who_has_lost_the_lease_meanwhile_writes_nothing": 15,
    "test_words_of_the_command_line_are_a_filter": 3,
}


# On the servers after the first, `make test` runs all of what is about the server itself, and of the rest one case of
# every fifth test; CI runs every promise on each PostgreSQL.
WHOLE = frozenset({"test_migrate", "test_plans", "test_sql_files", "test_upgrade"})
EVERY = 5


def slice_of(everything: T, slice: T) -> T:
    """Everything in a run of everything, else the slice."""
    return everything if EVERYTHING else slice


def left_to_the_first(items: Iterable[pytest.Item], first: str) -> set[pytest.Item]:
    """What `make test` runs on the first server only; a test is in or out by its name, the same in every process."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if server_of(item, first) != first and item.path.stem not in WHOLE and not EVERYTHING:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    found: set[pytest.Item] = set()
    for test, group in cases.items():
        lot = crc32(test.encode())
        kept = group[lot // EVERY % len(group)] if lot % EVERY == 0 else None
        found.update(item for item in group if item is not kept)
    return found


def server_of(item: pytest.Item, first: str) -> str:
    """The name of the server that a test runs on; the first if it says nothing of it."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("server_url", first)) if callspec else first


def left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """What `make test` leaves to `make test-all`."""
    if EVERYTHING:
        return set()
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    found: set[pytest.Item] = set()
    for test, group in cases.items():
        name = test.rpartition("::")[2]
        taken = 0 if name in LATER else SOME.get(name, len(group))
        spread = {i * len(group) // taken for i in range(taken)} if taken < len(group) else set(range(len(group)))
        found.update(item for i, item in enumerate(group) if i not in spread)
    return found
