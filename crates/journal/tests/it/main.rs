//! The journal's tests: the conformance suite against every backend, and what only a file can suffer. They need no
//! service and no network.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod conformance;
mod crash;
mod damage;
mod index;
mod kills;
mod memory_tables;
mod older;
mod processes;
mod server;
mod sqlite;
mod turn_log;

/// Backends of the suite; each keeps what it lives in for as long as its store is used.
mod backends {
    use std::sync::Arc;
    use std::time::Duration;

    use journal::{PoolSettings, ScopedStore, SqliteStore};
    use protocol::OwnerScope;

    use crate::conformance::SharedStore;

    pub async fn sqlite_file() -> (tempfile::TempDir, SharedStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("segue.db")).unwrap();
        (folder, Arc::new(store))
    }

    pub async fn sqlite_memory() -> ((), SharedStore) {
        ((), Arc::new(SqliteStore::in_memory().unwrap()))
    }

    /// A database of its own on a server of its own.
    pub async fn postgres() -> (test_postgres::TestDatabase, SharedStore) {
        let database = test_postgres::TestDatabase::create().unwrap();
        let store = journal::PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
        (database, Arc::new(store))
    }

    /// Connections of one test.
    pub const POOL: PoolSettings = PoolSettings {
        min_idle: 0,
        max: 6,
        idle_timeout: Duration::from_secs(60),
        max_lifetime: Duration::from_secs(600),
        wait_timeout: Duration::from_secs(10),
    };

    /// A store that is scoped to one owner passes the same suite.
    pub async fn scoped() -> ((), SharedStore) {
        ((), Arc::new(ScopedStore::new(sqlite_memory().await.1, OwnerScope::Owner(None))))
    }
}

macro_rules! against {
    ($backend:ident: $($room:ident: $($guarantee:ident)*;)*) => {
        mod $backend {
            $(mod $room { $(
                #[tokio::test]
                async fn $guarantee() {
                    let (_place, store) = crate::backends::$backend().await;
                    crate::conformance::$room::$guarantee(store).await;
                }
            )* })*
        }
    };
}

/// The conformance suite against each backend; another backend is one more line here.
macro_rules! against_every_backend {
    ($($rooms:tt)*) => {
        against! { sqlite_file: $($rooms)* }
        against! { postgres: $($rooms)* }
        against! { sqlite_memory: $($rooms)* }
        against! { scoped: $($rooms)* }
    };
}

against_every_backend! {
    log:
        a1_seqs_of_concurrent_writers_have_no_gap
        a1_seqs_of_threads_are_independent
        a2_seq_is_never_reused
        a5_events_of_several_runs_keep_their_run
        a6_content_comes_back_byte_for_byte
        a6_every_time_comes_back_to_the_nanosecond
        a6_half_a_surrogate_pair_is_refused
        a7_a_repeated_key_stores_one_row
        a8_a_failed_transaction_leaves_nothing
        a8_a_failure_does_not_touch_its_neighbours
        a9_pages_honour_their_bounds
        a10_other_categories_take_no_place_in_a_page
        a10_many_hidden_rows_hide_nothing
        b15_reading_writes_nothing;
    threads:
        h1_prefixes_resolve
        h2_creation_is_idempotent
        h2_metadata_is_patched_key_by_key
        h4_lists_are_ordered_and_paged
        h4_a_list_has_the_threads_whose_name_or_first_words_contain_a_text
        h4_a_list_has_what_every_set_field_lets_through
        h4_tokens_of_a_page_of_threads_are_told_at_once
        h4_a_stopped_thread_is_told_from_one_that_waits_for_an_answer
        h4_a_list_can_be_sorted_by_what_people_see
        k1_nobody_lists_threads_without_saying_whose
        threads_of_sub_agents_are_listed_for_who_asks
        counters_follow_the_messages
        a_first_prompt_is_cut_between_graphemes
        h3_deletion_removes_what_belongs_to_the_thread
        a26_a_deleted_thread_takes_no_event
        h3_an_id_can_begin_again;
    runs:
        j1_a_thread_has_one_active_run
        j1_of_concurrent_admissions_one_wins
        j3_a_lost_lease_writes_nothing
        j3_only_an_ended_lease_is_reclaimed
        the_first_terminal_status_stays
        usage_adds_up
        a_checkpoint_knows_the_last_seq
        unfinished_activities_are_found
        j7_interrupts_wait_in_order
        g20_the_first_decision_wins;
    queue:
        j1_any_number_of_runs_wait_while_one_runs
        j1_of_runs_that_begin_at_once_one_does
        j3_a_run_that_waits_begins_once
        j1_a_run_that_was_forgotten_does_not_come_back
        a_thread_rests_where_its_newest_checkpoint_says
        a_question_is_expected_to_wait
        a_run_can_end_without_having_begun
        runs_are_listed_newest_first_in_pages
        what_a_run_was_asked_for_is_kept_beside_it
        a_run_that_is_forgotten_leaves_its_events
        h3_a_run_that_waits_goes_with_its_thread;
    keys:
        k2_a_key_is_stored_once_and_revoked_once;
    handoffs:
        a_parent_has_one_pending_handoff
        a_handoff_moves_from_where_it_stands
        g20_of_concurrent_moves_one_wins
        g1_a_stored_proposal_never_changes
        a_stopped_first_draft_leaves_no_handoff
        handoffs_are_found_by_what_is_known
        the_outbox_keeps_one_item_a_key
        an_item_that_took_the_place_of_another_stays
        an_item_is_changed_by_one_alone
        the_outbox_is_read_in_pages
        an_import_is_remembered
        an_import_goes_on_only_from_where_it_was_believed_to_be;
    rewinds:
        what_is_superseded_stays_in_the_log_and_out_of_sight
        every_point_to_keep_has_a_meaning
        a_thread_is_not_taken_back_under_a_run
        a8_a_failed_transaction_supersedes_nothing
        a10_superseded_rows_take_no_place_in_a_page
        what_was_superseded_is_not_found
        the_first_prompt_is_the_first_one_that_is_visible
        a_superseded_question_is_withdrawn
        h3_an_id_that_begins_again_has_nothing_superseded
        a_key_that_was_superseded_is_not_stored_again;
    random_histories:
        b1_b5_m9_whatever_happens_history_is_complete_and_the_context_is_what_was_left
        what_changes_a_beginning_is_told_by_its_event;
    history:
        a9_history_pages_honour_their_bounds
        b5_a_long_thread_pages_completely
        b6_pages_are_filled_whatever_is_hidden_between
        a10_c4_markers_are_counted_like_messages_and_what_explains_them_is_not
        b8_a_result_without_its_call_on_the_page_is_told_with_it
        b8_a_call_far_before_its_result_is_found
        b8_a_call_is_found_behind_everything_that_sub_agents_said
        a9_pages_of_markers_honour_their_bounds
        b9_what_was_taken_back_says_so
        b9_what_was_taken_back_is_shown_only_to_who_asks
        b10_d6_feedback_is_at_the_last_answer_of_a_run_and_nowhere_else
        d7_feedback_that_is_not_asked_for_is_not_told
        b10_in_a_run_that_goes_on_the_newest_answer_is_its_last
        b12_d8_a_copy_has_the_history_and_its_runs_and_no_feedback_of_its_source
        b4_an_entry_has_the_same_id_on_every_page
        b3_any_interleaving_sorts_to_the_same_history
        b15_reading_history_writes_nothing;
    feedback:
        d2_a_person_has_one_thumb_a_run
        d3_of_many_thumbs_at_once_one_row_stays
        d4_only_a_run_of_the_thread_takes_feedback
        d5_only_the_runs_asked_for_are_answered
        d8_feedback_goes_with_its_thread_and_survives_everything_else
        a_trace_is_every_event_of_its_run_and_no_other
        b17_a_run_is_traced_in_its_own_thread_only
        a_run_without_events_has_an_empty_trace;
    transcript_copy:
        b12_a_copy_has_the_transcript_at_the_same_seqs
        b12_a_copy_ends_where_it_is_told_and_skips_what_is_superseded
        a_long_transcript_is_copied_whole
        only_a_thread_without_a_past_takes_a_copy
        a_copy_outlives_its_source;
    memory:
        f6_a_transfer_archives_its_window_and_nothing_else
        f6_what_differs_from_its_window_archives_nothing
        f6_a_transfer_that_fails_leaves_nothing
        f6_no_window_archives_a_turn_twice
        f6_a_window_of_a_thread_leaves_the_others_alone
        f6_nothing_is_transferred_under_a_run
        f6_eight_transfers_at_once_leave_every_turn_in_one_place
        f6_what_sub_agents_say_is_no_turn
        f7_summaries_are_newest_first_with_ties_by_id
        f7_turns_are_read_in_pages_by_agent_and_by_thread
        f7_b1_history_is_complete_whatever_went_to_memory;
    summary_removal:
        f7_restored_turns_are_active_and_their_summary_is_gone
        f7_a_rewind_past_what_a_summary_tells_of_dissolves_it
        f7_what_leaves_one_thread_is_not_lost_to_the_others
        f7_threads_are_told_that_turns_are_in_their_contexts_again
        f7_no_context_changes_under_a_run
        k9_a_deleted_thread_takes_what_tells_of_it_along
        k9_what_a_copy_was_told_of_a_deleted_thread_hides_nothing_any_more
        b12_a_copy_neither_takes_nor_dissolves_what_memory_has;
    context_versions:
        f6_a_plan_holds_while_people_talk
        f6_a_plan_of_another_context_is_refused
        f7_what_happens_in_the_background_is_no_activity;
    items:
        f10_an_item_is_kept_under_its_name_and_replaced_there
        f10_a_namespace_is_no_beginning_of_another
        items_are_found_by_what_was_put_last
        items_are_found_by_words
        items_are_filtered_by_their_fields
        a_page_of_items_is_exact_whatever_is_filtered
        namespaces_are_listed_once_in_order
        what_cannot_be_told_apart_is_refused;
    artifacts:
        the_same_bytes_are_kept_once
        a_name_may_be_shortened_to_eight_digits
        what_cannot_be_an_artifact_is_refused
        the_largest_artifact_comes_back
        h3_an_artifact_goes_with_its_last_thread;
    checkpoints:
        points_are_listed_newest_first_in_pages
        a_point_has_the_public_channels_of_its_time
        a_repeated_checkpoint_is_one_point
        superseded_points_are_left_out
        superseded_points_are_shown_to_who_asks
        an_admission_knows_what_came_in_with_it
        points_are_numbered_along_their_branch
        a_branch_is_numbered_from_the_point_it_names
        a_point_before_the_first_event_can_be_gone_back_to;
    search:
        every_word_must_be_there
        any_word_is_enough_and_more_are_better
        what_stands_near_the_other_words_is_better
        a_word_of_nearly_all_messages_finds_them_too
        scripts_without_spaces_are_found
        no_query_is_a_syntax_error
        k9_what_was_deleted_is_not_found
        passages_mark_what_was_found
        everything_is_found_where_it_is
        what_was_said_at_a_named_date_is_better
        of_a_handoff_the_proposal_that_counts_is_found
        what_was_superseded_is_in_no_answer
        searching_and_saying_do_not_wait_for_each_other;
    scope:
        filters_leave_only_what_belongs
        items_belong_to_the_assistant_under_whose_id_they_are
        a_filter_finds_what_many_others_say_better
        what_forks_copied_takes_no_place_of_anything_else
        results_in_the_same_words_are_found_once;
    rank:
        any_word_is_enough_and_rare_ones_say_more
        of_equal_messages_the_later_is_first
        only_the_threads_asked_for_are_looked_through
        a_thread_is_looked_through_up_to_where_it_is_told
        what_was_superseded_is_not_ranked
        words_are_compared_as_in_a_search
        a_ranking_has_its_limits;
}

/// Guarantees between owners and between processes need an unscoped store.
macro_rules! against_every_store {
    ($($rooms:tt)*) => {
        mod owners {
            against! { sqlite_file: $($rooms)* }
        against! { postgres: $($rooms)* }
            against! { sqlite_memory: $($rooms)* }
        }
    };
}

against_every_store! {
    isolation:
        k1_a11_of_others_nothing_is_read
        k1_a11_what_has_the_same_name_is_ones_own
        k1_one_worker_does_the_work_of_everybody
        k1_a11_lists_are_ones_own
        k1_a11_to_others_nothing_is_written
        k1_a11_what_is_anothers_is_not_told_from_what_is_not_there
        k1_a11_what_two_owners_keep_under_one_name_is_two_things
        k1_an_id_is_nobody_elses_for_ever
        k1_what_belongs_to_a_thread_belongs_to_its_owner
        k1_a_transaction_may_name_what_it_makes
        everyone_sees_what_is_asked_for;
    queue:
        j2_a_process_that_said_nothing_for_a_day_is_forgotten;
}
