"""Each promise of the security page has tests."""

import re
from itertools import chain
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "explanation" / "security.md"
PROMISES = {
    "reads memory of another request": ("isolation/test_runs.py::test_concurrent_runs_are_isolated",),
    "opens files, sockets": ("isolation/test_host.py::test_files_and_sockets_cannot_be_opened",),
    "computes endlessly": (
        "engine/limits/test_limits.py::test_run_limit_before_head_returns_504",
        "engine/limits/test_limits.py::test_run_limit_ends_run_waiting_for_slow_client",
    ),
    "allocates too much": ("engine/limits/test_limits.py::test_guest_above_memory_limit_is_ended",),
    "takes more than its share": (
        "svc_tui/test_quota.py::test_quota_limits_requests_instances_and_storage",
        "engine/limits/test_quotas.py::test_requests_beyond_the_instances_of_a_quota_wait",
        "engine/limits/test_memory_budget.py::test_growth_of_runs_counts_as_memory_of_their_project",
        "isolation/test_egress.py::test_calls_beyond_the_quota_of_the_project_fail",
    ),
    "allocates too much in many": (
        "engine/limits/test_memory_budget.py::test_run_furthest_above_its_usual_peak_is_stopped",
        "engine/limits/test_memory_budget.py::test_budget_holds_after_runs_that_took_little",
    ),
    "prints endlessly": ("engine/limits/test_limits.py::test_excess_lines_are_truncated",),
    "calls another server": ("engine/manifest/test_egress.py::test_unlisted_origin_is_denied",),
    "calls a private address": (
        "isolation/test_egress.py::test_name_resolving_to_private_address_is_denied_with_hint",
    ),
    "takes the compiler long": (
        "engine/wasm/test_compile_limits.py::test_compiler_stops_at_its_limits_and_names_them",
    ),
    "queries tables of another project": (
        "doors/tables/test_isolation.py::test_same_sql_reads_rows_of_own_project_only",
    ),
    "collects values in SQL": (
        "doors/tables/test_limits.py::test_values_collected_in_memory_above_limit_are_refused",
        "engine/test_statement_memory.py::test_growing_statements_are_stopped_and_others_beside_them_are_not",
    ),
    "sorts more than fits": (
        "doors/tables/test_limits.py::test_statements_above_temporary_space_are_stopped",
    ),
    "changes the schema": (
        "doors/tables/test_sandbox.py::test_schema_changes_are_refused",
        "doors/tables/test_sandbox.py::test_attach_and_detach_are_refused",
        "doors/tables/test_sandbox.py::test_file_functions_do_not_exist",
    ),
    "svc resolves a name first": ("engine/wasm/test_dialer.py::test_checked_address_is_the_dialed_address",),
    "svc follows no redirects": ("isolation/test_egress.py::test_redirect_is_returned_to_the_guest",),
    "send bodies in parts": (
        "engine/http/test_small_parts.py::test_small_parts_of_bodies_leave_turns_to_others",
    ),
    "flood a connection": ("engine/http/test_frame_budget.py::test_flood_closes_its_connection",),
    "read nothing": (
        "engine/http/test_unsent.py::test_windows_of_zero_bound_the_bytes_of_their_connections",
    ),
    "send bodies that their application": (
        "engine/http/test_unread.py::test_unread_bodies_of_a_connection_are_bounded",
        "engine/http/test_unread.py::test_unread_bodies_share_the_limit_of_address_and_project",
    ),
    "fill the disk": (
        "doors/tables/test_reserve.py::test_large_database_does_not_grow_into_the_reserve",
        "svc_tui/test_deploy_faults.py::test_uploads_and_imports_leave_the_reserve_of_the_disk",
    ),
    "run endless SQL": (
        "svc_tui/test_owner_sql.py::test_endless_sql_delays_no_other_project_and_ends_with_its_client",
        "engine/test_statement_memory.py::test_long_statements_leave_a_processor_to_others",
    ),
    "collect values in SQL": (
        "engine/test_statement_memory.py::test_turn_of_another_file_is_next",
        "engine/test_statement_memory.py::test_statement_in_long_steps_gives_its_turn_to_others",
        "engine/test_statement_memory.py::test_interrupt_ends_the_wait_for_a_turn",
    ),
    "leave while their SQL runs": (
        "doors/tables/test_thread_stream.py::test_disconnect_interrupts_the_statement_in_progress",
        "doors/tables/test_limits.py::test_canceled_write_is_stopped_and_rolled_back",
        "doors/tables/test_limits.py::test_canceled_read_is_interrupted",
        "doors/tables/test_limits.py::test_answer_canceled_before_its_first_step_is_interrupted",
        "doors/tables/console/test_collected_memory.py::"
        "test_client_disconnect_interrupts_export_of_an_endless_view",
    ),
    "import files": (
        "doors/tables/transfer/test_hostile_files.py::test_preview_of_too_many_columns_is_refused",
        "doors/tables/transfer/test_hostile_files.py::test_pasted_range_is_read_in_bounded_memory",
    ),
    "send megabytes of JSON": (
        "engine/test_stepwise_json.py::test_long_document_is_parsed_in_many_calls",
        "doors/tables/console/test_rows.py::test_change_set_with_too_many_values_is_refused",
        "doors/tables/console/test_sql.py::test_request_with_too_many_values_is_refused",
        "doors/telemetry/test_invalid_input.py::test_document_with_too_many_values_is_refused",
        "doors/tables/test_limits.py::test_request_of_too_many_values_is_refused_outside_the_event_loop",
        "doors/crypto/test_bounds.py::test_large_document_of_many_values_is_refused_before_it_is_parsed",
    ),
    "derive keys or hash passwords": (
        "doors/crypto/test_processes.py::test_end_of_the_caller_ends_the_operation_and_frees_its_turn",
        "doors/crypto/test_processes.py::test_endless_operations_of_two_projects_leave_others_their_turns",
    ),
    "follow logs, or continue": (
        "svc_tui/test_revoked_streams.py::test_stream_ends_when_its_rights_are_revoked",
        "svc_tui/test_revoked_streams.py::test_sql_ends_when_its_rights_are_revoked",
    ),
    "Passwords are stored": (
        "engine/control/test_login.py::test_bucket_contains_no_password_token_or_claim_code",
    ),
    "Failed logins": ("engine/control/test_login.py::test_failed_logins_are_throttled_per_user",),
    "Sessions end": (
        "engine/control/test_sessions.py::test_used_session_expires_at_maximum_age",
        "engine/control/test_sessions.py::test_idle_session_expires",
        "engine/control/test_login.py::test_logout_ends_own_session_only",
        "engine/control/test_login.py::test_password_change_ends_other_sessions",
    ),
    "A token has a role": (
        "engine/control/test_sessions.py::test_token_roles_are_limited_by_roles_of_user",
        "engine/control/test_sessions.py::test_token_expires",
    ),
    "The control API requires TLS": (
        "svc_tui/test_serve.py::test_control_api_beyond_the_machine_requires_tls",
    ),
    "Credentials in paths": (
        "engine/timeline/test_recording.py::test_secrets_in_headers_never_reach_the_file",
        "engine/timeline/test_recording.py::"
        "test_credentials_in_bodies_and_queries_never_reach_the_file_and_are_restored",
        "engine/gateway/test_gateway.py::test_target_of_a_record_has_no_credentials",
    ),
    "Output, log records": (
        "svc_tui/capsule/test_commands.py::test_capsule_has_no_credentials_and_replays_the_same_response",
    ),
    "Recordings of `svc dev`": ("engine/timeline/test_recording.py::test_file_is_readable_by_owner_only",),
    "A replay takes": (
        "engine/gateway/test_replay.py::test_replay_sends_the_credentials_of_recent_requests_again",
    ),
    "Temporary folders": (
        "engine/test_temporary.py::test_folder_of_a_killed_process_is_removed_by_the_next_and_others_stay",
        "e2e/test_test.py::test_data_of_a_killed_run_is_removed_by_the_next_run",
        "e2e/test_console_hosted.py::test_workers_forward_pages_to_the_service",
    ),
    "In development, an error": (
        "engine/gateway/test_gateway.py::test_dev_error_page_shows_message_and_stack_of_guest",
    ),
    "A deployed application": (
        "engine/gateway/test_gateway.py::test_failure_before_response_returns_problem",
    ),
    "Private, unknown": (
        "engine/gateway/test_gateway.py::test_unknown_and_private_hosts_return_equal_responses",
    ),
    "A service serves the Console": (
        "e2e/test_console_hosted.py::test_domain_serves_the_console_and_nothing_of_the_control_api",
    ),
    "The login is that": (
        "e2e/test_console_hosted.py::test_failed_logins_are_throttled_like_those_of_the_api",
        "e2e/test_console_hosted.py::test_secure_page_gets_cookie_that_subdomains_cannot_set",
    ),
    "Requests of other sites, those": (
        "e2e/test_console_hosted.py::test_foreign_pages_cannot_open_read_or_type",
    ),
    "A page is a process": (
        "e2e/test_console_hosted.py::test_viewer_cannot_edit_and_lost_role_ends_the_page",
    ),
    "It has an empty environment": (
        "e2e/test_console_hosted.py::test_actions_that_would_use_the_service_machine_are_refused",
    ),
    "This is enforced inside": (
        "svc_tui/test_console_confinement.py::test_machine_is_out_of_reach_except_own_folder_and_control_api",
    ),
    "`svc serve --no-console`": ("e2e/test_console_hosted.py::test_service_without_console",),
    "`svc console --web` prints": ("e2e/test_console_web.py::test_page_requires_key_that_works_once",),
    "Anyone with the key": ("e2e/test_console_web.py::test_page_shows_console_and_receives_keys",),
    "Requests of other sites": (
        "e2e/test_console_web.py::test_page_of_another_site_cannot_act_or_fix_a_session",
        "e2e/test_console_web.py::test_rebound_host_is_rejected_and_leaves_the_key",
    ),
    "The page is": ("e2e/test_console_web.py::test_non_loopback_host_requires_insecure",),
}
"""Tests by the start of the promise: the first cell of a row, or a sentence."""


def promises() -> list[str]:
    """Return the rows and sentences of the page, without those about what svc does not protect."""
    sections = PAGE.read_text().split("\n## ")[1:]
    result = []
    for section in sections:
        title, _, text = section.partition("\n")
        if title == "What svc does not protect":
            continue
        rows = re.findall(r"^\| (?!---|your code \||others \|)(.+?) \|", text, re.MULTILINE)
        prose = " ".join(line for line in text.splitlines() if not line.startswith("|"))
        result += [
            *rows,
            *(sentence.strip() for sentence in re.split(r"(?<=\.) +(?=[`A-Zs])", prose) if sentence.strip()),
        ]
    return result


def test_each_promise_of_the_security_page_has_a_test() -> None:
    starts = sorted(PROMISES, key=len, reverse=True)
    used = [next((start for start in starts if promise.startswith(start)), promise) for promise in promises()]
    assert [promise for promise in used if promise not in PROMISES] == []
    assert set(used) == PROMISES.keys()


def test_tests_of_the_security_page_exist() -> None:
    missing = []
    for named in chain.from_iterable(PROMISES.values()):
        file, _, name = named.partition("::")
        if not (TESTS / file).is_file() or f"def {name}(" not in (TESTS / file).read_text():
            missing.append(named)
    assert missing == []
