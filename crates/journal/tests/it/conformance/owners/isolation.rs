//! Isolation of two owners and the local operator in one journal: no owner reads, lists or changes rows of another one.
//! Each owner has the same rows under the same names.

mod owned_rows;
mod reads;
mod writes;

use journal::{
    Error, HandoffFilter, IndexHitKind, ItemQuery, NamespaceQuery, OutboxQuery, RunFilter, ScopedStore,
    SearchQuery, Store, ThreadFilter, Write,
};
use protocol::{AssistantId, OwnerScope, Thread, ThreadId, UserId};

use self::owned_rows::{OwnedRows, absent, create_owned_rows, labels};
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{at, commit, handoff, human, run, thread};

fn owner(name: &str) -> Option<UserId> {
    (!name.is_empty()).then(|| name.parse().unwrap())
}

fn assistant(name: &str) -> AssistantId {
    AssistantId::default().with_owner(owner(name).as_ref())
}

/// Returns a store that is scoped to the owner.
fn scoped(store: &SharedStore, name: &str) -> ScopedStore {
    ScopedStore::new(store.clone(), OwnerScope::Owner(owner(name)))
}

/// The owners; `""` is the local operator.
const OWNERS: [&str; 3] = ["", "alice", "al"];

/// Creates the same rows for each owner.
async fn create_all_owners(store: &SharedStore) -> Vec<(&'static str, ScopedStore, OwnedRows)> {
    let mut all = Vec::new();
    for name in OWNERS {
        let own = scoped(store, name);
        let belongings = create_owned_rows(&own, name).await;
        all.push((name, own, belongings));
    }
    all
}

pub async fn k1_a11_rows_of_other_owners_are_not_read(store: SharedStore) {
    let all = create_all_owners(&store).await;
    let nothing = reads::all_reads(&all[0].1, &absent()).await;
    for (name, own, belongings) in &all {
        // The second round checks that the ownership cache does not treat a foreign row as the owner's own.
        for _ in 0..2 {
            for (other, _, theirs) in all.iter().filter(|(other, ..)| other != name) {
                let result = reads::all_reads(own, theirs).await;
                for ((what, result), (_, nothing)) in result.iter().zip(&nothing) {
                    assert_eq!(result, nothing, "`{name}` reads {what} of `{other}`");
                }
            }
        }
        for ((what, result), (_, nothing)) in reads::all_reads(own, belongings).await.iter().zip(&nothing) {
            assert_ne!(result, nothing, "`{name}` reads {what} of their own");
        }
        // A new scoped store, with an empty cache, gives the same results.
        let fresh = scoped(&store, name);
        assert_eq!(reads::all_reads(&fresh, belongings).await, reads::all_reads(own, belongings).await);
    }
}

pub async fn k1_a11_reads_by_name_return_the_owners_own_rows(store: SharedStore) {
    assert_eq!(
        reads::uncovered_methods(),
        Vec::<&str>::new(),
        "every method of a store is asked about what others have"
    );
    let all = create_all_owners(&store).await;
    for (name, own, mine) in &all {
        let results = reads::reads_by_name(own).await;
        let [outbox, import, ..] = &results[..] else { panic!("{results:?}") };
        assert!(outbox.1.contains(&format!("String({name:?})")) && outbox.1.matches("kind:").count() == 1);
        assert!(import.1.contains(&format!("{:?}", mine.thread_id)) && import.1.contains("\"session\""));
        for (what, result) in &results {
            for (other, _, theirs) in all.iter().filter(|(other, ..)| other != name) {
                let ids = [theirs.thread_id.to_string(), theirs.key_id.clone()];
                // The local operator creates the keys of other owners.
                let is_shown =
                    ids.iter().any(|id| result.contains(id)) && !(name.is_empty() && *what == "all keys");
                assert!(!is_shown, "`{name}` reads {what} of `{other}`: {result}");
            }
        }
        for (other, _, theirs) in &all {
            let may = !other.is_empty() && (other == name || name.is_empty());
            assert_eq!(
                own.api_key(&theirs.key_id).await.unwrap().is_some(),
                may,
                "`{name}` and a key of `{other}`"
            );
        }
    }
}

pub async fn k1_an_unscoped_worker_reads_the_outbox_of_all_owners(store: SharedStore) {
    let all = create_all_owners(&store).await;
    let due = store.outbox(OutboxQuery::for_kind("kind", 10)).await.unwrap();
    let mut keys: Vec<&str> = due.iter().map(|item| item.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["@al/key", "@alice/key", "key"]);
    for item in &due {
        let (kind, key) = (item.kind.clone(), item.key.clone());
        commit(&*store, vec![Write::RemoveOutboxItem { kind, key, created_at: Some(item.created_at) }])
            .await
            .unwrap();
    }
    for (_, own, _) in &all {
        assert_eq!(own.outbox(OutboxQuery::for_kind("kind", 10)).await.unwrap(), []);
    }
}

pub async fn k1_a11_lists_have_only_the_owners_rows(store: SharedStore) {
    let all = create_all_owners(&store).await;
    for (name, own, mine) in &all {
        let threads = own.threads(ThreadFilter { limit: 50, ..ThreadFilter::default() }).await.unwrap();
        let expected = [mine.child_id, mine.thread_id];
        assert_eq!(threads.iter().map(|thread| thread.thread_id).collect::<Vec<_>>(), expected, "{name}");
        assert_eq!(own.thread_count(ThreadFilter::default(), None).await.unwrap(), 2);
        // The store replaces any requested scope by its own owner.
        for scope in
            OWNERS.map(|other| OwnerScope::Owner(owner(other))).into_iter().chain([OwnerScope::Everyone])
        {
            assert_eq!(own.threads(ThreadFilter::for_scope(scope.clone(), 50)).await.unwrap(), threads);
            let mut ids = own.threads_by_prefix("", &scope).await.unwrap();
            ids.sort();
            assert!(ids.len() == 2 && expected.iter().all(|id| ids.contains(id)), "{name}");
            assert_eq!(own.runs_by_prefix("", &scope).await.unwrap(), [mine.run_id, mine.queued_id]);
            let filter = RunFilter { scope: Some(scope.clone()), limit: 50, ..RunFilter::default() };
            let runs = own.runs(filter).await.unwrap();
            assert_eq!(runs.iter().map(|run| run.run_id).collect::<Vec<_>>(), [mine.queued_id, mine.run_id]);
            let filter = HandoffFilter { scope: Some(scope.clone()), ..HandoffFilter::default() };
            let handoffs = own.handoffs(filter).await.unwrap();
            assert_eq!(
                handoffs.iter().map(|handoff| handoff.handoff_id).collect::<Vec<_>>(),
                [mine.handoff_id]
            );
            let query = ItemQuery { scope: Some(scope.clone()), limit: 50, ..ItemQuery::default() };
            let items = own.items(query).await.unwrap();
            assert_eq!(items.len(), 2, "{name}");
            assert!(items.iter().all(|hit| hit.item.value["of"] == *name));
            let query = NamespaceQuery { scope: Some(scope.clone()), limit: 50, ..NamespaceQuery::default() };
            let namespaces = own.namespaces(query).await.unwrap();
            let agents = vec!["agents".to_owned(), mine.assistant_id.to_string(), "notes".to_owned()];
            assert_eq!(namespaces, [agents, labels("birds")]);
            let query = SearchQuery { scope: Some(scope), ..everything() };
            let hits = own.search(query).await.unwrap().hits;
            assert_eq!(hits.len(), 5, "{name}: {hits:?}");
            assert!(hits.iter().all(|hit| hit.snippet.contains(&mine.word)), "{name}: {hits:?}");
        }
        assert_eq!(own.active_runs(None).await.unwrap().len(), 1);
        assert_eq!(own.queued_runs(None).await.unwrap().len(), 1);
        assert_eq!(own.unfinished_checkpoints().await.unwrap().len(), 1);
        let page = own.outbox(OutboxQuery::for_kind("kind", 1)).await.unwrap();
        assert_eq!(page.iter().map(|item| item.key.as_str()).collect::<Vec<_>>(), ["key"]);
        assert_eq!(own.outbox_item("kind", "key").await.unwrap(), page.first().cloned());
        assert_eq!(own.outbox_backlog("kind", None).await.unwrap(), (1, Some(page[0].created_at)));
        let next_page = OutboxQuery { after: Some(page[0].cursor()), ..OutboxQuery::for_kind("kind", 1) };
        assert_eq!(own.outbox(next_page).await.unwrap(), [], "{name}");
        assert_eq!(own.memory_counts(&mine.assistant_id).await.unwrap().items, 2);
    }
}

/// Returns a search for a word that every owner's rows contain.
fn everything() -> SearchQuery {
    let kinds = vec![IndexHitKind::Message, IndexHitKind::Summary, IndexHitKind::Handoff, IndexHitKind::Item];
    SearchQuery { words: vec!["heron".to_owned()], kinds, limit: 50, ..SearchQuery::default() }
}

pub async fn k1_a11_rows_of_other_owners_are_not_changed(store: SharedStore) {
    let all = create_all_owners(&store).await;
    let mut before = Vec::new();
    for (_, own, mine) in &all {
        before.push(reads::all_reads(own, mine).await);
    }
    let kinds = writes::kinds(&writes::all_writes(&all[0].2));
    assert_eq!(kinds, (0..writes::KINDS).collect(), "every kind of write is covered");
    for (name, own, _) in &all {
        for (other, _, theirs) in all.iter().filter(|(other, ..)| other != name) {
            for write in writes::all_writes(theirs) {
                if name.is_empty() && writes::is_of_key(&write) {
                    continue;
                }
                // A failed write does not find the row. The other writes affect the caller's own rows or no row.
                let outcome = writes::render_outcome(&commit(own, vec![write.clone()]).await);
                let is_expected =
                    ["done", "no ", "another "].iter().any(|prefix| outcome.starts_with(prefix));
                assert!(is_expected, "`{name}` writes to `{other}`: {write:?}: {outcome}");
            }
            let fence = journal::FencingToken { run_id: theirs.run_id, owner: "one".to_owned() };
            let fenced = journal::Transaction { fence: Some(fence), writes: Vec::new() };
            let fenced = own.commit(fenced).await;
            assert!(matches!(fenced, Err(Error::NotFound { what: "run", .. })), "{fenced:?}");
        }
    }
    for ((name, own, mine), before) in all.iter().zip(before) {
        assert_eq!(reads::all_reads(own, mine).await, before, "the rows of `{name}` are unchanged");
    }
}

pub async fn k1_a11_foreign_rows_and_absent_rows_give_the_same_result(store: SharedStore) {
    let all = create_all_owners(&store).await;
    for (name, own, _) in &all {
        for (other, _, theirs) in all.iter().filter(|(other, ..)| other != name) {
            for (foreign, absent) in writes::all_writes(theirs).into_iter().zip(writes::all_writes(&absent()))
            {
                // Only for an id that the caller chooses can a conflict reveal that the id is in use.
                if writes::is_new(&foreign) || name.is_empty() && writes::is_of_key(&foreign) {
                    continue;
                }
                let outcome = writes::render_outcome(&commit(own, vec![foreign.clone()]).await);
                let expected = writes::render_outcome(&commit(own, vec![absent]).await);
                assert_eq!(outcome, expected, "`{name}` of `{other}`: {foreign:?}");
            }
        }
    }
}

pub async fn k1_a11_two_owners_can_use_the_same_name_independently(store: SharedStore) {
    let all = create_all_owners(&store).await;
    for (_, own, mine) in &all[1..] {
        let delete = Write::DeleteItem { namespace: labels("birds"), key: "heron".to_owned() };
        let done =
            Write::RemoveOutboxItem { kind: "kind".to_owned(), key: "key".to_owned(), created_at: None };
        commit(own, vec![delete, done]).await.unwrap();
        assert_eq!(own.item(&labels("birds"), "heron").await.unwrap(), None);
        assert_eq!(own.outbox(OutboxQuery::for_kind("kind", 10)).await.unwrap(), []);
        commit(own, vec![Write::DeleteThread { thread_id: mine.child_id }]).await.unwrap();
    }
    let (_, machine, mine) = &all[0];
    let item = machine.item(&labels("birds"), "heron").await.unwrap().unwrap();
    assert_eq!((item.namespace, &item.value["of"]), (labels("birds"), &serde_json::json!("")));
    assert_eq!(
        machine.outbox(OutboxQuery::for_kind("kind", 10)).await.unwrap()[0].payload,
        serde_json::json!("")
    );
    assert_eq!(machine.import_source("session").await.unwrap().unwrap().thread_id, mine.thread_id);
    // The local operator cannot use a namespace with the prefix of another owner.
    for (namespace, key) in [("@alice/birds", "heron"), ("@bob", "k"), ("@", "k")] {
        assert_eq!(machine.item(&labels(namespace), key).await.unwrap(), None);
        let item = owned_rows::item((namespace, key), "");
        let refused = commit(machine, vec![Write::PutItem(item)]).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{namespace}: {refused:?}");
    }
    assert_eq!(machine.outbox(OutboxQuery::for_kind("@alice/kind", 10)).await.unwrap(), []);
    assert_eq!(machine.import_source("@alice/session").await.unwrap(), None);
    // An owner may use any label, because the owner's prefix precedes it.
    let (_, alice, _) = &all[1];
    commit(alice, vec![Write::PutItem(owned_rows::item(("@al/birds", "grebe"), "alice"))]).await.unwrap();
    assert_eq!(all[2].1.item(&labels("birds"), "grebe").await.unwrap(), None);
    assert!(alice.item(&labels("@al/birds"), "grebe").await.unwrap().is_some());
    let notes = format!("agents/{}/notes", all[1].2.assistant_id);
    for (query, expected) in [
        (namespaces(), vec!["@al/birds", &notes]),
        (NamespaceQuery { suffix: labels("*/birds"), ..namespaces() }, vec!["@al/birds"]),
        (NamespaceQuery { suffix: labels("*/*/*/birds"), ..namespaces() }, vec![]),
        (NamespaceQuery { prefix: labels("*"), depth_max: Some(1), ..namespaces() }, vec!["@al", "agents"]),
        (NamespaceQuery { prefix: labels("birds"), ..namespaces() }, vec![]),
        (NamespaceQuery { offset: 1, limit: 1, ..namespaces() }, vec![&notes]),
    ] {
        let namespaces = alice.namespaces(query.clone()).await.unwrap();
        assert_eq!(namespaces, expected.into_iter().map(labels).collect::<Vec<_>>(), "{query:?}");
    }
}

fn namespaces() -> NamespaceQuery {
    NamespaceQuery { limit: 50, ..NamespaceQuery::default() }
}

pub async fn k1_the_id_of_a_deleted_thread_stays_with_its_owner(store: SharedStore) {
    let (alice, bob) = (scoped(&store, "alice"), scoped(&store, "bob"));
    let of = |name: &str, thread_id| Thread { assistant_id: assistant(name), thread_id, ..thread() };
    let thread_id = ThreadId::generate();
    let create = |name: &str| vec![Write::CreateThread(of(name, thread_id))];
    commit(&alice, create("alice")).await.unwrap();
    for _ in 0..2 {
        for (name, own) in [("bob", &bob as &dyn Store), ("bob", &*store), ("", &*store)] {
            let refused = commit(own, create(name)).await;
            assert!(matches!(refused, Err(Error::Conflict { what: "thread", .. })), "{name}: {refused:?}");
        }
        // An owner cannot create a thread for another owner.
        let foreign = commit(&bob, vec![Write::CreateThread(of("alice", ThreadId::generate()))]).await;
        assert!(matches!(foreign, Err(Error::NotFound { what: "assistant", .. })), "{foreign:?}");
        commit(&alice, vec![Write::DeleteThread { thread_id }]).await.ok();
    }
    commit(&alice, create("alice")).await.unwrap();
    assert!(alice.thread(thread_id).await.unwrap().is_some());
}

pub async fn k1_rows_of_a_thread_belong_to_its_owner(store: SharedStore) {
    let thread = Thread { assistant_id: assistant("alice"), ..thread() };
    let thread_id = thread.thread_id;
    commit(&*store, vec![Write::CreateThread(thread)]).await.unwrap();
    // Even an unscoped store does not mix the rows of two owners.
    for name in ["", "bob"] {
        let run = protocol::Run { assistant_id: assistant(name), ..run(thread_id, "one") };
        let waiting = protocol::Run { status: protocol::RunStatus::Pending, ..run.clone() };
        let handoff = protocol::Handoff { assistant_id: assistant(name), ..handoff(thread_id, 1) };
        for write in [Write::AdmitRun(run), Write::QueueRun(waiting), Write::CreateHandoff(handoff)] {
            let refused = commit(&*store, vec![write]).await;
            assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{name}: {refused:?}");
        }
    }
}

pub async fn k1_a_transaction_may_refer_to_rows_that_it_creates(store: SharedStore) {
    let alice = scoped(&store, "alice");
    let parent = Thread { assistant_id: assistant("alice"), ..thread() };
    let child = Thread {
        parent_id: Some(parent.thread_id),
        ..Thread { thread_id: ThreadId::generate(), ..parent.clone() }
    };
    let (thread_id, into) = (parent.thread_id, child.thread_id);
    let run = protocol::Run { assistant_id: assistant("alice"), ..run(thread_id, "one") };
    let handoff = protocol::Handoff {
        assistant_id: assistant("alice"),
        child_thread_id: into,
        ..handoff(thread_id, 1)
    };
    let writes = vec![
        Write::CreateThread(parent),
        Write::Append { thread_id, events: vec![human("hello")] },
        Write::CreateThread(child),
        Write::CopyEvents { from: thread_id, until: None, into },
        Write::AdmitRun(run.clone()),
        Write::UpdateRun {
            run_id: run.run_id,
            patch: journal::RunPatch { at: Some(at(2)), ..Default::default() },
        },
        Write::CreateHandoff(handoff.clone()),
        Write::PutProposal(crate::conformance::fixtures::proposal(&handoff, 0, "text")),
        Write::DeleteHandoff { handoff_id: handoff.handoff_id },
    ];
    // The last write fails, because the handoff has a proposal. The cache must not record ids of the failed transaction.
    let refused = commit(&alice, writes.clone()).await;
    assert!(matches!(refused, Err(Error::Conflict { what: "handoff", .. })), "{refused:?}");
    let bobs = Thread { assistant_id: assistant("bob"), thread_id, ..thread() };
    commit(&*store, vec![Write::CreateThread(bobs)]).await.unwrap();
    let late = commit(&alice, vec![Write::Append { thread_id, events: vec![human("mine?")] }]).await;
    assert!(matches!(late, Err(Error::NotFound { what: "thread", .. })), "{late:?}");
    let scope = scoped(&store, "carol");
    assert!(matches!(
        commit(&scope, writes[..8].to_vec()).await,
        Err(Error::NotFound { what: "assistant", .. })
    ));
}

pub async fn each_scope_sees_the_requested_rows(store: SharedStore) {
    let all = create_all_owners(&store).await;
    let everyone = ScopedStore::new(store.clone(), OwnerScope::Everyone);
    assert!(matches!(
        everyone.threads(ThreadFilter { limit: 9, ..Default::default() }).await,
        Err(Error::InvalidRequest { .. })
    ));
    for (scope, count) in [
        (OwnerScope::Everyone, 6),
        (OwnerScope::Owner(owner("alice")), 2),
        (OwnerScope::Owner(owner("bob")), 0),
    ] {
        let threads = everyone.threads(ThreadFilter::for_scope(scope.clone(), 50)).await.unwrap();
        assert_eq!(
            (threads.len(), everyone.thread_count(ThreadFilter::for_scope(scope, 0), None).await.unwrap()),
            (count, count as u64)
        );
    }
    assert_eq!(everyone.active_runs(None).await.unwrap().len(), 3);
    for (_, own, mine) in &all {
        assert_eq!(everyone.thread(mine.thread_id).await.unwrap(), own.thread(mine.thread_id).await.unwrap());
    }
    let rooted = everyone.item(&labels("@alice/birds"), "heron").await.unwrap().unwrap();
    assert_eq!(rooted.value["of"], "alice");
    let hits = everyone.search(everything()).await.unwrap().hits;
    assert_eq!(hits.len(), 15);
}
