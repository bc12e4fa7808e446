//! The scope of a search, and that rows outside it do not displace hits.

use journal::{IndexHitKind, SearchQuery, Store, Write};
use protocol::{AssistantId, Message, NewEvent, ParentKind, Seq, StoredItem, Thread, ThreadId, ToolMessage};
use serde_json::Map;

use super::{any_of, everything, kinds, seqs};
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    ai, append, at, commit, create, human, messages, rewind, search_for, thread,
};
use crate::conformance::memory::summarization;

pub async fn filters_keep_only_matching_hits(store: SharedStore) {
    use IndexHitKind::{Handoff, Message, Summary};
    let (parent, child) = everything(&store).await;
    let of_thread = |thread_id| SearchQuery { thread_id: Some(thread_id), ..search_for("heron") };
    assert_eq!(kinds(&store, of_thread(parent)).await, [Message, Message, Summary, Handoff]);
    assert_eq!(kinds(&store, of_thread(child)).await, [Handoff]);
    assert_eq!(kinds(&store, of_thread(ThreadId::generate())).await, []);
    let other: AssistantId = "other".parse().unwrap();
    let theirs = Thread { assistant_id: other.clone(), parent_kind: Some(ParentKind::Subagent), ..thread() };
    let thread_id = theirs.thread_id;
    let events = vec![human("a blue heron")];
    commit(&*store, vec![Write::CreateThread(theirs), Write::Append { thread_id, events }]).await.unwrap();
    let of =
        |assistant_id: AssistantId| SearchQuery { assistant_id: Some(assistant_id), ..search_for("heron") };
    assert_eq!(kinds(&store, of(AssistantId::default())).await, [Message, Message, Summary, Handoff]);
    assert_eq!(kinds(&store, of(other)).await, [Message], "a sub-agent's thread is searched too");
    let late = NewEvent::from_message(&protocol::Message::human("a late heron"), at(100)).unwrap();
    append(&*store, parent, vec![late]).await.unwrap();
    let since = |second| SearchQuery { since: Some(at(second)), ..search_for("heron") };
    assert_eq!(kinds(&store, since(2)).await, [Message, Summary]);
    assert_eq!(seqs(&store, SearchQuery { kinds: vec![Message], ..since(100) }).await, [3]);
    assert_eq!(seqs(&store, since(101)).await, [0; 0]);
}

pub async fn items_belong_to_the_assistant_in_their_namespace(store: SharedStore) {
    let [own, other]: [AssistantId; 2] = ["own", "other"].map(|id| id.parse().unwrap());
    let item = |labels: &[&str], second| StoredItem {
        namespace: labels.iter().map(|label| (*label).to_owned()).collect(),
        key: "heron".to_owned(),
        value: Map::new(),
        created_at: at(1),
        updated_at: at(second),
    };
    let items = [
        item(&["agents", "own"], 1),
        item(&["agents", "own", "birds"], 2),
        item(&["agents", "other"], 3),
        item(&["agents"], 4),
        item(&["agents", "owner"], 5),
        item(&["birds", "own"], 6),
    ];
    commit(&*store, items.map(Write::PutItem).to_vec()).await.unwrap();
    let found = async |query: SearchQuery| {
        let query = SearchQuery { kinds: vec![IndexHitKind::Item], ..query };
        let hits = store.search(query).await.unwrap().hits;
        let mut stored: Vec<_> = hits.iter().map(|hit| hit.created_at).collect();
        stored.sort_unstable();
        stored
    };
    let all = || search_for("heron");
    let of = |assistant_id: &AssistantId| SearchQuery { assistant_id: Some(assistant_id.clone()), ..all() };
    assert_eq!(found(all()).await, [1, 2, 3, 4, 5, 6].map(at));
    assert_eq!(found(of(&own)).await, [1, 2].map(at));
    assert_eq!(found(of(&other)).await, [3].map(at));
    assert_eq!(found(SearchQuery { since: Some(at(2)), ..of(&own) }).await, [2].map(at));
    assert_eq!(found(SearchQuery { thread_id: Some(ThreadId::generate()), ..all() }).await, []);
}

/// Many rows outside the filter contain the word more often than the wanted row.
pub async fn a_filter_finds_a_hit_that_rows_outside_it_outrank(store: SharedStore) {
    const OTHERS: u64 = 700;
    let (own, other) = (create(&*store).await, create(&*store).await);
    let filler = "long ".repeat(100);
    append(&*store, own, vec![human("words"), ai("more words")]).await.unwrap();
    append(&*store, other, (0..OTHERS).map(|number| human(&format!("turn {number}"))).collect())
        .await
        .unwrap();
    let summary = format!("{filler} heron {filler}");
    let of_own = Write::SummarizeTurns(summarization(own, (1, 2), &summary));
    commit(&*store, vec![of_own]).await.unwrap();
    let others = (0..OTHERS).map(|number| {
        Write::SummarizeTurns(summarization(
            other,
            (number + 3, number + 3),
            &format!("heron and heron {number}"),
        ))
    });
    commit(&*store, others.collect()).await.unwrap();
    let kinds = vec![IndexHitKind::Summary];
    let query = SearchQuery { thread_id: Some(own), kinds, limit: 5, ..any_of("heron") };
    let hits = store.search(query).await.unwrap().hits;
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].text, summary);
}

pub async fn copies_in_forks_do_not_displace_other_hits(store: SharedStore) {
    const FORKS: usize = 100;
    let thread_id = create(&*store).await;
    let events = (0..30).map(|number| human(&format!("heron {number}"))).collect();
    append(&*store, thread_id, events).await.unwrap();
    let mut forks = Vec::new();
    for _ in 0..FORKS {
        let fork = fork(&*store, thread_id).await;
        append(&*store, fork, vec![human("a plain egret")]).await.unwrap();
        forks.push(fork);
    }
    store.update_search_index().await.unwrap();
    let of_everything = SearchQuery { limit: 30, ..any_of("heron") };
    let mut hit_seqs = seqs(&store, of_everything.clone()).await;
    hit_seqs.sort_unstable();
    assert_eq!(hit_seqs, (1..=30).collect::<Vec<Seq>>(), "each message is found once");
    let threads: Vec<ThreadId> =
        messages(&*store, "heron").await.into_iter().map(|(thread, _)| thread).collect();
    assert!(threads.iter().all(|hit_thread| *hit_thread == thread_id), "each hit is in the source thread");
    let of_fork = SearchQuery { thread_id: Some(forks[7]), ..of_everything.clone() };
    assert_eq!(seqs(&store, of_fork).await.len(), 30);
    assert_eq!(messages(&*store, "egret").await.len(), 50, "messages added to the forks are found");
    // Messages that exist only in forks are found in one of them.
    rewind(&*store, thread_id, 20).await.unwrap();
    assert_eq!(seqs(&store, of_everything.clone()).await.len(), 30);
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    assert_eq!(seqs(&store, of_everything).await.len(), 30);
    let of_fork_of_fork = fork(&*store, forks[0]).await;
    assert!(messages(&*store, "heron").await.iter().all(|(hit_thread, _)| *hit_thread != of_fork_of_fork));
}

async fn fork(store: &dyn Store, from: ThreadId) -> ThreadId {
    let parent = (Some(from), Some(ParentKind::Fork));
    let fork = Thread { parent_id: parent.0, parent_kind: parent.1, ..thread() };
    let into = fork.thread_id;
    commit(store, vec![Write::CreateThread(fork), Write::CopyEvents { from, until: None, into }])
        .await
        .unwrap();
    into
}

pub async fn identical_tool_results_are_found_once(store: SharedStore) {
    const RESULTS: usize = 1_100;
    let (one, other) = (create(&*store).await, create(&*store).await);
    let result = |text: &str| {
        let tool = ToolMessage {
            id: None,
            call_id: "c".to_owned(),
            name: Some("todo".to_owned()),
            content: vec![protocol::ContentBlock::text(text)],
            status: protocol::ToolStatus::Success,
        };
        NewEvent::from_message(&Message::Tool(tool), at(1)).unwrap()
    };
    append(&*store, one, vec![human("the todo list is about the long and winding egrets")]).await.unwrap();
    let same = (0..RESULTS).map(|_| result("The todo list was changed.")).collect();
    append(&*store, other, same).await.unwrap();
    append(&*store, one, vec![result("The todo list was changed."), human("the todo list")]).await.unwrap();
    append(&*store, one, vec![human("the todo list")]).await.unwrap();
    let mut found = messages(&*store, "todo list").await;
    found.retain(|(thread_id, _)| *thread_id == one);
    let seqs: std::collections::BTreeSet<Seq> = found.iter().map(|(_, seq)| *seq).collect();
    assert!(seqs.is_superset(&[1, 3, 4].into()), "{seqs:?}: messages that a user repeats are each found");
    assert_eq!(store.search(search_for("todo list")).await.unwrap().hits.len(), 4);
}
