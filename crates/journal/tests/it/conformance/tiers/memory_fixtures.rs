//! Fixtures and queries for tests of medium-term memory.

use journal::{
    HitLocation, IndexHitKind, SearchQuery, Store, SummaryQuery, ThreadVersion, TurnQuery, TurnSummarization,
    Write,
};
use protocol::{
    ArchiveReason, AssistantId, EventType, LoggedMessage, MediumTermSummary, NewEvent, Seq, SummaryId,
    ThreadId, TurnsArchived, Usage,
};

use crate::conformance::fixtures::{ai, append, at, commit, event, human};

/// Returns a summary of the turns with the indexes `first..=last`.
pub fn summary((first, last): (u64, u64), text: &str) -> MediumTermSummary {
    MediumTermSummary {
        id: SummaryId::generate(),
        agent_id: AssistantId::default(),
        summary_text: text.to_owned(),
        turn_range_start: first,
        turn_range_end: last,
        created_at: at(5),
    }
}

/// Returns a summarization of all turns in the index window. All of them belong to one thread.
pub fn summarization(thread_id: ThreadId, window: (u64, u64), text: &str) -> TurnSummarization {
    let turns = window.1 + 1 - window.0;
    TurnSummarization {
        summary: summary(window, text),
        thread_id: Some(thread_id),
        turns,
        thread_versions: vec![current_version(thread_id)],
    }
}

/// Returns a version that matches the thread's state when the summarization is committed.
pub fn current_version(thread_id: ThreadId) -> ThreadVersion {
    ThreadVersion { thread_id, last_seq: u32::MAX.into() }
}

/// Returns the event that announces a summary in a thread.
pub fn archive_event(
    summary: &MediumTermSummary,
    reason: ArchiveReason,
    (first_seq, last_seq): (Seq, Seq),
) -> NewEvent {
    let content = TurnsArchived {
        schema_version: 1,
        summary_id: summary.id,
        reason,
        first_seq,
        last_seq,
        context_from: None,
        turn_count: last_seq + 1 - first_seq,
        turn_range_start: summary.turn_range_start,
        turn_range_end: summary.turn_range_end,
        summary: summary.summary_text.clone(),
        model: "scripted/one".to_owned(),
        withheld: 0,
        usage: Usage::default(),
        marker_seq: None,
    };
    event(EventType::TurnsArchived, &serde_json::to_value(content).unwrap())
}

/// Summarizes turns and appends the announcing event to the thread, as a caller does.
pub async fn summarize_turns(
    store: &dyn Store,
    thread_id: ThreadId,
    window: (u64, u64),
    (text, seqs): (&str, (Seq, Seq)),
) -> MediumTermSummary {
    let transfer = summarization(thread_id, window, text);
    let summary = transfer.summary.clone();
    let event = archive_event(&summary, ArchiveReason::Budget, seqs);
    let writes = vec![Write::SummarizeTurns(transfer), Write::Append { thread_id, events: vec![event] }];
    commit(store, writes).await.unwrap();
    summary
}

/// Returns the turns that match the query.
pub async fn read_turns(store: &dyn Store, query: TurnQuery) -> Vec<LoggedMessage> {
    store.turns(query).await.unwrap()
}

pub async fn all_turns(store: &dyn Store) -> Vec<LoggedMessage> {
    read_turns(store, TurnQuery::for_agent(AssistantId::default())).await
}

/// Returns the indexes of the active turns and of the summarized turns.
pub async fn turn_indexes(store: &dyn Store) -> (Vec<u64>, Vec<u64>) {
    let all = all_turns(store).await;
    let of = |is_wanted: fn(&LoggedMessage) -> bool| {
        all.iter().filter(|turn| is_wanted(turn)).map(|turn| turn.turn_index).collect()
    };
    (of(|turn| !turn.is_archived), of(|turn| turn.summary_id.is_some()))
}

/// Returns the texts of the summaries that match the query.
pub async fn summary_texts(store: &dyn Store, query: SummaryQuery) -> Vec<String> {
    let summaries = store.summaries(query).await.unwrap();
    summaries.into_iter().map(|stored| stored.summary.summary_text).collect()
}

pub fn newest_query() -> SummaryQuery {
    SummaryQuery {
        agent_id: AssistantId::default(),
        project: journal::ProjectScope::Any,
        except_thread: None,
        offset: 0,
        limit: 10,
    }
}

/// Appends `turns` messages to the thread, alternating between user and model.
pub async fn append_turns(store: &dyn Store, thread_id: ThreadId, turns: usize) {
    let message = |number: usize| match number % 2 {
        0 => human(&format!("question {number}")),
        _ => ai(&format!("answer {number}")),
    };
    append(store, thread_id, (0..turns).map(message).collect()).await.unwrap();
}

/// Returns the summaries that a search for the word finds.
pub async fn search_summaries(store: &dyn Store, word: &str) -> Vec<SummaryId> {
    let kinds = vec![IndexHitKind::Summary];
    let query = SearchQuery { words: vec![word.to_owned()], kinds, limit: 10, ..SearchQuery::default() };
    let hits = store.search(query).await.unwrap().hits;
    let ids = hits.into_iter().filter_map(|hit| match hit.location {
        HitLocation::Summary { summary_id, .. } => Some(summary_id),
        _ => None,
    });
    ids.collect()
}
