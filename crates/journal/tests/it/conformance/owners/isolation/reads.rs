//! Every question that a store answers, asked about what somebody has.

use std::fmt::Debug;

use jiff::Timestamp;
use journal::{
    CheckpointRef, EventQuery, HandoffFilter, ItemQuery, NamespaceQuery, OutboxQuery, RankQuery, RunFilter,
    Scoped, SearchQuery, Store, SummaryQuery, Superseded, ThreadFilter, ThreadPart, TurnQuery, Unclaimed,
};
use protocol::{RunFeedback, Scope};

use super::belongings::{Belongings, history};

/// The answers, by what was asked. A new method of the trait belongs here.
pub async fn of(own: &Scoped, theirs: &Belongings) -> Vec<(&'static str, String)> {
    let mut answers = of_thread(own, theirs).await;
    answers.extend(of_runs(own, theirs).await);
    answers.extend(of_memory(own, theirs).await);
    answers
}

fn told(answer: journal::Result<impl Debug>) -> String {
    // Snippets and texts may be long; what counts is whether two answers are the same.
    answer.map_or_else(|error| format!("{error:?}"), |answer| format!("{answer:?}"))
}

async fn of_thread(own: &Scoped, theirs: &Belongings) -> Vec<(&'static str, String)> {
    let (thread_id, id) = (theirs.thread_id, theirs.thread_id.to_string());
    let listed = ThreadFilter { ids: vec![thread_id], limit: 5, ..ThreadFilter::default() };
    let children = ThreadFilter { parent_id: Some(thread_id), limit: 5, ..ThreadFilter::default() };
    let assistants =
        ThreadFilter { assistant_id: Some(theirs.assistant_id.clone()), limit: 5, ..ThreadFilter::default() };
    let at = CheckpointRef::Id(theirs.checkpoint_id);
    let newest = CheckpointRef::Seq(u64::MAX);
    let shown = Superseded::Shown;
    vec![
        ("a thread", told(own.thread(thread_id).await)),
        ("a thread in a list", told(own.threads(listed.clone()).await)),
        ("children", told(own.threads(children).await)),
        ("the threads of an assistant", told(own.threads(assistants).await)),
        ("a count of threads", told(own.thread_count(listed).await)),
        ("tokens", told(own.thread_tokens(&[thread_id]).await)),
        ("states", told(own.thread_states(&[thread_id]).await)),
        ("a size", told(own.thread_size(thread_id).await)),
        ("a prefix", told(own.threads_by_prefix(&id, &Scope::Everyone).await)),
        ("events", told(own.events(thread_id, EventQuery::after(0, 9)).await)),
        ("a count of messages", told(own.messages_after(thread_id, 0).await)),
        ("a key", told(own.seq_of_key(thread_id, "key").await)),
        ("a history with its markers", history(own, thread_id).await),
        ("a checkpoint", told(own.checkpoint(thread_id).await)),
        ("points", told(own.checkpoints(thread_id, None, 9, shown).await)),
        ("a point", told(own.checkpoint_at(thread_id, at, shown).await)),
        ("the newest point", told(own.checkpoint_at(thread_id, newest, shown).await)),
        ("an artifact", told(own.artifact(thread_id, &theirs.sha256).await)),
        ("an interrupt", told(own.interrupt(theirs.interrupt_id).await)),
        ("pending interrupts", told(own.pending_interrupts(thread_id).await)),
    ]
}

async fn of_runs(own: &Scoped, theirs: &Belongings) -> Vec<(&'static str, String)> {
    let (thread_id, run_id) = (theirs.thread_id, theirs.run_id);
    let runs = RunFilter { thread_id: Some(thread_id), limit: 9, ..RunFilter::default() };
    let of_parent = HandoffFilter { parent_thread_id: Some(thread_id), ..HandoffFilter::default() };
    let of_child = HandoffFilter { child_thread_id: Some(theirs.child_id), ..HandoffFilter::default() };
    let unfinished = own
        .unfinished_checkpoints()
        .await
        .map(|points| points.into_iter().filter(|point| point.thread_id == thread_id).collect::<Vec<_>>());
    vec![
        ("a run", told(own.run(run_id).await)),
        ("a run that waits", told(own.run(theirs.queued_id).await)),
        ("a prefix of a run", told(own.runs_by_prefix(&run_id.to_string(), &Scope::Everyone).await)),
        ("a list of runs", told(own.runs(runs).await)),
        ("what a run was asked for", told(own.run_requests(&[run_id]).await)),
        ("what was noted of a run", told(own.run_metadata(&[run_id]).await)),
        ("the newest run", told(own.newest_run(thread_id).await)),
        ("queued runs", told(own.queued_runs(Some(thread_id)).await)),
        ("active runs", told(own.active_runs(Some(thread_id)).await)),
        ("the events of a run", told(own.run_events(thread_id, run_id, 0, 9).await)),
        ("feedback", told(own.feedback(thread_id, &[run_id], RunFeedback::LOCAL).await)),
        ("unfinished checkpoints", told(unfinished)),
        ("a handoff", told(own.handoff(theirs.handoff_id).await)),
        ("handoffs of a parent", told(own.handoffs(of_parent).await)),
        ("handoffs of a child", told(own.handoffs(of_child).await)),
        ("proposals", told(own.proposals(theirs.handoff_id).await)),
    ]
}

async fn of_memory(own: &Scoped, theirs: &Belongings) -> Vec<(&'static str, String)> {
    let agent_id = theirs.assistant_id.clone();
    let summaries = SummaryQuery { agent_id: agent_id.clone(), except_thread: None, offset: 0, limit: 9 };
    let words = vec![theirs.word.clone()];
    let search = |thread_id, assistant_id| SearchQuery {
        words: words.clone(),
        thread_id,
        assistant_id,
        limit: 9,
        ..SearchQuery::default()
    };
    let threads = vec![ThreadPart { thread_id: theirs.thread_id, before: None }];
    let agents = ["agents".to_owned(), agent_id.to_string(), "notes".to_owned()];
    let rank = RankQuery { threads, words: words.clone(), limit: 9 };
    vec![
        ("a search", told(own.search(search(None, None)).await)),
        ("a search of a thread", told(own.search(search(Some(theirs.thread_id), None)).await)),
        ("a search of an assistant", told(own.search(search(None, Some(agent_id.clone()))).await)),
        ("a ranking", told(own.rank(rank).await)),
        ("turns", told(own.turns(TurnQuery::of(agent_id.clone())).await)),
        ("summaries", told(own.summaries(summaries).await)),
        ("counts", told(own.memory_counts(&agent_id).await)),
        ("an item", told(own.item(&agents, "heron").await)),
    ]
}

/// The answers to questions about what everybody has under the same name, or asks about without a name: each is the asker's
/// own, or nothing.
pub async fn by_name(own: &Scoped) -> Vec<(&'static str, String)> {
    let items = ItemQuery { limit: 9, ..ItemQuery::default() };
    let namespaces = NamespaceQuery { limit: 9, ..NamespaceQuery::default() };
    let unclaimed = Unclaimed { now: Timestamp::UNIX_EPOCH, gone: Vec::new(), limit: 9 };
    vec![
        ("the outbox", told(own.outbox(OutboxQuery::of("kind", 10)).await)),
        ("an import", told(own.import_source("session").await)),
        ("runs that nobody works on", told(own.unclaimed(unclaimed).await)),
        ("items", told(own.items(items).await)),
        ("namespaces", told(own.namespaces(namespaces).await)),
        ("all keys", told(own.keys().await)),
        ("how much waits in the outbox", told(own.outbox_waiting("kind", None).await)),
        ("an item of the outbox", told(own.outbox_item("kind", "key").await)),
        ("a key that is not there", told(own.key("none").await)),
    ]
}

/// Returns the methods of the trait that nobody is asked here; what they do is asked elsewhere, or the same for everybody.
pub fn unasked() -> Vec<&'static str> {
    const ELSEWHERE: [&str; 5] = ["commit", "index", "health", "replicas", "clock"];
    let store = include_str!("../../../../../src/store.rs");
    let store = &store[store.find("pub trait Store").unwrap()..];
    let methods = store.split("async fn ").skip(1).filter_map(|method| method.split('(').next());
    let here = include_str!("reads.rs");
    let is_asked = |method: &&str| {
        here.contains(&format!("own.{method}(")) || here.contains(&format!("own\n        .{method}("))
    };
    methods.filter(|method| !ELSEWHERE.contains(method) && !is_asked(method)).collect()
}
