//! The journal's integration tests: the conformance suite against every backend, and tests of one backend only, such as
//! damaged files. They need no running service and no network.

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

/// Backends of the suite. Each returns its store with a guard for its folder or database, which must outlive the store.
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

    /// Creates a database on a new server.
    pub async fn postgres() -> (test_postgres::TestDatabase, SharedStore) {
        let database = test_postgres::TestDatabase::create().unwrap();
        let store = journal::PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
        (database, Arc::new(store))
    }

    /// Pool settings of one test.
    pub const POOL: PoolSettings = PoolSettings {
        min_idle: 0,
        max: 6,
        idle_timeout: Duration::from_secs(60),
        max_lifetime: Duration::from_secs(600),
        wait_timeout: Duration::from_secs(10),
    };

    /// Creates a store that is scoped to one owner. It passes the same suite.
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
                    let (_guard, store) = crate::backends::$backend().await;
                    crate::conformance::$room::$guarantee(store).await;
                }
            )* })*
        }
    };
}

/// Runs the conformance suite against each backend. A new backend needs one more line here.
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
        a6_content_is_read_byte_for_byte
        a6_times_are_read_with_nanosecond_precision
        a6_half_a_surrogate_pair_is_refused
        a7_a_repeated_key_stores_one_row
        a7_concurrent_appends_of_one_key_store_one_row
        a8_a_failed_transaction_leaves_nothing
        a8_a_failing_transaction_affects_none_that_is_committed_with_it
        a8_a_failure_does_not_affect_other_transactions_of_the_batch
        a9_pages_honour_their_bounds
        a10_other_categories_do_not_count_against_the_page_limit
        a10_many_hidden_rows_do_not_hide_visible_rows
        a15_an_answer_that_is_committed_twice_is_one_message_and_is_counted_once
        b15_reading_writes_nothing;
    threads:
        h1_prefixes_resolve
        h2_creation_is_idempotent
        m2_a_transaction_for_a_thread_without_messages_fails_once_it_has_one
        h2_metadata_is_patched_key_by_key
        h4_lists_are_ordered_and_paged
        h4_a_list_filters_threads_by_a_text_in_the_name_or_first_prompt
        h4_a_list_has_the_threads_that_match_every_filter_field
        h4_one_query_returns_the_tokens_of_a_page_of_threads
        h4_a_stopped_thread_is_distinguished_from_one_that_waits_for_a_decision
        h4_a_list_can_be_sorted_by_the_displayed_columns
        k1_listing_threads_requires_an_owner_scope
        threads_of_sub_agents_are_listed_on_request
        a15_a18_counters_follow_the_messages
        a_first_prompt_is_cut_between_graphemes
        h3_deletion_removes_what_belongs_to_the_thread
        a26_a_deleted_thread_accepts_no_event
        h3_a_deleted_thread_id_can_be_created_again;
    deletions:
        a26_nothing_of_a_long_thread_is_found_while_and_after_it_is_deleted
        h3_the_id_of_a_thread_whose_deletion_was_cancelled_can_be_used_again;
    runs:
        j1_a_thread_has_one_active_run
        j1_of_concurrent_admissions_one_wins
        j3_a_lost_lease_writes_nothing
        j3_only_an_ended_lease_is_reclaimed
        the_first_terminal_status_stays
        usage_adds_up
        a_checkpoint_knows_the_last_seq
        unfinished_activities_are_found
        j7_pending_interrupts_are_listed_in_order
        g20_the_first_decision_wins;
    queue:
        j1_any_number_of_runs_can_be_queued_while_one_is_active
        j1_of_concurrent_starts_one_succeeds
        j3_a_queued_run_starts_once
        j1_a_deleted_run_cannot_be_admitted_again
        a_settled_thread_gets_its_status_from_the_newest_checkpoint
        a_decision_of_an_interrupt_that_is_not_pending_is_refused
        a_queued_run_can_end_without_starting
        runs_are_listed_newest_first_in_pages
        the_request_of_a_run_is_stored_in_its_own_row
        deleting_a_run_keeps_its_events
        h3_deleting_a_thread_deletes_its_queued_runs;
    keys:
        k2_a_key_is_stored_once_and_revoked_once;
    handoffs:
        a_parent_has_one_pending_handoff
        a_handoff_transition_requires_the_current_status
        g20_of_concurrent_transitions_one_wins
        g1_a_stored_proposal_never_changes
        a_stopped_first_draft_leaves_no_handoff
        handoffs_are_found_by_each_filter_field
        the_outbox_keeps_one_item_for_each_key
        deleting_an_outbox_item_keeps_its_replacement
        of_concurrent_updates_of_an_outbox_item_one_succeeds
        the_outbox_is_read_in_pages
        an_import_is_stored_with_its_source
        an_import_continues_only_from_the_expected_position;
    rewinds:
        superseded_events_stay_in_the_log_and_are_hidden
        a_rewind_accepts_any_seq_to_keep
        a_thread_with_an_active_run_is_not_rewound
        a8_a_failed_transaction_supersedes_nothing
        a10_superseded_rows_do_not_count_against_the_page_limit
        superseded_messages_are_not_found
        the_first_prompt_is_the_first_visible_message
        a_superseded_question_is_withdrawn
        h3_a_reused_thread_id_has_no_superseded_events
        an_event_with_a_superseded_key_is_not_stored_again;
    random_histories:
        b1_b5_m9_after_random_operations_history_and_context_match_the_model
        every_change_of_the_context_start_is_visible_in_its_event;
    history:
        a9_history_pages_honour_their_bounds
        b5_a_long_thread_pages_completely
        b6_pages_are_full_despite_hidden_events
        a10_c4_markers_count_like_messages_and_their_details_do_not
        b8_a_tool_result_includes_its_call_if_the_page_does_not
        b8_a_call_far_before_its_result_is_found
        b8_a_call_is_found_before_many_messages_of_sub_agents
        a9_pages_of_markers_honour_their_bounds
        b9_rewound_entries_are_marked
        b9_rewound_entries_are_returned_only_on_request
        b10_d6_feedback_is_attached_only_to_the_last_answer_of_a_run
        d7_feedback_is_returned_only_on_request
        b10_in_an_active_run_the_newest_answer_is_the_last
        b12_d8_a_copy_has_the_history_and_runs_but_no_feedback_of_its_source
        b4_an_entry_has_the_same_id_on_every_page
        b3_any_interleaving_sorts_to_the_same_history
        b15_reading_history_writes_nothing;
    pins:
        pins_follow_rewinds_and_copies
        a_change_of_pins_fails_after_another_change;
    feedback:
        d2_a_user_has_one_rating_per_run
        d3_concurrent_ratings_leave_one_row
        d4_only_a_run_of_the_thread_takes_feedback
        d5_feedback_is_returned_only_for_the_requested_runs
        d8_feedback_is_deleted_with_its_thread_and_only_then
        a5_a_trace_is_every_event_of_its_run_and_no_other
        b17_a_run_is_traced_in_its_own_thread_only
        a_run_without_events_has_an_empty_trace;
    transcript_copy:
        b12_a_copy_has_the_transcript_at_the_same_seqs
        b12_a_copy_ends_at_the_given_seq_and_skips_superseded_events
        a_long_transcript_is_copied_whole
        only_a_thread_without_events_accepts_a_copy
        a_copy_outlives_its_source;
    memory:
        f6_a_summarization_archives_exactly_its_window
        f6_a_summarization_that_does_not_match_its_window_archives_nothing
        f6_a_failed_summarization_leaves_nothing
        f6_overlapping_windows_do_not_archive_a_turn_twice
        f6_a_window_of_one_thread_does_not_affect_other_threads
        f6_turns_are_not_summarized_during_a_run
        f6_after_eight_concurrent_summarizations_every_turn_is_in_one_place
        f6_messages_of_sub_agents_are_not_turns
        f7_summaries_are_newest_first_with_ties_by_id
        f7_turns_are_read_in_pages_by_agent_and_by_thread
        f7_b1_summarization_does_not_change_history;
    summary_removal:
        f7_restored_turns_are_active_and_their_summary_is_deleted
        f7_rewinding_turns_of_a_summary_or_its_event_dissolves_the_summary
        f7_dissolving_a_shared_summary_restores_the_turns_of_the_other_threads
        f7_restored_turns_are_announced_in_their_threads
        f7_a_context_does_not_change_during_a_run
        k9_deleting_a_thread_deletes_the_events_and_summaries_that_quote_it
        k9_in_a_copy_the_archive_event_of_a_deleted_thread_hides_nothing
        b12_a_copy_neither_owns_nor_dissolves_summaries;
    projects:
        a_thread_has_its_own_project_or_that_of_its_parent
        summaries_are_listed_by_the_project_that_their_threads_had
        a_search_finds_only_documents_of_its_project;
    facts:
        a_proposed_fact_is_read_with_its_source
        facts_are_listed_by_state_and_project_in_pages
        a_fact_is_not_proposed_again_whatever_was_decided
        of_several_decisions_on_a_fact_the_first_wins
        the_note_of_an_accepted_fact_is_pending_until_it_is_confirmed
        a8_a_summary_that_is_not_stored_proposes_nothing
        k9_undecided_facts_are_deleted_with_their_source
        revisions_of_the_notes_are_numbered_and_stored_once;
    context_versions:
        f6_a_plan_stays_valid_when_messages_are_added
        f6_a_plan_for_a_changed_context_is_refused
        f7_background_events_do_not_change_the_activity_time;
    items:
        f10_an_item_is_stored_and_replaced_under_its_name
        f10_a_namespace_prefix_matches_whole_labels
        items_are_listed_by_their_latest_update
        items_are_found_by_words
        items_are_filtered_by_their_fields
        a_filtered_page_of_items_is_exact
        namespaces_are_listed_once_in_order
        ambiguous_names_of_items_are_refused;
    artifacts:
        the_same_bytes_are_stored_once
        a_name_may_be_shortened_to_eight_digits
        an_invalid_artifact_is_refused
        the_largest_artifact_is_stored_and_read
        h3_an_artifact_is_deleted_with_its_last_thread;
    checkpoints:
        points_are_listed_newest_first_in_pages
        a_point_has_the_public_channels_of_its_time
        a_repeated_checkpoint_is_one_point
        superseded_points_are_left_out
        superseded_points_are_returned_on_request
        an_admission_has_the_messages_of_its_transaction
        points_are_numbered_along_their_branch
        a_branch_is_numbered_from_the_point_it_names
        a_thread_can_be_rewound_to_a_point_before_its_first_event;
    search:
        a_search_for_all_words_requires_every_word
        a_search_for_any_word_ranks_hits_with_more_words_higher
        words_near_the_other_words_rank_higher
        a_word_of_nearly_all_messages_is_found
        scripts_without_spaces_are_found
        no_query_is_a_syntax_error
        k9_deleted_texts_are_not_found
        snippets_mark_the_matching_words
        every_kind_of_hit_has_its_location
        messages_at_a_named_date_rank_higher
        of_a_handoff_only_the_latest_or_accepted_proposal_is_found
        superseded_messages_are_in_no_search_result
        searches_and_appends_do_not_block_each_other;
    scope:
        filters_keep_only_matching_hits
        items_belong_to_the_assistant_in_their_namespace
        a_filter_finds_a_hit_that_rows_outside_it_outrank
        copies_in_forks_do_not_displace_other_hits
        identical_tool_results_are_found_once;
    backlog:
        a_large_backlog_is_indexed_step_by_step
        the_last_turn_is_found_before_a_backlog_is_indexed
        the_last_turn_is_ranked_before_a_backlog_is_indexed
        a_search_of_a_thread_does_not_wait_for_others
        a_temporary_thread_is_indexed_only_for_its_own_searches
        an_update_in_the_background_indexes_everything;
    rank:
        any_word_matches_and_rare_words_weigh_more
        equally_ranked_messages_are_newest_first
        only_the_requested_threads_are_searched
        a_thread_is_searched_up_to_the_given_seq
        superseded_messages_are_not_ranked
        ranking_normalizes_words_like_a_search
        a_ranking_has_its_limits;
}

/// Runs the guarantees between owners and between processes, which need an unscoped store.
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
    backlog:
        k1_messages_of_other_owners_are_not_counted;
    meaning:
        a_message_is_found_by_its_meaning_without_a_common_word
        a_phrase_and_a_single_word_are_not_compared_by_meaning
        a_search_compares_words_if_the_model_fails_and_says_so
        another_model_embeds_all_messages_again
        a_new_message_is_embedded_and_a_superseded_one_is_not_found
        embeddings_are_deleted_with_their_thread
        the_tokens_of_a_day_are_counted_for_all_models
        embeddings_of_another_length_are_refused_and_not_compared
        k1_meaning_finds_no_message_of_another_owner;
    isolation:
        k1_a11_rows_of_other_owners_are_not_read
        k1_a11_reads_by_name_return_the_owners_own_rows
        k1_an_unscoped_worker_reads_the_outbox_of_all_owners
        k1_a11_lists_have_only_the_owners_rows
        k1_a11_rows_of_other_owners_are_not_changed
        k1_a11_foreign_rows_and_absent_rows_give_the_same_result
        k1_a11_two_owners_can_use_the_same_name_independently
        k1_the_id_of_a_deleted_thread_stays_with_its_owner
        k1_rows_of_a_thread_belong_to_its_owner
        k1_a_transaction_may_refer_to_rows_that_it_creates
        each_scope_sees_the_requested_rows;
    queue:
        j2_a_replica_without_a_heartbeat_for_a_day_is_removed;
}
