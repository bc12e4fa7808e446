//! Whatever happens to a thread, its history is what was said and its context is what a plain account of it says.

use journal::view::context::{Beginning, changes_beginning};
use journal::view::{HistoryItem, context, history};
use journal::{EventQuery, HealthDepth, HistoryQuery, Write, history_page};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use protocol::{Category, Event, EventType, Seq, ThreadId};
use serde_json::json;

use crate::conformance::Subject;
use crate::conformance::fixtures::{
    all_events, append, clipped, commit, compacted, create, fact, human, result, rewind, seqs, trace, undone,
};

/// What can happen to a thread, as far as its history and its context are concerned.
#[derive(Debug, Clone)]
enum Happening {
    /// So many messages, the last of them a result.
    Said(u8),
    Traced,
    Boundary,
    /// All but the last so many messages of the context are condensed, and the last result of those is clipped.
    Condensed {
        kept: u8,
        with_request: bool,
    },
    /// The compaction in effect is taken back, if there is one.
    Undone,
    /// The last result of the context is clipped.
    Clipped,
    Rewound(u8),
    Forked(Option<u8>),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let condensed =
        (0..4_u8, any::<bool>()).prop_map(|(kept, with_request)| Happening::Condensed { kept, with_request });
    let happening = prop_oneof![
        6 => (1..5_u8).prop_map(Happening::Said),
        1 => Just(Happening::Traced),
        1 => Just(Happening::Boundary),
        4 => condensed,
        2 => Just(Happening::Undone),
        1 => Just(Happening::Clipped),
        2 => (0..30_u8).prop_map(Happening::Rewound),
        1 => proptest::option::of(0..30_u8).prop_map(Happening::Forked),
    ];
    proptest::collection::vec(happening, 1..16)
}

/// What is visible of a thread.
#[derive(Debug, Clone)]
enum What {
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
    /// A result is clipped; with a compaction, if a marker is named.
    Clip {
        seq: Seq,
        text: String,
        marker: Option<Seq>,
    },
}

impl What {
    const fn category(&self) -> Category {
        match self {
            Self::Human(_) | Self::Result(_) => Category::Message,
            Self::Trace => Category::Trace,
            Self::Boundary | Self::Marker { .. } | Self::Undone(_) | Self::Clip { .. } => {
                Category::Middleware
            }
        }
    }

    /// Returns what people are shown of it.
    fn shown(&self) -> Option<String> {
        match self {
            Self::Human(text) | Self::Result(text) => Some(text.clone()),
            Self::Boundary => Some("boundary".to_owned()),
            Self::Marker { summary, .. } => Some(format!("condensed {summary}")),
            Self::Undone(marker) => Some(format!("undone {marker}")),
            Self::Trace | Self::Clip { .. } => None,
        }
    }
}

type Texts = Vec<(Seq, String)>;

/// A thread as a list of what is visible in it.
#[derive(Default)]
struct Model {
    visible: Vec<(Seq, What)>,
    last_seq: Seq,
}

/// A context, and those that undoing its compactions would give back.
#[derive(Default)]
struct Account {
    texts: Texts,
    before: Vec<(Seq, Texts)>,
}

impl Account {
    fn say(&mut self, seq: Seq, text: &str) {
        for (_, texts) in &mut self.before {
            texts.push((seq, text.to_owned()));
        }
        self.texts.push((seq, text.to_owned()));
    }

    fn condense(&mut self, marker: Seq, (last_seq, request, summary): (Seq, Option<Seq>, &str)) {
        let mut texts = vec![(
            marker,
            format!("<earlier_conversation_summary>\n{summary}\n</earlier_conversation_summary>"),
        )];
        texts.extend(self.texts.iter().filter(|(seq, _)| Some(*seq) == request).cloned());
        let is_summary = |seq: &Seq| self.before.iter().any(|(marker, _)| marker == seq);
        texts.extend(self.texts.iter().filter(|(seq, _)| *seq > last_seq && !is_summary(seq)).cloned());
        self.before.push((marker, std::mem::replace(&mut self.texts, texts)));
    }

    /// What is clipped with a compaction is whole again when that is taken back.
    fn clip(&mut self, seq: Seq, (text, marker): (&str, Option<Seq>)) {
        let before = self.before.iter_mut().filter(|_| marker.is_none()).map(|(_, texts)| texts);
        for texts in before.chain([&mut self.texts]) {
            texts.iter_mut().filter(|(at, _)| *at == seq).for_each(|(_, whole)| *whole = text.to_owned());
        }
    }
}

impl Model {
    fn add(&mut self, what: What) -> Seq {
        self.last_seq += 1;
        self.visible.push((self.last_seq, what));
        self.last_seq
    }

    fn keep(&mut self, seq: Seq) {
        self.visible.retain(|(at, _)| *at <= seq);
    }

    /// Tells from the beginning what happened to the context.
    fn account(&self) -> Account {
        let mut account = Account::default();
        for (seq, what) in &self.visible {
            match what {
                What::Human(text) | What::Result(text) => account.say(*seq, text),
                What::Trace => {}
                What::Boundary => account = Account::default(),
                What::Marker { last_seq, request, summary } => {
                    account.condense(*seq, (*last_seq, *request, summary));
                }
                What::Undone(_) => account.texts = account.before.pop().unwrap().1,
                What::Clip { seq, text, marker } => account.clip(*seq, (text, *marker)),
            }
        }
        account
    }

    fn context(&self) -> Vec<String> {
        self.account().texts.into_iter().map(|(_, text)| text).collect()
    }

    fn shown(&self) -> Texts {
        self.visible.iter().filter_map(|(seq, what)| Some((*seq, what.shown()?))).collect()
    }

    /// Returns the marker in effect.
    fn marker(&self) -> Option<Seq> {
        self.account().before.last().map(|(marker, _)| *marker)
    }

    /// Returns the last event to condense so that `kept` are left, and the last human message up to there.
    fn cut(&self, kept: u8) -> Option<(Seq, Option<Seq>)> {
        let texts = self.account().texts;
        let condensed_before = self.visible.iter().rev().find_map(|(at, what)| match what {
            What::Marker { last_seq, .. } if Some(*at) == self.marker() => Some(*last_seq),
            _ => None,
        });
        let said: Vec<Seq> = texts.iter().map(|(seq, _)| *seq).filter(|seq| self.is_message(*seq)).collect();
        let last_seq = *said.iter().rev().nth(kept.into())?;
        let is_human = |seq: &Seq| {
            let what = self.visible.iter().find(|(at, _)| at == seq);
            matches!(what, Some((_, What::Human(_))))
        };
        let request = said.iter().copied().filter(|seq| *seq <= last_seq).filter(is_human).max();
        (Some(last_seq) > condensed_before).then_some((last_seq, request))
    }

    fn is_message(&self, seq: Seq) -> bool {
        self.visible.iter().any(|(at, what)| *at == seq && what.category() == Category::Message)
    }

    fn last_result(&self) -> Option<Seq> {
        let texts = self.account().texts;
        let results = self.visible.iter().filter(|(_, what)| matches!(what, What::Result(_)));
        results.map(|(seq, _)| *seq).filter(|seq| texts.iter().any(|(at, _)| at == seq)).max()
    }
}

/// Does it in the store and in the model; returns the thread to go on with.
async fn happen(
    store: &Subject,
    model: &mut Model,
    (thread_id, happening): (ThreadId, &Happening),
) -> ThreadId {
    let events = match happening {
        Happening::Said(times) => say(model, *times),
        Happening::Traced => {
            model.add(What::Trace);
            vec![trace(0)]
        }
        Happening::Boundary => {
            model.add(What::Boundary);
            vec![fact(EventType::ImportedBoundary, &json!({"label": "boundary", "details": null}))]
        }
        Happening::Condensed { kept, with_request } => condense(model, *kept, *with_request),
        Happening::Undone => undo(model),
        Happening::Clipped => clip(model, None),
        Happening::Rewound(seq) => {
            model.keep((*seq).into());
            model.add(What::Trace);
            rewind(&**store, thread_id, (*seq).into()).await.unwrap();
            Vec::new()
        }
        Happening::Forked(until) => {
            let fork = create(&**store).await;
            let until = until.map(Seq::from);
            commit(&**store, vec![Write::CopyEvents { from: thread_id, until, into: fork }]).await.unwrap();
            model.last_seq = until.map_or(model.last_seq, |until| until.min(model.last_seq));
            model.keep(model.last_seq);
            model.visible.retain(|(_, what)| what.category() != Category::Trace);
            return fork;
        }
    };
    append(&**store, thread_id, events).await.unwrap();
    thread_id
}

fn say(model: &mut Model, times: u8) -> Vec<protocol::NewEvent> {
    let mut events = Vec::new();
    for number in 1..=times {
        let text = format!("{}-{number}", model.last_seq);
        if number > 1 && number == times {
            events.push(result("c", &text));
            model.add(What::Result(text));
        } else {
            events.push(human(&text));
            model.add(What::Human(text));
        }
    }
    events
}

fn condense(model: &mut Model, kept: u8, with_request: bool) -> Vec<protocol::NewEvent> {
    let Some((last_seq, request)) = model.cut(kept) else { return Vec::new() };
    let request = request.filter(|_| with_request);
    let summary = format!("of {last_seq}");
    let mut events = vec![compacted((1, last_seq), request, &summary)];
    let marker = model.add(What::Marker { last_seq, request, summary });
    events.extend(clip(model, Some(marker)));
    events
}

fn clip(model: &mut Model, marker: Option<Seq>) -> Vec<protocol::NewEvent> {
    let Some(seq) = model.last_result() else { return Vec::new() };
    let text = format!("ends of {seq} at {}", model.last_seq);
    model.add(What::Clip { seq, text: text.clone(), marker });
    vec![clipped(seq, &text)]
}

fn undo(model: &mut Model) -> Vec<protocol::NewEvent> {
    let Some(marker_seq) = model.marker() else { return Vec::new() };
    let of_marker = |what: &What| matches!(what, What::Clip { marker, .. } if *marker == Some(marker_seq));
    let clips = model.visible.iter().filter(|(_, what)| of_marker(what)).map(|(seq, _)| *seq).collect();
    model.add(What::Undone(marker_seq));
    vec![undone(marker_seq, clips)]
}

/// Reads the context as the runtime does: page by page from the newest back to where it begins, and the request.
async fn context_read_backwards(store: &Subject, thread_id: ThreadId, limit: usize) -> Vec<String> {
    let categories = vec![Category::Message, Category::Middleware];
    let query = || EventQuery { categories: categories.clone(), limit, ..EventQuery::default() };
    let mut beginning = Beginning::default();
    let mut events: Vec<Event> = Vec::new();
    loop {
        let before = events.first().map(|event| event.seq);
        let page = store.events(thread_id, EventQuery { before, ..query() }).await.unwrap();
        beginning.look(&page);
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
    let mut sent = beginning.opening(request.as_ref());
    sent.extend(beginning.project(&events));
    sent.iter().map(|(_, message)| message.text()).collect()
}

/// Reads the history in pages, in both directions.
async fn history_read(store: &Subject, thread_id: ThreadId, limit: usize) -> [Texts; 2] {
    let mut forwards: Texts = Vec::new();
    let mut backwards: Texts = Vec::new();
    loop {
        let after_seq = Some(forwards.last().map_or(0, |(seq, _)| *seq));
        let query = HistoryQuery { after_seq, limit, ..HistoryQuery::default() };
        let page = history_page(&**store, thread_id, &query).await.unwrap();
        forwards.extend(page.entries.iter().map(told));
        let before_seq = backwards.first().map(|(seq, _)| *seq);
        let query = HistoryQuery { before_seq, limit, ..HistoryQuery::default() };
        let earlier = history_page(&**store, thread_id, &query).await.unwrap();
        assert_eq!(earlier.entries.len(), page.entries.len());
        assert_eq!(earlier.has_more_before, page.has_more_after);
        backwards.splice(0..0, earlier.entries.iter().map(told));
        if !page.has_more_after {
            return [forwards, backwards];
        }
    }
}

fn told(entry: &journal::view::HistoryEntry) -> (Seq, String) {
    let text = match &entry.what {
        HistoryItem::Message(message) => message.text(),
        HistoryItem::Boundary(boundary) => boundary.text.clone(),
        HistoryItem::Marker(marker) => format!("condensed {}", marker.summary),
        HistoryItem::Failed(failed) => format!("failed {}", failed.reason),
        HistoryItem::Undone(undone) => format!("undone {}", undone.marker_seq),
        HistoryItem::Archived(archived) => format!("archived {}", archived.summary),
    };
    (entry.seq, text)
}

pub async fn b1_b5_m9_whatever_happens_history_is_complete_and_the_context_is_what_was_left(store: Subject) {
    const CASES: usize = 150;
    let mut runner = TestRunner::deterministic();
    for _ in 0..CASES {
        let case = happenings().new_tree(&mut runner).unwrap().current();
        let mut thread_id = create(&*store).await;
        let mut model = Model::default();
        for happening in &case {
            thread_id = happen(&store, &mut model, (thread_id, happening)).await;
            let told_case = format!("{case:?} up to {happening:?}");
            let events = all_events(&*store, thread_id, &[]).await;
            let visible: Vec<Seq> = model.visible.iter().map(|(seq, _)| *seq).collect();
            assert_eq!(seqs(&events), visible, "{told_case}");
            let expected = model.context();
            let whole: Vec<String> = context(&events).iter().map(|(_, message)| message.text()).collect();
            assert_eq!(whole, expected, "{told_case}");
            for limit in [1, 3, 50] {
                let context = context_read_backwards(&store, thread_id, limit).await;
                assert_eq!(context, expected, "{told_case}, pages of {limit}");
            }
            let shown = model.shown();
            assert_eq!(history(&events).iter().map(told).collect::<Texts>(), shown, "{told_case}");
        }
        let shown = model.shown();
        for limit in [1, 4, 50] {
            let read = history_read(&store, thread_id, limit).await;
            assert_eq!(read, [shown.clone(), shown.clone()], "{case:?}, pages of {limit}");
        }
        check_thread(&store, thread_id, &model).await;
    }
    assert_eq!(store.health(HealthDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

async fn check_thread(store: &Subject, thread_id: ThreadId, model: &Model) {
    let thread = store.thread(thread_id).await.unwrap().unwrap();
    let messages = model.visible.iter().filter(|(_, what)| what.category() == Category::Message).count();
    let first = model.visible.iter().find_map(|(_, what)| match what {
        What::Human(text) => Some(text.as_str()),
        _ => None,
    });
    let told = (thread.last_seq, thread.message_count, thread.first_prompt.as_deref());
    assert_eq!(told, (model.last_seq, messages as u64, first));
}

/// Following what is new sees every change of where the context begins.
pub async fn what_changes_a_beginning_is_told_by_its_event(store: Subject) {
    let thread_id = create(&*store).await;
    let boundary = fact(EventType::ImportedBoundary, &json!({"label": "b", "details": null}));
    let events = vec![
        human("one"),
        compacted((1, 1), None, "S"),
        clipped(1, "o"),
        undone(2, Vec::new()),
        boundary,
        fact(EventType::CompactionFailed, &json!({"trigger": "auto", "reason": "blank"})),
    ];
    append(&*store, thread_id, events).await.unwrap();
    let events = all_events(&*store, thread_id, &[]).await;
    let changes: Vec<bool> = events.iter().map(changes_beginning).collect();
    assert_eq!(changes, [false, true, true, true, true, false]);
}
