//! Tests of contexts of which memory has archived a part: which messages are sent, and how few events are read.

use protocol::{
    ArchiveReason, CarriedFacts, Compaction, CompactionTrigger, CompactionUndone, CondensedSummary, Event,
    SummaryId, TurnsArchived, Usage,
};

use super::*;

fn turns_archived_event(
    (reason, marker_seq): (ArchiveReason, Option<Seq>),
    (first_seq, last_seq): (Seq, Seq),
    context_from: Option<Seq>,
) -> NewEvent {
    let content = TurnsArchived {
        schema_version: protocol::SCHEMA_VERSION,
        summary_id: SummaryId::generate(),
        reason,
        first_seq,
        last_seq,
        context_from,
        turn_count: 2,
        turn_range_start: 1,
        turn_range_end: 2,
        summary: "What was before.".to_owned(),
        model: "extractive".to_owned(),
        withheld: 0,
        usage: Usage::default(),
        marker_seq,
    };
    NewEvent::new(EventType::TurnsArchived, &content, Timestamp::UNIX_EPOCH).unwrap()
}

fn compaction_event((first_seq, last_seq): (Seq, Seq), last_request_seq: Option<Seq>) -> NewEvent {
    let content = Compaction {
        schema_version: protocol::SCHEMA_VERSION,
        trigger: CompactionTrigger::Auto,
        first_seq,
        last_seq,
        replaced_count: 1,
        kept_count: 1,
        tokens_before: 0,
        tokens_after: 0,
        model: String::new(),
        summary: format!("Up to {last_seq}."),
        sections: CondensedSummary::default(),
        carried: CarriedFacts::default(),
        last_request_seq,
        previous_seq: None,
        focus: None,
        duration_ms: 0,
        step: 0,
        usage: Usage::default(),
        prompt_sha256: None,
    };
    NewEvent::new(EventType::Compacted, &content, Timestamp::UNIX_EPOCH).unwrap()
}

fn compaction_undone_event(marker_seq: Seq) -> NewEvent {
    let content = CompactionUndone { marker_seq, clip_seqs: Vec::new() };
    NewEvent::new(EventType::CompactionUndone, &content, Timestamp::UNIX_EPOCH).unwrap()
}

const BUDGET: ArchiveReason = ArchiveReason::Budget;

#[tokio::test]
async fn f7_pages_before_archived_messages_are_never_read() {
    let many = CONTEXT_PAGE_ROWS as Seq * 3;
    let mut events: Vec<NewEvent> = messages(CONTEXT_PAGE_ROWS * 3).collect();
    events.extend(messages(10));
    events.push(turns_archived_event((BUDGET, None), (1, many), Some(many + 1)));
    events.extend(messages(5));
    let (texts, seqs) = read(events).await;
    assert_eq!(texts.len(), 15);
    assert_eq!(texts[0], "m0", "the first message after the archived ones");
    assert_eq!(seqs.len(), CONTEXT_FIRST_ROWS, "the newest page and no other");
}

#[tokio::test]
async fn f7_before_archived_messages_only_the_compaction_and_the_request_are_read() {
    let many = CONTEXT_PAGE_ROWS as Seq * 3;
    let mut events: Vec<NewEvent> = messages(10).collect();
    events.push(compaction_event((1, 8), Some(7)));
    events.extend(messages(CONTEXT_PAGE_ROWS * 3 - 11));
    events.push(turns_archived_event((BUDGET, Some(11)), (9, many - 10), Some(many - 9)));
    let (texts, seqs) = read(events).await;
    assert!(texts[0].contains("Up to 8."), "{}", texts[0]);
    assert_eq!(texts[1], "m6", "the person's request that the compaction repeats");
    assert_eq!(texts.len(), 2 + 10);
    assert_eq!(seqs.len(), CONTEXT_FIRST_ROWS + 2, "the newest page, the compaction, the request");
}

#[tokio::test]
async fn m9_undoing_a_compaction_restores_all_but_archived_messages() {
    let mut events: Vec<NewEvent> = messages(20).collect();
    events.push(compaction_event((1, 10), None));
    events.push(turns_archived_event((BUDGET, Some(21)), (11, 14), Some(15)));
    events.push(compaction_undone_event(21));
    let (texts, _) = read(events).await;
    let expected: Vec<String> = (0..10).chain(14..20).map(|index| format!("m{index}")).collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn f8_archiving_compacted_messages_does_not_change_the_context() {
    let mut events: Vec<NewEvent> = messages(20).collect();
    events.push(compaction_event((1, 10), Some(9)));
    let (before, _) = read(events.clone()).await;
    events.push(turns_archived_event((ArchiveReason::Compaction, Some(21)), (1, 10), None));
    assert_eq!(read(events.clone()).await.0, before);
    events.push(compaction_undone_event(21));
    assert_eq!(read(events).await.0, (0..20).map(|index| format!("m{index}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn f7_a_cached_context_drops_archived_messages() {
    let (store, thread_id) = journal_with(messages(8).collect()).await;
    let contexts = ContextCache::default();
    assert_eq!(texts(&contexts, &store, thread_id).await.len(), 8);
    append_events(&store, thread_id, vec![turns_archived_event((BUDGET, None), (1, 4), Some(5))]).await;
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m4", "m5", "m6", "m7"]);
    append_events(
        &store,
        thread_id,
        vec![turns_archived_event((ArchiveReason::Request, None), (6, 7), None)],
    )
    .await;
    append_events(&store, thread_id, messages(1).collect()).await;
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m4", "m7", "m0"]);
}

/// A deterministic pseudorandom generator (SplitMix64).
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % max
    }
}

/// A model of a thread that people, compactions and memory change in turns. It tracks the expected context by
/// plain bookkeeping.
struct JournalModel {
    numbers: SeededNumbers,
    events: Vec<Event>,
    /// The compactions in effect, each with the messages that were sent before it.
    markers: Vec<(Seq, Vec<Seq>)>,
    /// The messages that are sent unchanged.
    sent: Vec<Seq>,
    /// The messages that memory has archived.
    archived: Vec<Seq>,
}

impl JournalModel {
    fn add(&mut self, event: NewEvent) -> Seq {
        let seq = self.events.len() as Seq + 1;
        self.events.push(Event::from_new(event, ThreadId::generate(), seq));
        seq
    }

    fn append_message(&mut self) {
        for _ in 0..1 + self.numbers.below(CONTEXT_PAGE_ROWS as u64 / 3) {
            let seq = self.add(messages(1).next().unwrap());
            self.sent.push(seq);
        }
    }

    /// Returns a random number of messages to remove from the start; the newest message always stays.
    fn random_index(&mut self) -> Option<usize> {
        let most = self.sent.len().checked_sub(1).filter(|most| *most > 0)?;
        Some(1 + self.numbers.below(most as u64) as usize)
    }

    fn compact(&mut self) {
        let Some(count) = self.random_index() else { return };
        let before = self.sent.clone();
        let removed: Vec<Seq> = self.sent.drain(..count).collect();
        let seq = self.add(compaction_event((removed[0], removed[count - 1]), None));
        self.markers.push((seq, before));
    }

    fn undo_compaction(&mut self) {
        let Some((marker, before)) = self.markers.pop() else { return };
        self.add(compaction_undone_event(marker));
        let newest = before.last().copied().unwrap_or(0);
        let since = self.sent.iter().copied().filter(|seq| *seq > newest);
        let restored = before.into_iter().filter(|seq| !self.archived.contains(seq));
        self.sent = restored.chain(since).collect();
    }

    fn archive(&mut self) {
        let Some(count) = self.random_index() else { return };
        let marker = self.markers.last().map(|(seq, _)| *seq);
        let is_oldest = self.numbers.below(4) > 0;
        let from = if is_oldest { 0 } else { self.sent.len() - 1 - count };
        let removed: Vec<Seq> = self.sent.drain(from..from + count).collect();
        let last = removed[count - 1];
        let context_from = (from == 0).then_some(last + 1);
        // Messages that arrive between the plan and its end change nothing.
        if self.numbers.below(2) == 0 {
            self.append_message();
        }
        self.add(turns_archived_event((BUDGET, marker), (removed[0], last), context_from));
        self.archived.extend(removed);
    }
}

fn history(seed: u64, steps: usize) -> JournalModel {
    let numbers = SeededNumbers(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut history = JournalModel {
        numbers,
        events: Vec::new(),
        markers: Vec::new(),
        sent: Vec::new(),
        archived: Vec::new(),
    };
    for _ in 0..steps {
        match history.numbers.below(9) {
            0..=3 => history.append_message(),
            4 | 5 => history.compact(),
            6 => history.undo_compaction(),
            _ => history.archive(),
        }
    }
    history.append_message();
    history
}

/// Returns the events of a query, as the journal would.
fn page_of(events: &[Event], query: &EventQuery) -> Vec<Event> {
    let after = query.after.map_or(0, |after| after as usize);
    let before = query.before.map_or(events.len(), |before| before as usize - 1).min(events.len());
    let range = &events[after.min(before)..before];
    match query.after {
        Some(_) => range.iter().take(query.limit).cloned().collect(),
        None => range[range.len().saturating_sub(query.limit)..].to_vec(),
    }
}

#[tokio::test]
async fn f7_e10_after_any_compactions_archives_and_undos_the_context_has_the_remaining_messages() {
    let mut archives = 0;
    for seed in 0..400 {
        let history = history(seed, 24);
        let context = build_context(async |query| Ok(page_of(&history.events, &query))).await.unwrap();
        let seqs = &context.seqs[context.summary_len..];
        assert_eq!(seqs, history.sent, "thread {seed}");
        let marker = context.beginning.compaction().map(|(seq, _)| seq);
        assert_eq!(marker, history.markers.last().map(|(seq, _)| *seq), "thread {seed}");
        let from_all_events: Vec<Seq> =
            journal::view::context(&history.events).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(*context.seqs, from_all_events, "thread {seed}");
        archives += usize::from(!history.archived.is_empty());
    }
    assert!(archives > 300, "{archives} are too few to be conclusive");
}
