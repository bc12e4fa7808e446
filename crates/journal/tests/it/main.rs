//! The journal's tests: the conformance suite against every backend, and what only a file can suffer. They need no
//! service and no network.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod conformance;
mod crash;
mod damage;
mod processes;
mod sqlite;

/// The conformance suite against each backend; another backend is one more module here.
macro_rules! against_every_backend {
    ($($room:ident: $($guarantee:ident)*;)*) => {
        mod sqlite_file {
            $(mod $room { $(
                #[tokio::test]
                async fn $guarantee() {
                    let folder = tempfile::tempdir().unwrap();
                    let store = journal::Sqlite::open(&folder.path().join("segue.db")).unwrap();
                    crate::conformance::$room::$guarantee(std::sync::Arc::new(store)).await;
                }
            )* })*
        }
        mod sqlite_memory {
            $(mod $room { $(
                #[tokio::test]
                async fn $guarantee() {
                    let store = journal::Sqlite::in_memory().unwrap();
                    crate::conformance::$room::$guarantee(std::sync::Arc::new(store)).await;
                }
            )* })*
        }
    };
}

against_every_backend! {
    log:
        a1_seqs_of_concurrent_writers_have_no_gap
        a1_seqs_of_threads_are_independent
        a2_seq_is_never_reused
        a5_events_of_several_runs_keep_their_run
        a6_content_comes_back_byte_for_byte
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
    handoffs:
        a_parent_has_one_pending_handoff
        a_handoff_moves_from_where_it_stands
        g20_of_concurrent_moves_one_wins
        g1_a_stored_proposal_never_changes
        handoffs_are_found_by_what_is_known
        the_outbox_keeps_one_item_a_key
        an_import_is_remembered
        an_import_goes_on_only_from_where_it_was_believed_to_be;
    search:
        every_word_must_be_there
        scripts_without_spaces_are_found
        no_query_is_a_syntax_error
        what_was_deleted_is_not_found
        passages_mark_what_was_found;
}
