//! Projects of threads, summaries and items, and queries that are limited to one.

use journal::{
    IndexHitKind, ProjectScope, SearchQuery, Store, SummaryProject, SummaryQuery, ThreadPatch,
    TurnSummarization, Write, assistant_label,
};
use protocol::{AssistantId, ParentKind, StoredItem, Thread, ThreadId};
use serde_json::Map;

use super::memory_fixtures::{current_version, newest_query, summarization, summary_texts};
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    append, at, commit, create, handoff, human, proposal, search_for, thread,
};

const ONE: &str = "/srv/one";
const TWO: &str = "/srv/two";

/// Creates a thread of the project, with a message.
async fn create_in(store: &dyn Store, project: Option<&str>, text: &str) -> ThreadId {
    let thread = Thread { project: project.map(str::to_owned), ..thread() };
    let thread_id = thread.thread_id;
    commit(store, vec![Write::CreateThread(thread)]).await.unwrap();
    append(store, thread_id, vec![human(text)]).await.unwrap();
    thread_id
}

async fn project_of(store: &dyn Store, thread_id: ThreadId) -> Option<String> {
    store.thread(thread_id).await.unwrap().unwrap().project
}

async fn move_to(store: &dyn Store, thread_id: ThreadId, project: &str) {
    let patch = ThreadPatch { project: Some(project.to_owned()), ..ThreadPatch::default() };
    commit(store, vec![Write::UpdateThread { thread_id, patch }]).await.unwrap();
}

fn scopes() -> [ProjectScope; 4] {
    let project = |path: &str| ProjectScope::Project(path.to_owned());
    [project(ONE), project(TWO), ProjectScope::Personal, project("/srv/three")]
}

pub async fn a_thread_has_its_own_project_or_that_of_its_parent(store: SharedStore) {
    let store = &*store;
    let parent = create_in(store, Some(ONE), "a").await;
    let child = |project: Option<&str>| Thread {
        parent_id: Some(parent),
        parent_kind: Some(ParentKind::Handoff),
        project: project.map(str::to_owned),
        ..thread()
    };
    let (inheriting, own) = (child(None), child(Some(TWO)));
    let (inheriting_id, own_id) = (inheriting.thread_id, own.thread_id);
    commit(store, vec![Write::CreateThread(inheriting), Write::CreateThread(own)]).await.unwrap();
    let personal = create(store).await;
    assert_eq!(project_of(store, parent).await.as_deref(), Some(ONE));
    assert_eq!(project_of(store, inheriting_id).await.as_deref(), Some(ONE));
    assert_eq!(project_of(store, own_id).await.as_deref(), Some(TWO));
    assert_eq!(project_of(store, personal).await, None);
    move_to(store, parent, TWO).await;
    assert_eq!(project_of(store, parent).await.as_deref(), Some(TWO));
    assert_eq!(project_of(store, inheriting_id).await.as_deref(), Some(ONE), "a child does not move along");
    commit(store, vec![Write::DeleteThread { thread_id: parent }]).await.unwrap();
    let again = Thread { thread_id: parent, ..thread() };
    commit(store, vec![Write::CreateThread(again)]).await.unwrap();
    assert_eq!(project_of(store, parent).await, None, "a thread that uses the id again has no project");
}

pub async fn summaries_are_listed_by_the_project_that_their_threads_had(store: SharedStore) {
    let store = &*store;
    let one = create_in(store, Some(ONE), "a").await;
    let two = create_in(store, Some(TWO), "b").await;
    let personal = create_in(store, None, "c").await;
    let again = create_in(store, Some(TWO), "d").await;
    for (thread_id, turn, text) in [(one, 1, "of one"), (two, 2, "of two"), (personal, 3, "of none")] {
        let transfer = summarization(thread_id, (turn, turn), text);
        commit(store, vec![Write::SummarizeTurns(transfer)]).await.unwrap();
    }
    append(store, one, vec![human("e")]).await.unwrap();
    let several = TurnSummarization {
        thread_id: None,
        thread_versions: vec![current_version(again), current_version(one)],
        ..summarization(again, (4, 5), "of both")
    };
    commit(store, vec![Write::SummarizeTurns(several)]).await.unwrap();
    let texts = async |project: ProjectScope| {
        let mut texts = summary_texts(store, SummaryQuery { project, ..newest_query() }).await;
        texts.sort_unstable();
        texts
    };
    let [of_one, of_two, of_none, of_three] = scopes();
    assert_eq!(texts(of_one.clone()).await, ["of one"]);
    assert_eq!(texts(of_two.clone()).await, ["of two"]);
    assert_eq!(texts(of_none).await, ["of none"]);
    assert_eq!(texts(of_three).await, Vec::<String>::new());
    assert_eq!(texts(ProjectScope::OfThread(again)).await, ["of two"]);
    assert_eq!(texts(ProjectScope::OfThread(personal)).await, ["of none"]);
    assert_eq!(texts(ProjectScope::OfThread(ThreadId::generate())).await, Vec::<String>::new());
    assert_eq!(texts(ProjectScope::Any).await, ["of both", "of none", "of one", "of two"]);
    let own = ProjectScope::OfThread(two);
    let excluded = SummaryQuery { project: own, except_thread: Some(two), ..newest_query() };
    assert_eq!(summary_texts(store, excluded).await, Vec::<String>::new());
    let mut projects: Vec<(String, SummaryProject)> = store
        .summaries(newest_query())
        .await
        .unwrap()
        .into_iter()
        .map(|stored| (stored.summary.summary_text, stored.project))
        .collect();
    projects.sort_by(|left, right| left.0.cmp(&right.0));
    assert_eq!(projects[0].1, SummaryProject::Several);
    assert_eq!(projects[1].1, SummaryProject::Personal);
    assert_eq!(projects[2].1, SummaryProject::Project(ONE.to_owned()));
    // What was summarized in a project stays there when its thread moves on.
    move_to(store, one, TWO).await;
    assert_eq!(texts(of_one).await, ["of one"]);
    assert_eq!(texts(of_two).await, ["of two"]);
}

pub async fn a_search_finds_only_documents_of_its_project(store: SharedStore) {
    let store = &*store;
    let mut threads = Vec::new();
    for (project, turn) in [(Some(ONE), 1), (Some(TWO), 2), (None, 3)] {
        let thread_id = create_in(store, project, "a heron").await;
        let handed_off = handoff(thread_id, 1);
        let item = StoredItem {
            namespace: vec!["agents".to_owned(), assistant_label(&AssistantId::default(), project)],
            key: "heron".to_owned(),
            value: Map::new(),
            created_at: at(1),
            updated_at: at(turn),
        };
        let writes = vec![
            Write::SummarizeTurns(summarization(thread_id, (turn as u64, turn as u64), "a heron was seen")),
            Write::PutProposal(proposal(&handed_off, 0, "count the herons")),
            Write::PutItem(item),
        ];
        let writes = [vec![Write::CreateHandoff(handed_off)], writes].concat();
        commit(store, writes).await.unwrap();
        threads.push(thread_id);
    }
    let client_item = StoredItem {
        namespace: vec!["birds".to_owned(), "agents".to_owned(), "agent".to_owned()],
        key: "heron".to_owned(),
        value: Map::new(),
        created_at: at(1),
        updated_at: at(9),
    };
    commit(store, vec![Write::PutItem(client_item)]).await.unwrap();
    use IndexHitKind::{Handoff, Item, Message, Summary};
    let found = async |project: ProjectScope, kind: IndexHitKind| {
        let query = SearchQuery { project, kinds: vec![kind], ..search_for("heron") };
        store.search(query).await.unwrap().hits.len()
    };
    for scope in scopes().into_iter().take(3).chain(threads.iter().map(|id| ProjectScope::OfThread(*id))) {
        let mut counts = Vec::new();
        for kind in [Message, Summary, Handoff, Item] {
            counts.push(found(scope.clone(), kind).await);
        }
        assert_eq!(counts, [1, 1, 1, 2], "{scope:?}");
    }
    assert_eq!(found(ProjectScope::Project("/srv/three".to_owned()), Message).await, 0);
    assert_eq!(found(ProjectScope::Any, Message).await, 3);
    assert_eq!(found(ProjectScope::Any, Item).await, 4);
}
