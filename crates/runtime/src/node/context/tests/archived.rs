//! Contexts of which memory took a part over: what is sent, and how little of the thread is read for it.

use protocol::{
    ArchiveReason, CarryOver, Compaction, CompactionTrigger, CompactionUndone, CondensedSummary, Event,
    SummaryId, TurnsArchived, Usage,
};

use super::*;

fn archived(
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

fn marker((first_seq, last_seq): (Seq, Seq), last_request_seq: Option<Seq>) -> NewEvent {
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
        carry_over: CarryOver::default(),
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

fn undone(marker_seq: Seq) -> NewEvent {
    let content = CompactionUndone { marker_seq, clip_seqs: Vec::new() };
    NewEvent::new(EventType::CompactionUndone, &content, Timestamp::UNIX_EPOCH).unwrap()
}

const BUDGET: ArchiveReason = ArchiveReason::Budget;

#[tokio::test]
async fn f7_pages_before_what_memory_has_are_never_read() {
    let many = CONTEXT_PAGE_ROWS as Seq * 3;
    let mut events: Vec<NewEvent> = messages(CONTEXT_PAGE_ROWS * 3).collect();
    events.extend(messages(10));
    events.push(archived((BUDGET, None), (1, many), Some(many + 1)));
    events.extend(messages(5));
    let (texts, seqs) = read(events).await;
    assert_eq!(texts.len(), 15);
    assert_eq!(texts[0], "m0", "the first message behind what was archived");
    assert_eq!(seqs.len(), CONTEXT_FIRST_ROWS, "the newest page and no other");
}

#[tokio::test]
async fn f7_of_what_memory_went_beyond_only_the_compaction_and_the_request_are_read() {
    let many = CONTEXT_PAGE_ROWS as Seq * 3;
    let mut events: Vec<NewEvent> = messages(10).collect();
    events.push(marker((1, 8), Some(7)));
    events.extend(messages(CONTEXT_PAGE_ROWS * 3 - 11));
    events.push(archived((BUDGET, Some(11)), (9, many - 10), Some(many - 9)));
    let (texts, seqs) = read(events).await;
    assert!(texts[0].contains("Up to 8."), "{}", texts[0]);
    assert_eq!(texts[1], "m6", "the person's request that the compaction repeats");
    assert_eq!(texts.len(), 2 + 10);
    assert_eq!(seqs.len(), CONTEXT_FIRST_ROWS + 2, "the newest page, the marker, the request");
}

#[tokio::test]
async fn m9_what_a_compaction_condensed_comes_back_without_what_memory_has() {
    let mut events: Vec<NewEvent> = messages(20).collect();
    events.push(marker((1, 10), None));
    events.push(archived((BUDGET, Some(21)), (11, 14), Some(15)));
    events.push(undone(21));
    let (texts, _) = read(events).await;
    let expected: Vec<String> = (0..10).chain(14..20).map(|at| format!("m{at}")).collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn f8_what_memory_keeps_of_a_compaction_changes_nothing_in_the_context() {
    let mut events: Vec<NewEvent> = messages(20).collect();
    events.push(marker((1, 10), Some(9)));
    let (before, _) = read(events.clone()).await;
    events.push(archived((ArchiveReason::Compaction, Some(21)), (1, 10), None));
    assert_eq!(read(events.clone()).await.0, before);
    events.push(undone(21));
    assert_eq!(read(events).await.0, (0..20).map(|at| format!("m{at}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn f7_a_kept_context_lets_go_of_what_memory_takes_over() {
    let (store, thread_id) = journal_of(messages(8).collect()).await;
    let contexts = Contexts::default();
    assert_eq!(texts(&contexts, &store, thread_id).await.len(), 8);
    add(&store, thread_id, vec![archived((BUDGET, None), (1, 4), Some(5))]).await;
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m4", "m5", "m6", "m7"]);
    add(&store, thread_id, vec![archived((ArchiveReason::Request, None), (6, 7), None)]).await;
    add(&store, thread_id, messages(1).collect()).await;
    assert_eq!(texts(&contexts, &store, thread_id).await, ["m4", "m7", "m0"]);
}

/// A source of numbers that look random, the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % max
    }
}

/// A thread that people, compactions and memory change in turns, and what is left of it by plain bookkeeping.
struct History {
    numbers: Numbers,
    events: Vec<Event>,
    /// Compactions in effect, each with what had been sent before it.
    markers: Vec<(Seq, Vec<Seq>)>,
    /// The messages that are sent as they are.
    sent: Vec<Seq>,
    /// The messages that memory took over.
    archived: Vec<Seq>,
}

impl History {
    fn add(&mut self, event: NewEvent) -> Seq {
        let seq = self.events.len() as Seq + 1;
        self.events.push(Event::stored(event, ThreadId::generate(), seq));
        seq
    }

    fn say(&mut self) {
        for _ in 0..1 + self.numbers.below(CONTEXT_PAGE_ROWS as u64 / 3) {
            let seq = self.add(messages(1).next().unwrap());
            self.sent.push(seq);
        }
    }

    /// Returns how many of what is sent may go: the newest stays.
    fn some(&mut self) -> Option<usize> {
        let most = self.sent.len().checked_sub(1).filter(|most| *most > 0)?;
        Some(1 + self.numbers.below(most as u64) as usize)
    }

    fn condense(&mut self) {
        let Some(count) = self.some() else { return };
        let before = self.sent.clone();
        let gone: Vec<Seq> = self.sent.drain(..count).collect();
        let seq = self.add(marker((gone[0], gone[count - 1]), None));
        self.markers.push((seq, before));
    }

    fn take_back(&mut self) {
        let Some((marker, before)) = self.markers.pop() else { return };
        self.add(undone(marker));
        let newest = before.last().copied().unwrap_or(0);
        let since = self.sent.iter().copied().filter(|seq| *seq > newest);
        let back = before.into_iter().filter(|seq| !self.archived.contains(seq));
        self.sent = back.chain(since).collect();
    }

    fn archive(&mut self) {
        let Some(count) = self.some() else { return };
        let marker = self.markers.last().map(|(seq, _)| *seq);
        let is_oldest = self.numbers.below(4) > 0;
        let from = if is_oldest { 0 } else { self.sent.len() - 1 - count };
        let gone: Vec<Seq> = self.sent.drain(from..from + count).collect();
        let last = gone[count - 1];
        let context_from = (from == 0).then_some(last + 1);
        // What is said between the plan and its end changes nothing.
        if self.numbers.below(2) == 0 {
            self.say();
        }
        self.add(archived((BUDGET, marker), (gone[0], last), context_from));
        self.archived.extend(gone);
    }
}

fn history(seed: u64, steps: usize) -> History {
    let numbers = Numbers(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut history =
        History { numbers, events: Vec::new(), markers: Vec::new(), sent: Vec::new(), archived: Vec::new() };
    for _ in 0..steps {
        match history.numbers.below(9) {
            0..=3 => history.say(),
            4 | 5 => history.condense(),
            6 => history.take_back(),
            _ => history.archive(),
        }
    }
    history.say();
    history
}

/// Answers a query as the journal does.
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
async fn f7_e10_whatever_was_condensed_archived_and_taken_back_the_context_is_what_is_left() {
    let mut archives = 0;
    for seed in 0..400 {
        let history = history(seed, 24);
        let context = whole(async |query| Ok(page_of(&history.events, &query))).await.unwrap();
        let seqs = &context.seqs[context.opening..];
        assert_eq!(seqs, history.sent, "thread {seed}");
        let marker = context.beginning.compaction().map(|(seq, _)| seq);
        assert_eq!(marker, history.markers.last().map(|(seq, _)| *seq), "thread {seed}");
        let at_once: Vec<Seq> =
            journal::view::context(&history.events).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(*context.seqs, at_once, "thread {seed}");
        archives += usize::from(!history.archived.is_empty());
    }
    assert!(archives > 300, "{archives} are too few to say anything");
}
