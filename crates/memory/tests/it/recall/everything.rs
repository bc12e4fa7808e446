//! Recall over all threads, summaries and handoffs of an assistant, and its limits.

use jiff::Timestamp;
use journal::{TurnSummarization, Write};
use memory::{
    MessageFilter, NoteSource, RECALL_TOKENS_MAX, RecallError, RecallQuery, RecallScope, SearchRequest,
    Speaker, recall, search,
};
use model::tokens;
use protocol::{
    ArchiveReason, AssistantId, EventType, MediumTermSummary, Message, NewEvent, ParentKind, SummaryId,
    Thread, ThreadId, ToolStatus, TurnsArchived, Usage,
};
use serde_json::json;

use super::{RecallFixture, query_thread, tool_result, words_filter};

fn query_everything(text: &str) -> RecallQuery {
    RecallQuery { scope: RecallScope::Everything, ..RecallQuery::new(words_filter(text)) }
}

/// Stores a summary of the thread's first `turns` messages, as memory does.
async fn archive(journal: &RecallFixture, thread_id: ThreadId, turns: u64, text: &str) {
    let summary = MediumTermSummary {
        id: SummaryId::generate(),
        agent_id: AssistantId::default(),
        summary_text: text.to_owned(),
        turn_range_start: 1,
        turn_range_end: turns,
        created_at: Timestamp::UNIX_EPOCH,
    };
    let event = TurnsArchived {
        schema_version: 1,
        summary_id: summary.id,
        reason: ArchiveReason::Budget,
        first_seq: 1,
        last_seq: turns,
        context_from: Some(turns + 1),
        turn_count: turns,
        turn_range_start: 1,
        turn_range_end: turns,
        summary: text.to_owned(),
        model: "extractive".to_owned(),
        withheld: 0,
        usage: Usage::default(),
        marker_seq: None,
    };
    let event = NewEvent::new(EventType::TurnsArchived, &event, Timestamp::UNIX_EPOCH).unwrap();
    let planned = journal::ThreadVersion { thread_id, last_seq: turns };
    let transfer =
        TurnSummarization { summary, thread_id: Some(thread_id), turns, thread_versions: vec![planned] };
    let writes = vec![Write::SummarizeTurns(transfer), Write::Append { thread_id, events: vec![event] }];
    journal.commit(writes).await;
}

async fn create_thread_of(journal: &RecallFixture, assistant: &str) -> ThreadId {
    let thread_id = ThreadId::generate();
    let thread = Thread::blank(thread_id, assistant.parse().unwrap(), Timestamp::UNIX_EPOCH);
    journal.commit(vec![Write::CreateThread(thread)]).await;
    thread_id
}

#[tokio::test]
async fn f5_a_decision_of_another_thread_is_recalled_in_its_original_words() {
    let journal = RecallFixture::new();
    let [old, asking] = [journal.create_thread(None).await, journal.create_thread(None).await];
    let decided = [
        Message::human("Which queue do we take?"),
        Message::ai("We decided on NATS, because RabbitMQ lost messages in the failover drill."),
        Message::human("Fine."),
    ];
    journal.append_messages(old, 0, decided).await;
    archive(&journal, old, 3, "They chose NATS as the queue.").await;
    journal.append_messages(asking, 9, [Message::human("what did we decide about the queue?")]).await;
    let (_, alone) = journal.call_tool(asking, json!({"query": "queue decision NATS"})).await;
    assert!(alone.contains("Nothing was found in 1 thread(s)"), "{alone}");
    let args = json!({"query": "what did we decide about the queue?", "scope": "everything"});
    let (status, text) = journal.call_tool(asking, args).await;
    assert_eq!(status, ToolStatus::Success);
    assert!(text.contains("We decided on NATS, because RabbitMQ lost messages"), "{text}");
    assert!(text.contains("[summary of messages 1 to 3, from thread"), "{text}");
    assert!(!text.contains("what did we decide"), "the turn that asks is in sight: {text}");
    assert!(tokens::fits(&text, RECALL_TOKENS_MAX), "{text}");
    // The original messages around the hit can be read by range.
    let id = &old.uuid().simple().to_string();
    let (status, range) = journal.call_tool(asking, json!({"thread": id, "from_seq": 2, "to_seq": 3})).await;
    assert_eq!(status, ToolStatus::Success, "{range}");
    assert!(range.contains("failover drill") && range.contains("Fine."), "{range}");
    insta::assert_snapshot!(
        text.replace(&old.uuid().simple().to_string(), "OLD")
            .replace(&old.uuid().simple().to_string()[..8], "OLD")
    );
}

#[tokio::test]
async fn k1_nothing_of_another_assistant_is_recalled() {
    let journal = RecallFixture::new();
    let asking = journal.create_thread(None).await;
    let foreign = create_thread_of(&journal, "other").await;
    journal.append_messages(foreign, 0, [Message::human("the heron is a secret of the other one")]).await;
    journal.append_messages(asking, 1, [Message::human("hello")]).await;
    let result = recall(&*journal.store, asking, &query_everything("heron secret")).await.unwrap();
    assert_eq!((result.excerpts.len(), result.notes.len()), (0, 0));
    assert!(result.to_text().starts_with("Nothing was found in any conversation"), "{}", result.to_text());
    let name = foreign.to_string();
    for query in [
        query_thread(MessageFilter::Range(1, 2), &name),
        RecallQuery { thread: Some(name.clone()), ..query_everything("heron") },
        RecallQuery { scope: RecallScope::Everything, ..query_thread(MessageFilter::Range(1, 2), &name) },
    ] {
        let error = journal.recall_error(asking, query).await;
        assert!(matches!(error, RecallError::ForeignThread { .. }), "{error:?}");
        assert!(!error.hint().contains(&name));
    }
}

#[tokio::test]
async fn m16_secrets_are_redacted_in_recalled_messages_and_notes() {
    let journal = RecallFixture::new();
    let [old, asking] = [journal.create_thread(None).await, journal.create_thread(None).await];
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    journal
        .append_messages(
            old,
            0,
            [Message::human(format!("the heron token is {secret}")), Message::ai(secret)],
        )
        .await;
    let result = recall(&*journal.store, asking, &query_everything("heron token")).await.unwrap();
    assert!(result.to_text().contains("[redacted]") && !result.to_text().contains("abcdefgh"));
}

#[tokio::test]
async fn m11_the_newest_revision_of_a_fact_is_first_across_threads() {
    let journal = RecallFixture::new();
    let [first, second, third] = [
        journal.create_thread(None).await,
        journal.create_thread(None).await,
        journal.create_thread(None).await,
    ];
    journal.append_messages(second, 5, [Message::human("The staging port is 9443 now.")]).await;
    journal.append_messages(first, 1, [Message::human("The staging port is 8443.")]).await;
    journal.append_messages(third, 9, [Message::human("hello there")]).await;
    let result = search(&*journal.store, &SearchRequest::new("which port does staging use?")).await.unwrap();
    assert_eq!(result.words, ["port", "staging"]);
    let snippets: Vec<&str> = result.hits.iter().map(|hit| &*hit.snippet).collect();
    let expected = [
        "The \u{2}staging\u{3} \u{2}port\u{3} is 9443 now.",
        "The \u{2}staging\u{3} \u{2}port\u{3} is 8443.",
    ];
    assert_eq!(snippets, expected);
    let recalled = recall(&*journal.store, third, &query_everything("staging port")).await.unwrap();
    assert_eq!(recalled.excerpts[0][0].text, "The staging port is 9443 now.");
}

#[tokio::test]
async fn f9_archived_messages_are_recalled_in_their_own_thread() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let turns =
        [Message::human("the heron nests in Fjord 7"), Message::ai("Noted."), Message::human("Go on.")];
    journal.append_messages(thread_id, 0, turns).await;
    archive(&journal, thread_id, 2, "A heron was noted.").await;
    journal.append_messages(thread_id, 1, [Message::human("Where does the heron nest?")]).await;
    let (_, text) = journal.call_tool(thread_id, json!({"query": "Where does the heron nest?"})).await;
    assert!(text.contains("Fjord 7") && !text.contains("Where does"), "{text}");
    let (_, range) = journal.call_tool(thread_id, json!({"from_seq": 1, "to_seq": 2})).await;
    assert!(range.contains("Fjord 7") && range.contains("Noted."), "{range}");
    // A range without a thread refers to the visible summary. Once memory summarized messages of a child, that is its
    // own.
    let child = journal.create_child_thread(thread_id).await;
    journal.append_messages(child, 2, [Message::human("an egret"), Message::ai("seen")]).await;
    let (_, parents) = journal.call_tool(child, json!({"from_seq": 1})).await;
    assert!(parents.contains("Fjord 7"), "{parents}");
}

#[tokio::test]
async fn a_hit_has_its_adjacent_messages_with_their_speakers() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(Some((ThreadId::generate(), ParentKind::Subagent))).await;
    let messages = [Message::human("first"), tool_result("execute", "a grey heron"), Message::ai("last")];
    journal.append_messages(thread_id, 0, messages).await;
    let fork = journal.fork_thread(thread_id, None).await;
    let result = search(&*journal.store, &SearchRequest::new("heron")).await.unwrap();
    assert_eq!(result.hits.len(), 1, "a copied message is found once");
    let memory::SearchHitSource::Message { thread_id: found_in, seq, speaker, before, after } =
        &result.hits[0].source
    else {
        panic!("a message")
    };
    assert!([thread_id, fork].contains(found_in));
    assert_eq!((*seq, speaker), (2, &Speaker::Tool(Some("execute".to_owned()))));
    let (before, after) = (before.as_ref().unwrap(), after.as_ref().unwrap());
    assert_eq!((before.seq, &before.speaker, &*before.text), (1, &Speaker::User, "first"));
    assert_eq!((after.seq, &after.speaker, &*after.text), (3, &Speaker::Assistant, "last"));
    assert!(matches!(search(&*journal.store, &SearchRequest::new(" ?! ")).await, Err(RecallError::NoWords)));
    for limit in [0, journal::PAGE_ROWS_MAX + 1, usize::MAX] {
        let refused = search(&*journal.store, &SearchRequest { limit, ..SearchRequest::new("heron") }).await;
        assert!(
            matches!(refused, Err(RecallError::BadLimit { limit: reported }) if reported == limit),
            "{limit}"
        );
    }
}

#[tokio::test]
async fn copies_and_answers_of_recalls_do_not_displace_original_messages() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let messages = (0..30).map(|number| Message::human(format!("the heron {number}")));
    journal.append_messages(thread_id, 0, messages).await;
    for _ in 0..10 {
        journal.fork_thread(thread_id, None).await;
    }
    let echoing = journal.create_thread(None).await;
    let echoes = (0..60).map(|number| tool_result("recall", &format!("heron {number}")));
    journal.append_messages(echoing, 1, echoes).await;
    let result = search(&*journal.store, &SearchRequest::new("heron")).await.unwrap();
    let mut seqs: Vec<u64> = result
        .hits
        .iter()
        .filter_map(|hit| match hit.source {
            memory::SearchHitSource::Message { seq, .. } => Some(seq),
            _ => None,
        })
        .collect();
    seqs.sort_unstable();
    seqs.dedup();
    assert_eq!(seqs.len(), 10, "each hit is another message: {result:?}");
    let asking = journal.create_thread(None).await;
    let recalled = recall(&*journal.store, asking, &query_everything("heron")).await.unwrap();
    let matches = recalled.excerpts.iter().flatten().filter(|message| message.is_match).count();
    assert_eq!((matches, recalled.threads), (12, vec![thread_id]));
}

#[tokio::test]
async fn a_copied_message_that_is_visible_is_not_recalled() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let messages =
        [Message::human("the heron nests"), Message::ai("Yes."), Message::human("where is the heron?")];
    journal.append_messages(thread_id, 0, messages).await;
    let fork = journal.fork_thread(thread_id, None).await;
    let query = RecallQuery { visible_from: Some(3), ..query_everything("where is the heron?") };
    let recalled = recall(&*journal.store, fork, &query).await.unwrap();
    assert!(recalled.to_text().contains("the heron nests"));
    assert!(!recalled.to_text().contains("where is the heron?"), "{}", recalled.to_text());
}

#[tokio::test]
async fn a_sub_agent_recalls_nothing_of_other_conversations() {
    let journal = RecallFixture::new();
    let [main, other] = [journal.create_thread(None).await, journal.create_thread(None).await];
    journal.append_messages(main, 0, [Message::human("the heron nests in Fjord 7")]).await;
    journal.append_messages(other, 0, [Message::human("the heron nests in Fjord 8")]).await;
    let subagent = journal.create_thread(Some((main, ParentKind::Subagent))).await;
    journal.append_messages(subagent, 1, [Message::human("look after the heron"), Message::ai("How?")]).await;
    let fork = journal.fork_thread(subagent, None).await;
    for asking in [subagent, fork] {
        for foreign in [main, other] {
            let (status, text) =
                journal.call_tool(asking, json!({"thread": foreign.to_string(), "from_seq": 1})).await;
            assert_eq!(status, ToolStatus::Error);
            assert!(text.contains("did not come from it") && !text.contains("Fjord"), "{text}");
        }
        let (status, text) =
            journal.call_tool(asking, json!({"query": "heron", "scope": "everything"})).await;
        assert_eq!(status, ToolStatus::Error);
        assert!(text.contains("a sub-agent can recall only its own conversation"), "{text}");
        let (_, own) = journal.call_tool(asking, json!({"from_seq": 1})).await;
        assert!(own.contains("look after the heron"), "{own}");
    }
}

#[tokio::test]
async fn m16_a_secret_is_redacted_before_a_note_is_cut() {
    let journal = RecallFixture::new();
    let [old, asking] = [journal.create_thread(None).await, journal.create_thread(None).await];
    journal.append_messages(old, 0, [Message::human("a bird")]).await;
    let key = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB ".repeat(30);
    let secret =
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{key}heron {key}\n-----END OPENSSH PRIVATE KEY-----");
    archive(&journal, old, 1, &format!("They saw a heron. {secret}")).await;
    let result = recall(&*journal.store, asking, &query_everything("heron")).await.unwrap();
    assert_eq!(result.notes.len(), 1);
    assert!(!result.to_text().contains("b3BlbnNz"), "{}", result.to_text());
}

#[tokio::test]
async fn a_recalled_handoff_names_its_threads() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    journal.append_messages(parent, 0, [Message::human("look after them")]).await;
    let child = journal.create_child_thread(parent).await;
    let result = recall(&*journal.store, child, &query_everything("herons")).await.unwrap();
    let source = NoteSource::Handoff { parent_thread_id: parent, child_thread_id: child };
    assert_eq!(result.notes.iter().map(|note| note.source).collect::<Vec<_>>(), [source]);
    assert!(result.to_text().contains("[handoff from thread"), "{}", result.to_text());
}

#[tokio::test]
async fn a_quoted_text_is_searched_as_a_phrase() {
    let journal = RecallFixture::new();
    let thread_id = journal.create_thread(None).await;
    let messages = ["the grey heron", "a heron, and it was grey", "Grey heron!"].map(Message::human);
    journal.append_messages(thread_id, 0, messages).await;
    for (text, expected) in [
        ("\"grey heron\"", vec![1, 3]),
        ("grey heron", vec![1, 2, 3]),
        ("\"heron grey\"", vec![]),
        ("\"grey\" \"heron\"", vec![1, 2, 3]),
        ("\"grey", vec![1, 2, 3]),
    ] {
        let result = search(&*journal.store, &SearchRequest::new(text)).await.unwrap();
        let mut seqs: Vec<u64> = result
            .hits
            .iter()
            .map(|hit| match hit.source {
                memory::SearchHitSource::Message { seq, .. } => seq,
                _ => 0,
            })
            .collect();
        seqs.sort_unstable();
        assert_eq!(seqs, expected, "{text}");
    }
}
