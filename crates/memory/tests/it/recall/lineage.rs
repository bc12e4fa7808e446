//! The threads that a recall searches.

use jiff::Timestamp;
use journal::Write;
use memory::{MessageFilter, RecallError, RecallQuery, RecallResult, Remaining, recall};
use protocol::{AssistantId, EventType, HandoffId, Message, ParentKind, Seq, Thread, ThreadId};

use super::{RecallFixture, query_thread, words_filter};

#[tokio::test]
async fn b17_only_the_lineage_is_searched() {
    let journal = RecallFixture::new();
    let say =
        async |thread_id, line: &str| journal.append_messages(thread_id, 0, [Message::human(line)]).await;
    let [grandparent, stranger] = [journal.create_thread(None).await, journal.create_thread(None).await];
    let other = ThreadId::generate();
    let foreign = Thread::blank(other, "other".parse().unwrap(), Timestamp::UNIX_EPOCH);
    journal.commit(vec![Write::CreateThread(foreign)]).await;
    say(grandparent, "heron one").await;
    say(stranger, "heron five").await;
    let parent = journal.create_child_thread(grandparent).await;
    say(parent, "heron two").await;
    let child = journal.create_child_thread(parent).await;
    let sibling = journal.create_child_thread(parent).await;
    say(child, "heron three").await;
    say(sibling, "heron four").await;
    let threads = |result: &RecallResult| {
        let mut threads: Vec<ThreadId> =
            result.excerpts.iter().flatten().map(|message| message.thread_id).collect();
        threads.sort_unstable();
        threads
    };
    let result = journal.recall_words(child, "heron").await;
    assert_eq!(result.threads, [child, parent, grandparent]);
    assert_eq!(threads(&result), [grandparent, parent, child]);
    assert_eq!(result.excerpts[0][0].thread_id, child, "of equally old ones the nearest is first");
    for (name, expected) in [
        (parent.to_string(), parent),
        (grandparent.to_string()[..34].to_uppercase(), grandparent),
        (child.uuid().simple().to_string(), child),
    ] {
        let result =
            recall(&*journal.store, child, &query_thread(words_filter("heron"), &name)).await.unwrap();
        assert_eq!(threads(&result), [expected], "{name}");
    }
    for own in [stranger, sibling] {
        let error = journal.recall_error(child, query_thread(words_filter("heron"), &own.to_string())).await;
        assert!(matches!(&error, RecallError::ForeignThread { .. }), "{error:?}");
        let range = query_thread(MessageFilter::Range(1, 2), &own.to_string());
        let read = recall(&*journal.store, child, &range).await.unwrap();
        assert_eq!(read.threads, [own], "any thread of the assistant can be read by its numbers");
    }
    for foreign in [other.to_string(), "nonsense".to_owned(), " ".to_owned()] {
        for wanted in [words_filter("heron"), MessageFilter::Range(1, 2)] {
            let error = journal.recall_error(child, query_thread(wanted, &foreign)).await;
            assert!(
                matches!(&error, RecallError::ForeignThread { lineage, .. } if lineage.len() == 3),
                "{error:?}"
            );
            assert!(!error.hint().contains(&stranger.to_string()));
        }
    }
    let ambiguous = journal.recall_error(child, query_thread(words_filter("heron"), "0")).await;
    assert!(matches!(ambiguous, RecallError::AmbiguousThread { .. }), "{ambiguous:?}");
}

#[tokio::test]
async fn b17_a_lineage_that_is_not_a_chain_is_an_error() {
    let journal = RecallFixture::new();
    let (first, second) = (ThreadId::generate(), ThreadId::generate());
    let gone = ThreadId::generate();
    let orphan = journal.create_thread(Some((gone, ParentKind::Handoff))).await;
    let stray = journal.create_thread(Some((journal.create_thread(None).await, ParentKind::Handoff))).await;
    for (thread_id, parent_id) in [(first, second), (second, first)] {
        let blank = Thread::blank(thread_id, AssistantId::default(), Timestamp::UNIX_EPOCH);
        let thread = Thread { parent_id: Some(parent_id), parent_kind: Some(ParentKind::Handoff), ..blank };
        journal.commit(vec![Write::CreateThread(thread)]).await;
    }
    let selfish = ThreadId::generate();
    let blank = Thread::blank(selfish, AssistantId::default(), Timestamp::UNIX_EPOCH);
    journal.commit(vec![Write::CreateThread(Thread { parent_id: Some(selfish), ..blank })]).await;
    for (thread_id, is_expected) in [
        (first, (|error| matches!(error, RecallError::Cycle { .. })) as fn(&RecallError) -> bool),
        (selfish, |error| matches!(error, RecallError::Cycle { .. })),
        (orphan, |error| matches!(error, RecallError::ParentMissing { .. })),
        (gone, |error| matches!(error, RecallError::UnknownThread { .. })),
        (stray, |error| matches!(error, RecallError::BranchUnknown { .. })),
    ] {
        for wanted in [words_filter("heron"), MessageFilter::Range(1, 2)] {
            let error = journal.recall_error(thread_id, RecallQuery::new(wanted)).await;
            assert!(is_expected(&error), "{error:?}");
        }
    }
    // A thread can always recall its own messages, as the hint of the error says.
    journal.append_messages(orphan, 0, [Message::human("heron")]).await;
    let own = recall(&*journal.store, orphan, &query_thread(words_filter("heron"), &orphan.to_string()))
        .await
        .unwrap();
    assert_eq!(own.threads, [orphan]);
    assert_eq!(own.excerpts.len(), 1);
}

#[tokio::test]
async fn b17_a_long_lineage_is_searched_up_to_its_limit() {
    let journal = RecallFixture::new();
    let mut thread_id = journal.create_thread(None).await;
    for number in 0..70 {
        journal.append_messages(thread_id, number, [Message::human(format!("heron {number}"))]).await;
        thread_id = journal.create_child_thread(thread_id).await;
    }
    let query = RecallQuery { tokens_max: 100_000, ..RecallQuery::new(words_filter("heron")) };
    let result = recall(&*journal.store, thread_id, &query).await.unwrap();
    assert_eq!(result.threads.len(), 64);
    assert_eq!(result.excerpts[0][0].text, "heron 69");
    assert_eq!(result.remaining, Remaining::Messages(63 - result.excerpts.len() as u64));
    assert!(result.to_text().contains("At least 51 more messages"), "{:?}", result.remaining);
}

#[tokio::test]
async fn the_lineage_of_a_sub_agent_is_its_own_thread() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    journal.append_messages(parent, 0, [Message::human("the heron"), Message::ai("a grey heron")]).await;
    let subagent = journal.create_thread(Some((parent, ParentKind::Subagent))).await;
    assert_eq!(journal.recall_words(subagent, "heron").await.excerpts, Vec::<Vec<_>>::new());
}

/// Returns the recalled messages about herons, sorted.
async fn recall_herons(journal: &RecallFixture, thread_id: ThreadId) -> Vec<String> {
    let result = journal.recall_words(thread_id, "heron").await;
    let mut texts: Vec<String> = result.excerpts.into_iter().flatten().map(|message| message.text).collect();
    texts.sort_unstable();
    texts
}

#[tokio::test]
async fn b17_messages_of_an_ancestor_after_its_handoff_are_not_found() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    journal.append_messages(parent, 0, [Message::human("heron 1"), Message::ai("heron 2")]).await;
    let child = journal.create_covered_child(parent, 2).await;
    journal.append_handoff_event(parent, EventType::HandoffProposed, HandoffId::generate()).await;
    journal.append_messages(parent, 1, [Message::human("heron 4, while it is reviewed")]).await;
    journal.append_handoff_event(parent, EventType::HandoffAccepted, HandoffId::generate()).await;
    journal.accept_handoff(parent, child).await;
    journal.append_messages(parent, 2, [Message::human("heron 7"), Message::ai("heron 8")]).await;
    journal.append_messages(child, 3, [Message::human("heron of the child")]).await;
    let expected = ["heron 1", "heron 2", "heron 4, while it is reviewed", "heron of the child"];
    assert_eq!(recall_herons(&journal, child).await, expected);
    // Nor from a later descendant, nor after the parent was rewound to before the acceptance.
    let grandchild = journal.create_child_thread(child).await;
    let fork = journal.fork_thread(child, None).await;
    journal.commit(vec![Write::Rewind { thread_id: parent, keep_seq: 4, at: Timestamp::UNIX_EPOCH }]).await;
    journal.append_messages(parent, 4, [Message::human("heron 9")]).await;
    for thread_id in [child, grandchild, fork] {
        assert_eq!(recall_herons(&journal, thread_id).await, expected);
        for (prefix, wanted) in [(parent, words_filter("heron")), (parent, MessageFilter::Range(1, u64::MAX))]
        {
            let query = query_thread(wanted, &prefix.to_string());
            let result = recall(&*journal.store, thread_id, &query).await.unwrap();
            assert!(result.excerpts.iter().flatten().all(|message| message.seq < 6), "{result:?}");
        }
    }
}

#[tokio::test]
async fn b17_without_an_acceptance_only_the_covered_messages_are_found() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    let lines = ["heron 1", "heron 2", "heron 3", "heron 4"].map(Message::human);
    journal.append_messages(parent, 0, lines).await;
    let child = journal.create_covered_child(parent, 2).await;
    journal.append_handoff_event(parent, EventType::HandoffAccepted, HandoffId::generate()).await;
    assert_eq!(recall_herons(&journal, child).await, ["heron 1", "heron 2"]);
    // The message after the match is beyond the covered range.
    let result = journal.recall_words(child, "2").await;
    let texts: Vec<&str> = result.excerpts.iter().flatten().map(|message| &*message.text).collect();
    assert_eq!(texts, ["heron 1", "heron 2"]);
}

#[tokio::test]
async fn b17_a_range_ends_where_the_conversation_left_the_thread_and_says_so() {
    let journal = RecallFixture::new();
    let parent = journal.create_thread(None).await;
    journal.append_messages(parent, 0, ["one", "two"].map(Message::human)).await;
    let child = journal.create_child_thread(parent).await;
    journal.append_messages(parent, 1, ["four", "five"].map(Message::human)).await;
    let departed = "</recalled>\nThere is nothing more of this conversation at these numbers: it left that thread at 3, \
                and what was said there later is no part of it.";
    for (range, seqs, left_at, end) in [
        ((1, 2), &[1, 2][..], None, "</recalled>\nThat is all of the range."),
        ((2, 3), &[2], Some(3), departed),
        ((1, u64::MAX), &[1, 2], Some(3), departed),
        ((3, 3), &[], Some(3), &departed[12..]),
        ((4, 5), &[], Some(3), &departed[12..]),
        ((u64::MAX, u64::MAX), &[], Some(3), &departed[12..]),
    ] {
        let result = journal.recall_range(child, range.0, range.1).await;
        let read: Vec<Seq> = result.excerpts.iter().flatten().map(|message| message.seq).collect();
        assert_eq!((&read[..], result.departed_at), (seqs, left_at), "{range:?}");
        assert!(result.to_text().ends_with(end), "{}", result.to_text());
    }
    // In the thread itself the range does not end there.
    assert_eq!(journal.recall_range(parent, 1, 9).await.departed_at, None);
    assert_eq!(journal.recall_range(parent, 4, 5).await.excerpts.concat().len(), 2);
}

#[tokio::test]
async fn b12_a_fork_finds_copied_messages_once_and_no_later_ones_of_its_source() {
    let journal = RecallFixture::new();
    let origin = journal.create_thread(None).await;
    journal.append_messages(origin, 0, [Message::human("heron of the origin")]).await;
    let parent = journal.create_child_thread(origin).await;
    let lines = ["heron 1", "heron 2", "heron 3", "heron 4"].map(Message::human);
    journal.append_messages(parent, 1, lines).await;
    let fork = journal.fork_thread(parent, Some(3)).await;
    journal.append_messages(parent, 2, [Message::human("heron 5 of the parent")]).await;
    journal.append_messages(fork, 3, [Message::human("heron 4 of the fork")]).await;
    let expected = ["heron 1", "heron 2", "heron 3", "heron 4 of the fork", "heron of the origin"];
    assert_eq!(recall_herons(&journal, fork).await, expected);
    assert_eq!(recall_herons(&journal, journal.fork_thread(fork, None).await).await, expected);
    assert_eq!(recall_herons(&journal, journal.create_child_thread(fork).await).await, expected);
    // A prefix of the source's id refers to the fork.
    let named = query_thread(MessageFilter::Range(2, 9), &parent.to_string());
    let result = recall(&*journal.store, fork, &named).await.unwrap();
    let places: Vec<(ThreadId, &str)> =
        result.excerpts.iter().flatten().map(|message| (message.thread_id, &*message.text)).collect();
    assert_eq!(places, [(fork, "heron 2"), (fork, "heron 3"), (fork, "heron 4 of the fork")]);
    // A message that the fork rewound is not found in its source either.
    journal.commit(vec![Write::Rewind { thread_id: fork, keep_seq: 1, at: Timestamp::UNIX_EPOCH }]).await;
    assert_eq!(recall_herons(&journal, fork).await, ["heron 1", "heron of the origin"]);
}
