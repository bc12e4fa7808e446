//! The order of the hits of a search, in journals of a few threads.

use journal::{IndexHitKind, SearchUnit};
use memory::{SearchHitSource, SearchRequest, search};
use protocol::{Message, Seq, ThreadId};

use crate::recall::{RecallFixture, tool_result};

/// A conversation of which every question of these tests finds more than one message.
const LINES: [&str; 10] = [
    "Ada: Which port does the staging server use?",
    "Bob: It is 8443, as I said",
    "Ada: The server of the office is slow",
    "Bob: I moved to Lisbon because of the weather",
    "Ada: Nice! Did you find a flat there?",
    "Bob: A small one, close to the river",
    "Ada: The weather in Lisbon must be mild",
    "Bob: I bought the bike three weeks ago",
    "Ada: What a bike! How many gears has the bike?",
    "Bob: It has seven gears",
];

/// Returns a journal with a thread of [`LINES`], said in turn by the user and the assistant.
async fn conversation() -> (RecallFixture, ThreadId) {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let message = |(index, line): (usize, &str)| match index % 2 {
        0 => Message::human(line),
        _ => Message::ai(line),
    };
    journal.append_messages(thread_id, 0, LINES.into_iter().enumerate().map(message)).await;
    (journal, thread_id)
}

/// Searches, and returns the thread and the seq of each message that was found, best first.
async fn find(journal: &RecallFixture, request: SearchRequest) -> Vec<(ThreadId, Seq)> {
    let results = search(&*journal.store, &request).await.unwrap();
    let location = |source: &SearchHitSource| match source {
        SearchHitSource::Message { thread_id, seq, .. } => Some((*thread_id, *seq)),
        SearchHitSource::Summary { .. } | SearchHitSource::Handoff { .. } | SearchHitSource::Item { .. } => {
            None
        }
    };
    results.hits.iter().filter_map(|hit| location(&hit.source)).collect()
}

/// Searches for a text, and returns the seqs of the messages that were found, best first.
async fn find_seqs(journal: &RecallFixture, text: &str) -> Vec<Seq> {
    find(journal, SearchRequest::new(text)).await.into_iter().map(|(_, seq)| seq).collect()
}

#[tokio::test]
async fn a_sentence_finds_the_message_that_contains_it_before_tool_output() {
    let journal = RecallFixture::new();
    let sentence = "the retry limit is five and not three";
    let spoken = journal.create_thread(None).await;
    let long = format!(
        "{} We agreed: The retry limit\nis five and not three. {}",
        "Some words. ".repeat(400),
        "More."
    );
    journal.append_messages(spoken, 0, [Message::human("hello"), Message::ai(long)]).await;
    for hours in 1..30 {
        let other = journal.create_thread(None).await;
        let output = tool_result("run", &format!("{sentence}\n{sentence}"));
        let near = Message::ai("retry limit: five, retry limit: three, retry, limit");
        journal.append_messages(other, hours, [near, output]).await;
    }
    let hits = find(&journal, SearchRequest::new(sentence)).await;
    assert_eq!(hits[0], (spoken, 2));
    assert_eq!(hits.len(), 10);
}

#[tokio::test]
async fn people_and_models_rank_above_tool_output_unless_it_is_asked_for() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let outputs = (0..4).map(|_| tool_result("run", "error: heron nest overflow in the parser"));
    let outputs: Vec<Message> = outputs.collect();
    journal.append_messages(thread_id, 5, outputs).await;
    let other = journal.create_thread(None).await;
    journal.append_messages(other, 0, [Message::ai("The heron nest overflow is a bug of the parser")]).await;
    for text in ["heron nest overflow parser", "overflow"] {
        assert_eq!(find(&journal, SearchRequest::new(text)).await[0], (other, 1), "{text}");
    }
    let asked = "the command output with heron nest overflow";
    assert_eq!(find(&journal, SearchRequest::new(asked)).await[0].0, thread_id);
}

#[tokio::test]
async fn an_answer_ranks_above_its_question() {
    let (journal, _) = conversation().await;
    assert_eq!(find_seqs(&journal, "what gears has the bike").await[0], 10);
    assert_eq!(
        find_seqs(&journal, "bike").await,
        [9, 8],
        "a single word has no answer: the newest message is first"
    );
}

#[tokio::test]
async fn a_question_for_a_time_a_number_or_a_speaker_finds_the_message_with_one() {
    let (journal, _) = conversation().await;
    assert_eq!(find_seqs(&journal, "When was the bike bought?").await[0], 8);
    assert_eq!(find_seqs(&journal, "How many gears has it?").await[0], 10);
    assert_eq!(find_seqs(&journal, "What does Bob say of the weather in Lisbon?").await[0], 4);
    assert_eq!(find_seqs(&journal, "What does Ada say of the weather in Lisbon?").await[0], 7);
}

#[tokio::test]
async fn a_question_that_names_a_date_finds_messages_of_that_date() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    for day in 0..6 {
        journal.append_messages(thread_id, day * 24, [Message::human("We met the heron at the river")]).await;
    }
    assert_eq!(find_seqs(&journal, "who met the heron on 3 January 1970").await[0], 3);
}

#[tokio::test]
async fn passages_do_not_overlap_and_rank_by_all_their_messages() {
    let journal = RecallFixture::new();
    let (dense, single) = (journal.create_thread(None).await, journal.create_thread(None).await);
    let lines = ["a heron stood there", "what colour", "a heron of grey", "yes", "quiet", "quiet", "grey"];
    journal.append_messages(dense, 0, lines.map(Message::human)).await;
    journal.append_messages(single, 1, [Message::human("heron of grey")]).await;
    let request = SearchRequest { unit: SearchUnit::Passage, ..SearchRequest::new("heron grey") };
    let hits = find(&journal, request).await;
    let of_dense: Vec<Seq> = hits.iter().filter(|(id, _)| *id == dense).map(|(_, seq)| *seq).collect();
    assert_eq!(of_dense, [2, 7], "the middle of a passage need not match, and each match is in one passage");
    assert!(hits.contains(&(single, 1)));
}

#[tokio::test]
async fn a_search_gives_the_same_order_every_time() {
    let (journal, thread_id) = conversation().await;
    for hours in 1..60 {
        journal.append_messages(thread_id, hours, [Message::human("the weather in Lisbon is mild")]).await;
    }
    for unit in [SearchUnit::Message, SearchUnit::Passage] {
        let request = || SearchRequest { unit, ..SearchRequest::new("is the weather in Lisbon mild") };
        let first = find(&journal, request()).await;
        assert_eq!(first.len(), 10);
        for _ in 0..5 {
            assert_eq!(find(&journal, request()).await, first);
        }
    }
}

#[tokio::test]
async fn a_search_finds_only_messages_with_a_word_of_the_query() {
    let (journal, _) = conversation().await;
    let request = SearchRequest { kinds: vec![IndexHitKind::Message], ..SearchRequest::new("Lisbon river") };
    let mut seqs: Vec<Seq> = find(&journal, request).await.into_iter().map(|(_, seq)| seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, [4, 6, 7]);
}
