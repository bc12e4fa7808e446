//! Calls of every read method of a store for the rows of one owner.

use std::fmt::Debug;

use jiff::Timestamp;
use journal::{
    CheckpointRef, EventQuery, FactQuery, HandoffFilter, ItemQuery, NamespaceQuery, NotesRevisionQuery,
    OutboxQuery, RankQuery, RunFilter, ScopedStore, SearchQuery, Store, SummaryQuery, SupersededVisibility,
    ThreadFilter, ThreadPrefix, TurnQuery, UnclaimedRunsQuery, VerificationPosition,
};
use protocol::{OwnerScope, RunFeedback};

use super::owned_rows::{OwnedRows, history};
use crate::conformance::tiers::memory_fixtures::newest_query;

/// Returns the rendered result of each read method with its name. A new method of the `Store` trait belongs here.
pub async fn all_reads(own: &ScopedStore, theirs: &OwnedRows) -> Vec<(&'static str, String)> {
    let mut answers = thread_reads(own, theirs).await;
    answers.extend(run_reads(own, theirs).await);
    answers.extend(memory_reads(own, theirs).await);
    answers
}

fn render_result(answer: journal::Result<impl Debug>) -> String {
    // The tests only compare rendered results, so long snippets and texts are rendered completely.
    answer.map_or_else(|error| format!("{error:?}"), |answer| format!("{answer:?}"))
}

async fn thread_reads(own: &ScopedStore, theirs: &OwnedRows) -> Vec<(&'static str, String)> {
    let (thread_id, id) = (theirs.thread_id, theirs.thread_id.to_string());
    let listed = ThreadFilter { ids: vec![thread_id], limit: 5, ..ThreadFilter::default() };
    let children = ThreadFilter { parent_id: Some(thread_id), limit: 5, ..ThreadFilter::default() };
    let assistants =
        ThreadFilter { assistant_id: Some(theirs.assistant_id.clone()), limit: 5, ..ThreadFilter::default() };
    let at = CheckpointRef::Id(theirs.checkpoint_id);
    let newest = CheckpointRef::Seq(u64::MAX);
    let shown = SupersededVisibility::Shown;
    vec![
        ("a thread", render_result(own.thread(thread_id).await)),
        ("a thread and its checkpoint", render_result(own.thread_with_checkpoint(thread_id).await)),
        ("a thread in a list", render_result(own.threads(listed.clone()).await)),
        ("children", render_result(own.threads(children).await)),
        ("the threads of an assistant", render_result(own.threads(assistants).await)),
        ("a count of threads", render_result(own.thread_count(listed, None).await)),
        ("tokens", render_result(own.thread_tokens(&[thread_id]).await)),
        ("states", render_result(own.thread_states(&[thread_id]).await)),
        ("a size", render_result(own.thread_size(thread_id).await)),
        ("a prefix", render_result(own.threads_by_prefix(&id, &OwnerScope::Everyone).await)),
        ("events", render_result(own.events(thread_id, EventQuery::after(0, 9)).await)),
        ("a count of messages", render_result(own.messages_after(thread_id, 0).await)),
        ("a key", render_result(own.seq_of_event_key(thread_id, "key").await)),
        ("a history with its markers", history(own, thread_id).await),
        ("a checkpoint", render_result(own.checkpoint(thread_id).await)),
        ("points", render_result(own.checkpoints(thread_id, None, 9, shown).await)),
        ("a point", render_result(own.checkpoint_at(thread_id, at, shown).await)),
        ("the newest point", render_result(own.checkpoint_at(thread_id, newest, shown).await)),
        ("an artifact", render_result(own.artifact(thread_id, &theirs.sha256).await)),
        ("an interrupt", render_result(own.interrupt(theirs.interrupt_id).await)),
        ("pending interrupts", render_result(own.pending_interrupts(thread_id).await)),
        ("a decided interrupt", render_result(own.last_decided_interrupt(thread_id).await)),
    ]
}

async fn run_reads(own: &ScopedStore, theirs: &OwnedRows) -> Vec<(&'static str, String)> {
    let (thread_id, run_id) = (theirs.thread_id, theirs.run_id);
    let runs = RunFilter { thread_id: Some(thread_id), limit: 9, ..RunFilter::default() };
    let of_parent = HandoffFilter { parent_thread_id: Some(thread_id), ..HandoffFilter::default() };
    let of_child = HandoffFilter { child_thread_id: Some(theirs.child_id), ..HandoffFilter::default() };
    let unfinished = own
        .unfinished_checkpoints()
        .await
        .map(|points| points.into_iter().filter(|point| point.thread_id == thread_id).collect::<Vec<_>>());
    vec![
        ("a run", render_result(own.run(run_id).await)),
        ("a run that waits", render_result(own.run(theirs.queued_id).await)),
        (
            "a prefix of a run",
            render_result(own.runs_by_prefix(&run_id.to_string(), &OwnerScope::Everyone).await),
        ),
        ("a list of runs", render_result(own.runs(runs).await)),
        ("run request", render_result(own.run_requests(&[run_id]).await)),
        ("what was noted of a run", render_result(own.run_metadata(&[run_id]).await)),
        ("the newest run", render_result(own.newest_run(thread_id).await)),
        ("queued runs", render_result(own.queued_runs(Some(thread_id)).await)),
        ("active runs", render_result(own.active_runs(Some(thread_id)).await)),
        ("the events of a run", render_result(own.run_events(thread_id, run_id, 0, 9).await)),
        ("feedback", render_result(own.feedback(thread_id, &[run_id], RunFeedback::LOCAL_USER).await)),
        ("unfinished checkpoints", render_result(unfinished)),
        ("a handoff", render_result(own.handoff(theirs.handoff_id).await)),
        ("handoffs of a parent", render_result(own.handoffs(of_parent).await)),
        ("handoffs of a child", render_result(own.handoffs(of_child).await)),
        ("proposals", render_result(own.proposals(theirs.handoff_id).await)),
    ]
}

async fn memory_reads(own: &ScopedStore, theirs: &OwnedRows) -> Vec<(&'static str, String)> {
    let agent_id = theirs.assistant_id.clone();
    let summaries = SummaryQuery { agent_id: agent_id.clone(), limit: 9, ..newest_query() };
    let revisions = NotesRevisionQuery { agent_id: agent_id.clone(), before: None, limit: 9 };
    let words = vec![theirs.word.clone()];
    let search = |thread_id, assistant_id| SearchQuery {
        words: words.clone(),
        thread_id,
        assistant_id,
        limit: 9,
        ..SearchQuery::default()
    };
    let threads = vec![ThreadPrefix { thread_id: theirs.thread_id, before: None }];
    let agents = ["agents".to_owned(), agent_id.to_string(), "notes".to_owned()];
    let rank = RankQuery { threads, words: words.clone(), limit: 9, ..RankQuery::default() };
    vec![
        ("a search", render_result(own.search(search(None, None)).await)),
        ("a search of a thread", render_result(own.search(search(Some(theirs.thread_id), None)).await)),
        ("a search of an assistant", render_result(own.search(search(None, Some(agent_id.clone()))).await)),
        ("a ranking", render_result(own.rank_messages(rank).await)),
        ("turns", render_result(own.turns(TurnQuery::for_agent(agent_id.clone())).await)),
        ("summaries", render_result(own.summaries(summaries).await)),
        ("counts", render_result(own.memory_counts(&agent_id).await)),
        ("a fact", render_result(own.fact(theirs.fact_id).await)),
        ("facts", render_result(own.facts(FactQuery::for_agent(agent_id.clone())).await)),
        ("revisions", render_result(own.notes_revisions(revisions).await)),
        ("an item", render_result(own.item(&agents, "heron").await)),
    ]
}

/// Returns the results of reads by a name that every owner uses, and of reads without a name. Each result is either the
/// caller's own row or empty.
pub async fn reads_by_name(own: &ScopedStore) -> Vec<(&'static str, String)> {
    let items = ItemQuery { limit: 9, ..ItemQuery::default() };
    let namespaces = NamespaceQuery { limit: 9, ..NamespaceQuery::default() };
    let unclaimed = UnclaimedRunsQuery { now: Timestamp::UNIX_EPOCH, dead_owners: Vec::new(), limit: 9 };
    vec![
        ("the outbox", render_result(own.outbox(OutboxQuery::for_kind("kind", 10)).await)),
        ("an import", render_result(own.import_source("session").await)),
        ("runs without an owner", render_result(own.unclaimed_runs(unclaimed).await)),
        ("items", render_result(own.items(items).await)),
        ("namespaces", render_result(own.namespaces(namespaces).await)),
        ("all keys", render_result(own.api_keys().await)),
        ("how much waits in the outbox", render_result(own.outbox_backlog("kind", None).await)),
        ("an item of the outbox", render_result(own.outbox_item("kind", "key").await)),
        ("the backlog of the index", render_result(own.index_backlog(&OwnerScope::Everyone).await)),
        ("verified events", render_result(own.verify_events(VerificationPosition::OLDEST, 9).await)),
        ("messages without embeddings", render_result(own.unembedded_messages("model", 9).await)),
        (
            "the numbers of embeddings",
            render_result(own.embedding_counts("model", &OwnerScope::Everyone).await),
        ),
        ("a key that is not there", render_result(own.api_key("none").await)),
    ]
}

/// Returns the trait methods that this file does not call. Exempt methods are tested elsewhere or do not depend on the owner.
pub fn uncovered_methods() -> Vec<&'static str> {
    const EXEMPT_METHODS: [&str; 6] =
        ["commit", "update_search_index", "health", "replicas", "current_time", "unresolved_folders"];
    let store = include_str!("../../../../../src/store.rs");
    let store = &store[store.find("pub trait Store").unwrap()..];
    let methods = store.split("async fn ").skip(1).filter_map(|method| method.split('(').next());
    let here = include_str!("reads.rs");
    let is_asked = |method: &&str| {
        here.contains(&format!("own.{method}(")) || here.contains(&format!("own\n        .{method}("))
    };
    methods.filter(|method| !EXEMPT_METHODS.contains(method) && !is_asked(method)).collect()
}
