//! Property test: after random operations on a thread, its history and its context equal those of a simple model.

use journal::view::context::{ContextOutline, is_context_change};
use journal::view::{HistoryItem, context, history};
use journal::{EventQuery, HealthCheckDepth, HistoryQuery, Write, history_page};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use protocol::{Category, Event, EventType, Seq, ThreadId};
use serde_json::json;

use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    all_events, append, clip_event, commit, compaction_event, create, event, human, rewind, seqs,
    tool_result, trace_event, undo_event,
};

/// An operation on a thread that affects its history or its context.
#[derive(Debug, Clone)]
enum ThreadMutation {
    /// Appends this number of messages, the last of them a tool result.
    Messages(u8),
    Trace,
    Boundary,
    /// Compacts all but this number of the newest messages, and clips the last tool result among those that stay.
    Compaction {
        kept: u8,
        with_request: bool,
    },
    /// Undoes the compaction in effect, if one exists.
    Undo,
    /// Clips the last tool result of the context.
    Clip,
    Rewind(u8),
    Fork(Option<u8>),
}

/// Returns a strategy for sequences of mutations.
fn mutations() -> impl Strategy<Value = Vec<ThreadMutation>> {
    let compaction = (0..4_u8, any::<bool>())
        .prop_map(|(kept, with_request)| ThreadMutation::Compaction { kept, with_request });
    let mutation = prop_oneof![
        6 => (1..5_u8).prop_map(ThreadMutation::Messages),
        1 => Just(ThreadMutation::Trace),
        1 => Just(ThreadMutation::Boundary),
        4 => compaction,
        2 => Just(ThreadMutation::Undo),
        1 => Just(ThreadMutation::Clip),
        2 => (0..30_u8).prop_map(ThreadMutation::Rewind),
        1 => proptest::option::of(0..30_u8).prop_map(ThreadMutation::Fork),
    ];
    proptest::collection::vec(mutation, 1..16)
}

/// The expected view of a thread.
#[derive(Debug, Clone)]
enum VisibleItem {
    Human(String),
    Result(String),
    Trace,
    Boundary,
    Marker {
        last_seq: Seq,
        request: Option<Seq>,
        summary: String,
    },
    Undone(Seq),
    /// A clipped tool result. If it has a marker, it belongs to that compaction.
    Clip {
        seq: Seq,
        text: String,
        marker: Option<Seq>,
    },
}

impl VisibleItem {
    const fn category(&self) -> Category {
        match self {
            Self::Human(_) | Self::Result(_) => Category::Message,
            Self::Trace => Category::Trace,
            Self::Boundary | Self::Marker { .. } | Self::Undone(_) | Self::Clip { .. } => {
                Category::Middleware
            }
        }
    }

    /// Returns the text that history displays, or `None` for a hidden item.
    fn history_text(&self) -> Option<String> {
        match self {
            Self::Human(text) | Self::Result(text) => Some(text.clone()),
            Self::Boundary => Some("boundary".to_owned()),
            Self::Marker { summary, .. } => Some(format!("compacted {summary}")),
            Self::Undone(marker) => Some(format!("undone {marker}")),
            Self::Trace | Self::Clip { .. } => None,
        }
    }
}

type SeqTexts = Vec<(Seq, String)>;

/// A model of a thread: the list of its visible items.
#[derive(Default)]
struct HistoryModel {
    visible: Vec<(Seq, VisibleItem)>,
    last_seq: Seq,
}

/// The expected context, and the earlier contexts that undoing its compactions restores.
#[derive(Default)]
struct ExpectedContext {
    texts: SeqTexts,
    before: Vec<(Seq, SeqTexts)>,
}

impl ExpectedContext {
    fn add_text(&mut self, seq: Seq, text: &str) {
        for (_, texts) in &mut self.before {
            texts.push((seq, text.to_owned()));
        }
        self.texts.push((seq, text.to_owned()));
    }

    fn compact(&mut self, marker: Seq, (last_seq, request, summary): (Seq, Option<Seq>, &str)) {
        let mut texts = vec![(
            marker,
            format!("<earlier_conversation_summary>\n{summary}\n</earlier_conversation_summary>"),
        )];
        texts.extend(self.texts.iter().filter(|(seq, _)| Some(*seq) == request).cloned());
        let is_summary = |seq: &Seq| self.before.iter().any(|(marker, _)| marker == seq);
        texts.extend(self.texts.iter().filter(|(seq, _)| *seq > last_seq && !is_summary(seq)).cloned());
        self.before.push((marker, std::mem::replace(&mut self.texts, texts)));
    }

    /// Clips a result; undoing the compaction restores it.
    fn clip(&mut self, seq: Seq, (text, marker): (&str, Option<Seq>)) {
        let before = self.before.iter_mut().filter(|_| marker.is_none()).map(|(_, texts)| texts);
        for texts in before.chain([&mut self.texts]) {
            texts.iter_mut().filter(|(at, _)| *at == seq).for_each(|(_, whole)| *whole = text.to_owned());
        }
    }
}

impl HistoryModel {
    fn add(&mut self, what: VisibleItem) -> Seq {
        self.last_seq += 1;
        self.visible.push((self.last_seq, what));
        self.last_seq
    }

    fn keep_up_to(&mut self, seq: Seq) {
        self.visible.retain(|(at, _)| *at <= seq);
    }

    /// Computes the context by applying every visible item in order.
    fn context_account(&self) -> ExpectedContext {
        let mut account = ExpectedContext::default();
        for (seq, what) in &self.visible {
            match what {
                VisibleItem::Human(text) | VisibleItem::Result(text) => account.add_text(*seq, text),
                VisibleItem::Trace => {}
                VisibleItem::Boundary => account = ExpectedContext::default(),
                VisibleItem::Marker { last_seq, request, summary } => {
                    account.compact(*seq, (*last_seq, *request, summary));
                }
                VisibleItem::Undone(_) => account.texts = account.before.pop().unwrap().1,
                VisibleItem::Clip { seq, text, marker } => account.clip(*seq, (text, *marker)),
            }
        }
        account
    }

    fn context_texts(&self) -> Vec<String> {
        self.context_account().texts.into_iter().map(|(_, text)| text).collect()
    }

    fn history_texts(&self) -> SeqTexts {
        self.visible.iter().filter_map(|(seq, what)| Some((*seq, what.history_text()?))).collect()
    }

    /// Returns the marker in effect.
    fn marker(&self) -> Option<Seq> {
        self.context_account().before.last().map(|(marker, _)| *marker)
    }

    /// Returns the last event to compact so that `kept` messages remain, and the last human message up to that event.
    fn compaction_range(&self, kept: u8) -> Option<(Seq, Option<Seq>)> {
        let texts = self.context_account().texts;
        let compacted_before = self.visible.iter().rev().find_map(|(at, what)| match what {
            VisibleItem::Marker { last_seq, .. } if Some(*at) == self.marker() => Some(*last_seq),
            _ => None,
        });
        let messages: Vec<Seq> =
            texts.iter().map(|(seq, _)| *seq).filter(|seq| self.is_message(*seq)).collect();
        let last_seq = *messages.iter().rev().nth(kept.into())?;
        let is_human = |seq: &Seq| {
            let what = self.visible.iter().find(|(at, _)| at == seq);
            matches!(what, Some((_, VisibleItem::Human(_))))
        };
        let request = messages.iter().copied().filter(|seq| *seq <= last_seq).filter(is_human).max();
        (Some(last_seq) > compacted_before).then_some((last_seq, request))
    }

    fn is_message(&self, seq: Seq) -> bool {
        self.visible.iter().any(|(at, what)| *at == seq && what.category() == Category::Message)
    }

    fn last_result(&self) -> Option<Seq> {
        let texts = self.context_account().texts;
        let results = self.visible.iter().filter(|(_, what)| matches!(what, VisibleItem::Result(_)));
        results.map(|(seq, _)| *seq).filter(|seq| texts.iter().any(|(at, _)| at == seq)).max()
    }
}

/// Applies the mutation to the store and to the model. Returns the thread for the next mutation, which is a new one after
/// a fork.
async fn apply_mutation(
    store: &SharedStore,
    model: &mut HistoryModel,
    (thread_id, mutation): (ThreadId, &ThreadMutation),
) -> ThreadId {
    let events = match mutation {
        ThreadMutation::Messages(times) => append_messages(model, *times),
        ThreadMutation::Trace => {
            model.add(VisibleItem::Trace);
            vec![trace_event(0)]
        }
        ThreadMutation::Boundary => {
            model.add(VisibleItem::Boundary);
            vec![event(EventType::ImportedBoundary, &json!({"label": "boundary", "details": null}))]
        }
        ThreadMutation::Compaction { kept, with_request } => append_compaction(model, *kept, *with_request),
        ThreadMutation::Undo => append_undo(model),
        ThreadMutation::Clip => append_clip(model, None),
        ThreadMutation::Rewind(seq) => {
            model.keep_up_to((*seq).into());
            model.add(VisibleItem::Trace);
            rewind(&**store, thread_id, (*seq).into()).await.unwrap();
            Vec::new()
        }
        ThreadMutation::Fork(until) => {
            let fork = create(&**store).await;
            let until = until.map(Seq::from);
            commit(&**store, vec![Write::CopyEvents { from: thread_id, until, into: fork }]).await.unwrap();
            model.last_seq = until.map_or(model.last_seq, |until| until.min(model.last_seq));
            model.keep_up_to(model.last_seq);
            model.visible.retain(|(_, what)| what.category() != Category::Trace);
            return fork;
        }
    };
    append(&**store, thread_id, events).await.unwrap();
    thread_id
}

fn append_messages(model: &mut HistoryModel, times: u8) -> Vec<protocol::NewEvent> {
    let mut events = Vec::new();
    for number in 1..=times {
        let text = format!("{}-{number}", model.last_seq);
        if number > 1 && number == times {
            events.push(tool_result("c", &text));
            model.add(VisibleItem::Result(text));
        } else {
            events.push(human(&text));
            model.add(VisibleItem::Human(text));
        }
    }
    events
}

fn append_compaction(model: &mut HistoryModel, kept: u8, with_request: bool) -> Vec<protocol::NewEvent> {
    let Some((last_seq, request)) = model.compaction_range(kept) else { return Vec::new() };
    let request = request.filter(|_| with_request);
    let summary = format!("of {last_seq}");
    let mut events = vec![compaction_event((1, last_seq), request, &summary)];
    let marker = model.add(VisibleItem::Marker { last_seq, request, summary });
    events.extend(append_clip(model, Some(marker)));
    events
}

fn append_clip(model: &mut HistoryModel, marker: Option<Seq>) -> Vec<protocol::NewEvent> {
    let Some(seq) = model.last_result() else { return Vec::new() };
    let text = format!("ends of {seq} at {}", model.last_seq);
    model.add(VisibleItem::Clip { seq, text: text.clone(), marker });
    vec![clip_event(seq, &text)]
}

fn append_undo(model: &mut HistoryModel) -> Vec<protocol::NewEvent> {
    let Some(marker_seq) = model.marker() else { return Vec::new() };
    let of_marker =
        |what: &VisibleItem| matches!(what, VisibleItem::Clip { marker, .. } if *marker == Some(marker_seq));
    let clips = model.visible.iter().filter(|(_, what)| of_marker(what)).map(|(seq, _)| *seq).collect();
    model.add(VisibleItem::Undone(marker_seq));
    vec![undo_event(marker_seq, clips)]
}

/// Reads the context as the runtime does: pages from the newest event back to the context's start, and the kept request.
async fn read_context_backwards(store: &SharedStore, thread_id: ThreadId, limit: usize) -> Vec<String> {
    let categories = vec![Category::Message, Category::Middleware];
    let query = || EventQuery { categories: categories.clone(), limit, ..EventQuery::default() };
    let mut beginning = ContextOutline::default();
    let mut events: Vec<Event> = Vec::new();
    loop {
        let before = events.first().map(|event| event.seq);
        let page = store.events(thread_id, EventQuery { before, ..query() }).await.unwrap();
        beginning.scan_page(&page);
        let is_all = page.len() < limit;
        events.splice(0..0, page);
        if is_all || beginning.first_seq().is_some_and(|first| events[0].seq <= first) {
            break;
        }
    }
    let request = match beginning.request_seq() {
        Some(seq) => {
            let only = EventQuery { after: Some(seq - 1), before: Some(seq + 1), ..query() };
            store.events(thread_id, only).await.unwrap().pop()
        }
        None => None,
    };
    let mut sent = beginning.opening_messages(request.as_ref());
    sent.extend(beginning.project_messages(&events));
    sent.iter().map(|(_, message)| message.text()).collect()
}

/// The beginning of the text of an audit entry. The model has no audit entries.
const AUDIT_PREFIX: &str = "audit: ";

/// Returns the entries that the model has.
fn without_audits(mut entries: SeqTexts) -> SeqTexts {
    entries.retain(|(_, text)| !text.starts_with(AUDIT_PREFIX));
    entries
}

/// Reads the history in pages, in both directions.
async fn read_history(store: &SharedStore, thread_id: ThreadId, limit: usize) -> [SeqTexts; 2] {
    let mut forwards: SeqTexts = Vec::new();
    let mut backwards: SeqTexts = Vec::new();
    loop {
        let after_seq = Some(forwards.last().map_or(0, |(seq, _)| *seq));
        let query = HistoryQuery { after_seq, limit, ..HistoryQuery::default() };
        let page = history_page(&**store, thread_id, &query).await.unwrap();
        forwards.extend(page.entries.iter().map(entry_text));
        let before_seq = backwards.first().map(|(seq, _)| *seq);
        let query = HistoryQuery { before_seq, limit, ..HistoryQuery::default() };
        let earlier = history_page(&**store, thread_id, &query).await.unwrap();
        assert_eq!(earlier.entries.len(), page.entries.len());
        assert_eq!(earlier.has_more_before, page.has_more_after);
        backwards.splice(0..0, earlier.entries.iter().map(entry_text));
        if !page.has_more_after {
            return [forwards, backwards].map(without_audits);
        }
    }
}

fn entry_text(entry: &journal::view::HistoryEntry) -> (Seq, String) {
    let text = match &entry.item {
        HistoryItem::Message(message) => message.text(),
        HistoryItem::Boundary(boundary) => boundary.text.clone(),
        HistoryItem::Marker(marker) => format!("compacted {}", marker.summary),
        HistoryItem::Failed(failed) => format!("failed {}", failed.reason),
        HistoryItem::Undone(undone) => format!("undone {}", undone.marker_seq),
        HistoryItem::Archived(archived) => format!("archived {}", archived.summary),
        HistoryItem::Audit(audit) => format!("{AUDIT_PREFIX}{}", audit.text),
        HistoryItem::Damaged(damaged) => damaged.text.clone(),
    };
    (entry.seq, text)
}

pub async fn b1_b5_m9_after_random_operations_history_and_context_match_the_model(store: SharedStore) {
    let cases: usize = test_counts::count(15, 150);
    let mut runner = TestRunner::deterministic();
    for _ in 0..cases {
        let case = mutations().new_tree(&mut runner).unwrap().current();
        let mut thread_id = create(&*store).await;
        let mut model = HistoryModel::default();
        for mutation in &case {
            thread_id = apply_mutation(&store, &mut model, (thread_id, mutation)).await;
            let step = format!("{case:?} up to {mutation:?}");
            let events = all_events(&*store, thread_id, &[]).await;
            let visible: Vec<Seq> = model.visible.iter().map(|(seq, _)| *seq).collect();
            assert_eq!(seqs(&events), visible, "{step}");
            let expected = model.context_texts();
            let whole: Vec<String> = context(&events).iter().map(|(_, message)| message.text()).collect();
            assert_eq!(whole, expected, "{step}");
            for limit in [1, 3, 50] {
                let context = read_context_backwards(&store, thread_id, limit).await;
                assert_eq!(context, expected, "{step}, pages of {limit}");
            }
            let shown = model.history_texts();
            let read = without_audits(history(&events).iter().map(entry_text).collect());
            assert_eq!(read, shown, "{step}");
        }
        let shown = model.history_texts();
        for limit in [1, 4, 50] {
            let read = read_history(&store, thread_id, limit).await;
            assert_eq!(read, [shown.clone(), shown.clone()], "{case:?}, pages of {limit}");
        }
        check_thread(&store, thread_id, &model).await;
    }
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

/// Asserts that the counters and the first prompt of the stored thread match the model.
async fn check_thread(store: &SharedStore, thread_id: ThreadId, model: &HistoryModel) {
    let thread = store.thread(thread_id).await.unwrap().unwrap();
    let messages = model.visible.iter().filter(|(_, what)| what.category() == Category::Message).count();
    let first = model.visible.iter().find_map(|(_, what)| match what {
        VisibleItem::Human(text) => Some(text.as_str()),
        _ => None,
    });
    let stored = (thread.last_seq, thread.message_count, thread.first_prompt.as_deref());
    assert_eq!(stored, (model.last_seq, messages as u64, first));
}

/// A reader that follows new events detects every change of the context's start.
pub async fn every_change_of_the_context_start_is_visible_in_its_event(store: SharedStore) {
    let thread_id = create(&*store).await;
    let boundary = event(EventType::ImportedBoundary, &json!({"label": "b", "details": null}));
    let events = vec![
        human("one"),
        compaction_event((1, 1), None, "S"),
        clip_event(1, "o"),
        undo_event(2, Vec::new()),
        boundary,
        event(EventType::CompactionFailed, &json!({"trigger": "auto", "reason": "blank"})),
    ];
    append(&*store, thread_id, events).await.unwrap();
    let events = all_events(&*store, thread_id, &[]).await;
    let changes: Vec<bool> = events.iter().map(is_context_change).collect();
    assert_eq!(changes, [false, true, true, true, true, false]);
}
