//! Messages that were compacted in a thread are found again in it.

use jiff::Timestamp;
use journal::Write;
use memory::{MessageFilter, RecallQuery, Speaker, recall};
use protocol::{
    CarriedFacts, Compaction, CompactionTrigger, CompactionUndone, CondensedSummary, EventType, Message,
    NewEvent, Seq, ThreadId, ToolStatus, Usage,
};
use serde_json::json;

use super::{RecallFixture, messages_with, tool_result};

fn compaction(first_seq: Seq, last_seq: Seq, last_request_seq: Option<Seq>) -> Compaction {
    Compaction {
        schema_version: 1,
        trigger: CompactionTrigger::Auto,
        first_seq,
        last_seq,
        replaced_count: last_seq - first_seq + 1,
        kept_count: 1,
        tokens_before: 1_000,
        tokens_after: 100,
        model: "extractive".to_owned(),
        summary: "Something about a heron.".to_owned(),
        sections: CondensedSummary::default(),
        carried: CarriedFacts::default(),
        last_request_seq,
        previous_seq: None,
        focus: None,
        duration_ms: 1,
        step: 1,
        usage: Usage::default(),
        prompt_sha256: None,
    }
}

async fn append(journal: &RecallFixture, thread_id: ThreadId, event: NewEvent) {
    journal.commit(vec![Write::Append { thread_id, events: vec![event] }]).await;
}

async fn append_compaction(journal: &RecallFixture, thread_id: ThreadId, compaction: &Compaction) {
    let event = NewEvent::new(EventType::Compacted, compaction, Timestamp::UNIX_EPOCH).unwrap();
    append(journal, thread_id, event).await;
}

/// Appends a split turn: its request is message 1; messages 2 to 5 are compacted, and 6 and 7 are visible.
async fn append_split_turn(journal: &RecallFixture, thread_id: ThreadId) {
    let work = [
        Message::human("Look after the heron, please."),
        tool_result("execute", "the heron sits at 8443"),
        Message::ai("The heron is grey."),
        tool_result("execute", "the heron flew"),
        Message::ai("It came back."),
        tool_result("execute", "a late heron"),
        Message::ai("The late heron sleeps."),
    ];
    journal.append_messages(thread_id, 0, work).await;
    append_compaction(journal, thread_id, &compaction(1, 5, Some(1))).await;
}

#[tokio::test]
async fn e11_compacted_messages_of_the_current_turn_are_found_by_words() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    append_split_turn(&journal, thread_id).await;
    let (status, text) = journal.call_tool(thread_id, json!({"query": "Where is the heron?"})).await;
    assert_eq!(status, ToolStatus::Success);
    for text_part in ["sits at 8443", "heron is grey", "heron flew"] {
        assert!(text.contains(text_part), "{text}");
    }
    assert!(!text.contains("late heron"), "a visible message is not found: {text}");
    assert!(!text.contains(": 1] User") || text.contains(": 2]"), "{text}");
}

#[tokio::test]
async fn e11_the_request_that_a_compaction_kept_counts_as_visible() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    journal.append_messages(thread_id, 0, [Message::human("the crane is at 9")].into_iter()).await;
    journal
        .append_messages(thread_id, 1, (0..6).map(|at| Message::ai(format!("step {at} of nothing"))))
        .await;
    journal.append_messages(thread_id, 2, [Message::human("Where is the crane?")]).await;
    journal
        .append_messages(thread_id, 3, (0..6).map(|at| Message::ai(format!("more {at} of nothing"))))
        .await;
    append_compaction(&journal, thread_id, &compaction(1, 12, Some(8))).await;
    let (_, text) = journal.call_tool(thread_id, json!({"query": "Where is the crane?"})).await;
    assert!(text.contains("the crane is at 9") && !text.contains("Where is the crane?"), "{text}");
}

#[tokio::test]
async fn e11_a_range_of_the_summary_is_read_from_the_originals() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    append_split_turn(&journal, thread_id).await;
    let (_, text) = journal.call_tool(thread_id, json!({"from_seq": 1, "to_seq": 5})).await;
    for text_part in ["Look after the heron", "sits at 8443", "heron is grey", "heron flew", "It came back."]
    {
        assert!(text.contains(text_part), "{text}");
    }
    assert!(!text.contains("late heron") && !text.contains("Something about"), "{text}");
}

#[tokio::test]
async fn e11_after_twenty_compactions_the_first_message_is_still_found() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let mut first = 1;
    for round in 0..25_i64 {
        let answers =
            (0..4).map(|number| Message::ai(format!("stork {round} {number} builds nest{round}x{number}")));
        let request = [Message::human(format!("go on with {round}"))];
        journal.append_messages(thread_id, round, request.into_iter().chain(answers)).await;
        let last = journal.store.thread(thread_id).await.unwrap().unwrap().last_seq;
        append_compaction(&journal, thread_id, &compaction(first, last, None)).await;
        first = last + 1;
    }
    for (query, seq) in [("nest0x0", 2), ("nest24x3", 24 * 6 + 5)] {
        let (_, text) = journal.call_tool(thread_id, json!({"query": query})).await;
        assert!(text.contains(query) && text.contains(&format!(": {seq}]")), "{text}");
    }
}

#[tokio::test]
async fn e11_an_undone_compaction_has_no_effect() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    append_split_turn(&journal, thread_id).await;
    let content = CompactionUndone { marker_seq: 8, clip_seqs: Vec::new() };
    let event = NewEvent::new(EventType::CompactionUndone, &content, Timestamp::UNIX_EPOCH).unwrap();
    append(&journal, thread_id, event).await;
    let (_, text) = journal.call_tool(thread_id, json!({"query": "Where is the heron?"})).await;
    assert!(text.starts_with("Nothing was found"), "the whole turn is visible again: {text}");
    let query = RecallQuery::new(MessageFilter::Words("heron".to_owned()));
    let result = recall(&*journal.store, thread_id, &query).await.unwrap();
    assert!(messages_with(&result, "heron").len() >= 5, "the user finds all of it");
}

#[tokio::test]
async fn e11_a_range_refers_to_the_child_itself_once_it_was_compacted() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    journal.append_messages(parent, 0, ["of the parent", "of the parent too"].map(Message::human)).await;
    let child = journal.create_child_thread(parent).await;
    journal.append_messages(child, 1, ["own one", "own two", "own three"].map(Message::human)).await;
    let read = |text: &str| text.contains("of the parent");
    let (_, text) = journal.call_tool(child, json!({"from_seq": 1, "to_seq": 2})).await;
    assert!(read(&text) && !text.contains("own one"), "{text}");
    append_compaction(&journal, child, &compaction(1, 2, None)).await;
    let (_, text) = journal.call_tool(child, json!({"from_seq": 1, "to_seq": 2})).await;
    assert!(!read(&text) && text.contains("own one") && text.contains("own two"), "{text}");
    let named = json!({"from_seq": 1, "to_seq": 2, "thread": parent.to_string()});
    assert!(read(&journal.call_tool(child, named).await.1));
}

#[tokio::test]
async fn e11_a_long_message_is_read_to_its_end_in_pieces() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let words: Vec<String> = (0..4_000).map(|at| format!("w{at}")).collect();
    let long = words.join(" ");
    journal
        .append_messages(
            thread_id,
            0,
            [Message::human("go"), tool_result("execute", &long), Message::ai("done")],
        )
        .await;
    append_compaction(&journal, thread_id, &compaction(1, 3, None)).await;
    let (mut read, mut from_char) = (String::new(), 1);
    loop {
        let args = json!({"from_seq": 2, "from_char": from_char});
        let (status, text) = journal.call_tool(thread_id, args).await;
        assert_eq!(status, ToolStatus::Success);
        let (_, data) = text.split_once("<recalled>\n").unwrap();
        let (data, after) = data.split_once("\n</recalled>").unwrap();
        let (_, piece) = data.split_once("00:00: ").or_else(|| data.split_once("00:01: ")).unwrap();
        read.push_str(&format!(" {}", piece.trim_end_matches('…')));
        let Some((_, next)) = after.split_once("from_char ") else { break };
        from_char = next.split(' ').next().unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(
        read.split_whitespace().collect::<Vec<_>>(),
        words,
        "nothing is left out, nothing comes twice"
    );
    assert!(from_char > 10_000);
}

#[tokio::test]
async fn l8_an_injected_message_begins_no_turn_and_is_not_the_users() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let reminder = "<system-reminder>the heron is due</system-reminder>";
    journal
        .append_messages(thread_id, 0, [Message::human(reminder), Message::human("look at the gull")])
        .await;
    journal.append_messages(thread_id, 1, [Message::ai("the gull is white")]).await;
    let injected = NewEvent::from_message(&Message::human("the gull is due"), Timestamp::UNIX_EPOCH).unwrap();
    append(&journal, thread_id, injected.with_metadata(&json!({"injected": true})).unwrap()).await;
    let (_, text) = journal.call_tool(thread_id, json!({"query": "gull"})).await;
    assert!(text.starts_with("Nothing was found"), "the turn began with what the person said: {text}");
    let messages = journal.recall_range(thread_id, 1, 4).await.excerpts.concat();
    let speakers: Vec<&Speaker> = messages.iter().map(|message| &message.speaker).collect();
    // A message that the user typed is the user's, even if it looks like an injected one.
    assert_eq!(speakers, [&Speaker::User, &Speaker::User, &Speaker::Assistant, &Speaker::Harness]);
}
