//! The hits of recall and their order.

use jiff::Timestamp;
use journal::Write;
use memory::{MessageFilter, RECALL_TOKENS_MAX, RecallError, RecallQuery, Remaining, Speaker, recall};
use model::tokens;
use protocol::{Message, Seq, ToolStatus};
use serde_json::json;

use super::{RecallFixture, messages_with, query_thread, tool_result};

/// Returns one of many different messages between an agent and its user.
fn filler(number: usize) -> Message {
    const DOING: [&str; 7] = ["reading", "fixing", "testing", "renaming", "moving", "reviewing", "deploying"];
    const THING: [&str; 9] = [
        "the parser",
        "a port of the queue",
        "the staging build",
        "a key",
        "the cache",
        "a user table",
        "the owner list",
        "limits",
        "the deploy script",
    ];
    let text = format!(
        "Step {number}: {} {} in module {} because of change {}.",
        DOING[number % 7],
        THING[number % 9],
        number % 31,
        number * 7 % 1_009
    );
    match number % 3 {
        0 => Message::human(text),
        1 => Message::ai(text),
        _ => tool_result("execute", &text),
    }
}

/// Facts, each with a question in partly different words and the word that identifies the right answer.
const FACTS: [(&str, &str, &str); 10] = [
    ("The staging server listens on port 8443.", "What port does staging use?", "8443"),
    ("Backups are kept for 35 days in the cold bucket.", "How long do we keep the backups?", "35 days"),
    ("Ms Okafor owns the billing service.", "Who is the owner of billing?", "Okafor"),
    (
        "We chose zstd for compressing snapshots, level 7.",
        "Which compression did we choose for snapshots?",
        "zstd",
    ),
    (
        "Never restart the ingest worker during a migration.",
        "May I restart the ingest worker?",
        "Never restart",
    ),
    (
        "Rate limit of the public API: 120 requests a minute.",
        "what is the rate limit of our public API",
        "120",
    ),
    ("Der Schlüssel liegt im Tresor unter deploy/prod.", "Wo liegt der Schlüssel?", "Tresor"),
    ("The flaky test is tests/net/retry.rs, it races with the clock.", "which test was flaky?", "retry.rs"),
    ("会議は金曜日に東京で行います", "東京の会議はいつですか 会議", "金曜日"),
    ("CI caches live under the prefix `segue-ci-v3`.", "prefix of the CI caches?", "segue-ci-v3"),
];

#[tokio::test]
async fn m11_a_fact_at_any_decile_of_a_long_parent_is_found_by_a_natural_question() {
    const MESSAGES: usize = 10_000;
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    let planted = |number: usize| {
        let decile = (number % (MESSAGES / 10) == MESSAGES / 20).then_some(number / (MESSAGES / 10));
        decile.map_or_else(|| filler(number), |decile| Message::ai(FACTS[decile].0))
    };
    journal.append_messages(parent, 0, (0..MESSAGES).map(planted)).await;
    let child = journal.create_child_thread(parent).await;
    journal.append_messages(child, 9, [Message::human("Go on."), Message::ai("Working.")]).await;
    for (decile, (fact, question, answer)) in FACTS.into_iter().enumerate() {
        let result = journal.recall_words(child, question).await;
        let first = result.excerpts[0].iter().find(|message| message.text.contains(answer));
        let seq = (decile * MESSAGES / 10 + MESSAGES / 20 + 1) as Seq;
        assert_eq!(
            first.map(|message| (message.thread_id, message.seq, &*message.text)),
            Some((parent, seq, fact)),
            "{question}"
        );
        let (status, text) = journal.call_tool(child, json!({"query": question})).await;
        assert_eq!(status, ToolStatus::Success);
        assert!(text.contains(answer) && tokens::fits(&text, RECALL_TOKENS_MAX), "{text}");
    }
}

#[tokio::test]
async fn m11_a_superseded_fact_gives_the_newer_one_first() {
    for (old, new, question, answer) in [
        ("The staging port is 8443.", "The staging port is 9443.", "what port does staging use?", "9443"),
        (
            "staging uses port 8443",
            "We moved again: from today on staging listens on port 9443, because 8443 clashed with the proxy.",
            "What port does staging use?",
            "9443",
        ),
        (
            "Okafor owns the billing service and its on-call rota.",
            "Billing has a new owner: Lindqvist owns the service now.",
            "Who owns the billing service?",
            "Lindqvist",
        ),
        (
            "The deploy command is `make ship`.",
            "New deploy command: `just release` instead of make.",
            "Which command do we deploy with?",
            "just release",
        ),
        (
            "Limit: 120 requests a minute",
            "Limit raised: 300 requests a minute",
            "request limit per minute",
            "300",
        ),
    ] {
        let journal = RecallFixture::new();
        let parent = journal.create_thread(None).await;
        journal.append_messages(parent, 0, (0..300).map(filler)).await;
        journal.append_messages(parent, 1, [Message::human(old)]).await;
        journal.append_messages(parent, 2, (300..600).map(filler)).await;
        journal.append_messages(parent, 3, [Message::human(new)]).await;
        journal.append_messages(parent, 4, (600..900).map(filler)).await;
        let child = journal.create_child_thread(parent).await;
        let result = journal.recall_words(child, question).await;
        let position = |text: &str| {
            result.excerpts.iter().position(|passages| passages.iter().any(|message| message.text == text))
        };
        assert_eq!(position(new), Some(0), "{question}");
        assert_ne!(position(old), Some(0), "{question}");
        assert!(result.to_text().contains(answer), "{question}");
        // The same fact in the child is the newest.
        journal.append_messages(child, 5, [Message::human(format!("{new} Really."))]).await;
        let result = journal.recall_words(child, question).await;
        assert!(result.excerpts[0].iter().any(|message| message.thread_id == child), "{question}");
    }
}

#[tokio::test]
async fn superseded_messages_are_never_found() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    let lines = ["the heron is grey", "the heron is blue", "the heron is red"].map(Message::human);
    journal.append_messages(parent, 0, lines).await;
    journal.commit(vec![Write::Rewind { thread_id: parent, keep_seq: 1, at: Timestamp::UNIX_EPOCH }]).await;
    journal.append_messages(parent, 1, [Message::human("something else")]).await;
    let child = journal.create_child_thread(parent).await;
    let result = journal.recall_words(child, "heron").await;
    assert_eq!(messages_with(&result, "heron"), [(1, "the heron is grey".to_owned())]);
    assert_eq!(messages_with(&result, "something").len(), 1, "its neighbour is what follows visibly");
    let read = journal.recall_range(child, 1, 9).await;
    assert_eq!(read.excerpts[0].iter().map(|message| message.seq).collect::<Vec<_>>(), [1, 4]);
}

#[tokio::test]
async fn a_range_is_read_in_order_and_states_the_next_seq() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    let long = "word ".repeat(600);
    let messages = [
        Message::human("first"),
        Message::ai(&*long),
        tool_result("execute", &long),
        Message::human("fourth"),
        Message::ai("w".repeat(50_000)),
        Message::human("last\nline"),
    ];
    journal.append_messages(parent, 0, messages).await;
    let child = journal.create_child_thread(parent).await;
    journal.append_messages(child, 1, [Message::human("own")]).await;
    // A range in a child refers to the thread that its summary was made from.
    let mut seen = Vec::new();
    let mut from = 1;
    loop {
        let read = journal.recall_range(child, from, 6).await;
        assert_eq!(read.threads, [parent]);
        seen.extend(read.excerpts.concat().iter().map(|message| (message.seq, message.text.chars().count())));
        match read.remaining {
            Remaining::Range { next_seq: Some(next) } => from = next,
            Remaining::Range { next_seq: None } => break,
            Remaining::Messages(_) => unreachable!("a range was read"),
        }
    }
    let places: Vec<Seq> = seen.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(places, [1, 2, 3, 4, 5, 6]);
    assert_eq!((seen[1].1, seen[5].1), (long.trim().len(), 9));
    assert!(seen[4].1 > 4_000, "what is too long is cut, not left out");
    let own = query_thread(MessageFilter::Range(1, 9), &child.to_string());
    let own = recall(&*journal.store, child, &own).await.unwrap();
    assert_eq!(own.excerpts.concat().iter().map(|message| &*message.text).collect::<Vec<_>>(), ["own"]);
    assert_eq!(journal.recall_range(child, 7, u64::MAX).await.excerpts, Vec::<Vec<_>>::new());
    assert_eq!(journal.recall_range(child, 0, 1).await.excerpts.concat().len(), 1);
    let empty = journal.recall_error(child, RecallQuery::new(MessageFilter::Range(3, 2))).await;
    assert!(matches!(empty, RecallError::EmptyRange { from: 3, to: 2 }));
}

#[tokio::test]
async fn a_match_comes_with_its_adjacent_messages() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    let lines = [
        Message::ai("Shall I go on?"),
        Message::human("What is the heron called?"),
        Message::ai("Fjord."),
        Message::human("Thanks."),
    ];
    journal.append_messages(parent, 0, lines).await;
    let result = journal.recall_words(parent, "heron").await;
    let texts: Vec<&str> = result.excerpts[0].iter().map(|message| &*message.text).collect();
    assert_eq!(texts, ["Shall I go on?", "What is the heron called?", "Fjord."]);
    assert_eq!(result.excerpts[0][0].speaker, Speaker::Assistant);
}
