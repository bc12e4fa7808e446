//! Which threads are looked through.

use jiff::Timestamp;
use journal::Write;
use memory::{Recall, RecallError, RecallQuery, Rest, Wanted, recall};
use protocol::{AssistantId, Message, ParentKind, Thread, ThreadId};

use super::{Journal, of_thread, words};

#[tokio::test]
async fn b17_only_the_lineage_is_looked_through() {
    let journal = Journal::new();
    let [grandparent, stranger] = [journal.thread(None).await, journal.thread(None).await];
    let parent = journal.child(grandparent).await;
    let child = journal.child(parent).await;
    let sibling = journal.child(parent).await;
    for (thread_id, line) in [
        (grandparent, "heron one"),
        (parent, "heron two"),
        (child, "heron three"),
        (sibling, "heron four"),
        (stranger, "heron five"),
    ] {
        journal.say(thread_id, 0, [Message::human(line)]).await;
    }
    let threads = |found: &Recall| {
        let mut threads: Vec<ThreadId> = found.excerpts.iter().flatten().map(|one| one.thread_id).collect();
        threads.sort_unstable();
        threads
    };
    let found = journal.words(child, "heron").await;
    assert_eq!(found.threads, [child, parent, grandparent]);
    assert_eq!(threads(&found), [grandparent, parent, child]);
    assert_eq!(found.excerpts[0][0].thread_id, child, "of equally old ones the nearest is first");
    for (name, expected) in [
        (parent.to_string(), parent),
        (grandparent.to_string()[..34].to_uppercase(), grandparent),
        (child.uuid().simple().to_string(), child),
    ] {
        let found = recall(&*journal.store, child, &of_thread(words("heron"), &name)).await.unwrap();
        assert_eq!(threads(&found), [expected], "{name}");
    }
    for foreign in [stranger.to_string(), sibling.to_string(), "nonsense".to_owned(), " ".to_owned()] {
        for wanted in [words("heron"), Wanted::Range(1, 2)] {
            let error = journal.error(child, of_thread(wanted, &foreign)).await;
            assert!(
                matches!(&error, RecallError::ForeignThread { lineage, .. } if lineage.len() == 3),
                "{error:?}"
            );
            assert!(!error.hint().contains(&stranger.to_string()));
        }
    }
    let ambiguous = journal.error(child, of_thread(words("heron"), "0")).await;
    assert!(matches!(ambiguous, RecallError::AmbiguousThread { .. }), "{ambiguous:?}");
}

#[tokio::test]
async fn b17_a_lineage_that_is_no_chain_fails_closed() {
    let journal = Journal::new();
    let (one, two) = (ThreadId::generate(), ThreadId::generate());
    let gone = ThreadId::generate();
    let orphan = journal.child(gone).await;
    for (thread_id, parent_id) in [(one, two), (two, one)] {
        let blank = Thread::blank(thread_id, AssistantId::default(), Timestamp::UNIX_EPOCH);
        let thread = Thread { parent_id: Some(parent_id), parent_kind: Some(ParentKind::Handoff), ..blank };
        journal.commit(vec![Write::CreateThread(thread)]).await;
    }
    let selfish = ThreadId::generate();
    let blank = Thread::blank(selfish, AssistantId::default(), Timestamp::UNIX_EPOCH);
    journal.commit(vec![Write::CreateThread(Thread { parent_id: Some(selfish), ..blank })]).await;
    for (thread_id, is_expected) in [
        (one, (|error| matches!(error, RecallError::Cycle { .. })) as fn(&RecallError) -> bool),
        (selfish, |error| matches!(error, RecallError::Cycle { .. })),
        (orphan, |error| matches!(error, RecallError::ParentGone { .. })),
        (gone, |error| matches!(error, RecallError::UnknownThread { .. })),
    ] {
        for wanted in [words("heron"), Wanted::Range(1, 2)] {
            let error = journal.error(thread_id, RecallQuery::of(wanted)).await;
            assert!(is_expected(&error), "{error:?}");
        }
    }
    // What a thread holds itself it may always read, as the error says.
    journal.say(orphan, 0, [Message::human("heron")]).await;
    let own = recall(&*journal.store, orphan, &of_thread(words("heron"), &orphan.to_string())).await.unwrap();
    assert_eq!(own.threads, [orphan]);
    assert_eq!(own.excerpts.len(), 1);
}

#[tokio::test]
async fn b17_a_long_lineage_is_looked_through_up_to_its_bound() {
    let journal = Journal::new();
    let mut thread_id = journal.thread(None).await;
    for number in 0..70 {
        journal.say(thread_id, number, [Message::human(format!("heron {number}"))]).await;
        thread_id = journal.child(thread_id).await;
    }
    let query = RecallQuery { tokens_max: 100_000, ..RecallQuery::of(words("heron")) };
    let found = recall(&*journal.store, thread_id, &query).await.unwrap();
    assert_eq!(found.threads.len(), 64);
    assert_eq!(found.excerpts[0][0].text, "heron 69");
    assert_eq!(found.rest, Rest::Messages(63 - found.excerpts.len() as u64));
    assert!(found.to_text().contains("At least 51 more messages"), "{:?}", found.rest);
}

#[tokio::test]
async fn a_sub_agent_has_no_lineage_but_itself_and_a_fork_finds_nothing_twice() {
    let journal = Journal::new();
    let parent = journal.thread(None).await;
    journal.say(parent, 0, [Message::human("the heron"), Message::ai("a grey heron")]).await;
    let subagent = journal.thread(Some((parent, ParentKind::Subagent))).await;
    assert_eq!(journal.words(subagent, "heron").await.excerpts, Vec::<Vec<_>>::new());
    let fork = journal.thread(Some((parent, ParentKind::Fork))).await;
    journal.commit(vec![Write::CopyEvents { from: parent, until: None, into: fork }]).await;
    journal.say(parent, 1, [Message::human("a heron of the parent")]).await;
    journal.say(fork, 2, [Message::human("a heron of the fork")]).await;
    let found = journal.words(fork, "heron").await;
    let mut texts: Vec<&str> = found.excerpts.iter().flatten().map(|one| &*one.text).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["a grey heron", "a heron of the fork", "a heron of the parent", "the heron"]);
}
