//! Durable facts and revisions of agent.md: proposals without repetitions, decisions of which the first wins, and deletion.

use journal::{
    Error, FactDecision, FactKind, FactProposal, FactQuery, FactScope, FactSource, FactState, MemoryFact,
    NOTES_REVISIONS_MAX, NotesRevisionQuery, NotesRevisionRecord, ProjectScope, RevisionCause, Store, Write,
};
use protocol::{AssistantId, FactId, MessageRole, SummaryId, Thread, ThreadId};

use super::memory_fixtures::{append_turns, summarization, summarize_turns};
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{at, commit, create, rewind, thread};

/// Returns a proposed fact of the project of the thread.
pub fn proposal(thread_id: ThreadId, text: &str) -> FactProposal {
    FactProposal {
        fact_id: FactId::generate(),
        agent_id: AssistantId::default(),
        scope: FactScope::Project,
        kind: FactKind::Preference,
        text: text.to_owned(),
        quote: format!("I said: {text}"),
        source: FactSource { thread_id, seq: 1, role: MessageRole::User },
        summary_id: SummaryId::generate(),
        replaces: Some("- an old note".to_owned()),
        created_at: at(3),
    }
}

/// Returns a decision on a proposed fact.
pub fn decision(fact_id: FactId, to: FactState) -> FactDecision {
    FactDecision { fact_id, from: FactState::Proposed, to, text: None, at: at(4) }
}

/// Returns a revision of the notes.
pub fn revision(notes: &[u8]) -> NotesRevisionRecord {
    NotesRevisionRecord {
        agent_id: AssistantId::default(),
        cause: RevisionCause::Remember,
        notes: notes.to_vec(),
        block_offset: Some(2),
        at: at(5),
    }
}

async fn facts(store: &dyn Store, query: FactQuery) -> Vec<MemoryFact> {
    store.facts(query).await.unwrap()
}

async fn texts(store: &dyn Store, query: FactQuery) -> Vec<String> {
    facts(store, query).await.into_iter().map(|fact| fact.text).collect()
}

fn every_fact() -> FactQuery {
    FactQuery::for_agent(AssistantId::default())
}

async fn propose(store: &dyn Store, thread_id: ThreadId, text: &str) -> FactId {
    let fact = proposal(thread_id, text);
    let fact_id = fact.fact_id;
    commit(store, vec![Write::ProposeFact(fact)]).await.unwrap();
    fact_id
}

pub async fn a_proposed_fact_is_read_with_its_source(store: SharedStore) {
    let thread_id = create(&*store).await;
    let fact = proposal(thread_id, "Prefers tabs.");
    commit(&*store, vec![Write::ProposeFact(fact.clone())]).await.unwrap();
    let expected = MemoryFact {
        fact_id: fact.fact_id,
        agent_id: fact.agent_id,
        project: None,
        kind: FactKind::Preference,
        text: fact.text,
        quote: fact.quote,
        thread_id: Some(thread_id),
        seq: 1,
        role: MessageRole::User,
        summary_id: fact.summary_id,
        replaces: fact.replaces,
        state: FactState::Proposed,
        decided_text: None,
        decided_at: None,
        is_note_pending: false,
        created_at: fact.created_at,
    };
    assert_eq!(store.fact(expected.fact_id).await.unwrap().as_ref(), Some(&expected));
    assert_eq!(store.memory_counts(&AssistantId::default()).await.unwrap().proposed_facts, 1);
    let id = expected.fact_id.to_string().to_uppercase().replace('-', "");
    for (id_prefix, is_found) in [(&id[..], true), (&id[..13], true), ("", true), ("x", false)] {
        let query = FactQuery { id_prefix: id_prefix.to_owned(), ..every_fact() };
        assert_eq!(facts(&*store, query).await.len(), usize::from(is_found), "{id_prefix}");
    }
    assert_eq!(store.fact(FactId::generate()).await.unwrap(), None);
    let foreign = FactProposal { agent_id: "reviewer".parse().unwrap(), ..proposal(thread_id, "other") };
    let refused = commit(&*store, vec![Write::ProposeFact(foreign)]).await;
    assert!(matches!(refused, Err(Error::Conflict { .. } | Error::NotFound { .. })), "{refused:?}");
    let missing = Write::ProposeFact(proposal(ThreadId::generate(), "other"));
    assert!(matches!(commit(&*store, vec![missing]).await, Err(Error::NotFound { .. })));
}

pub async fn facts_are_listed_by_state_and_project_in_pages(store: SharedStore) {
    let in_project = async |project: Option<&str>| {
        let thread = Thread { project: project.map(str::to_owned), ..thread() };
        let thread_id = thread.thread_id;
        commit(&*store, vec![Write::CreateThread(thread)]).await.unwrap();
        thread_id
    };
    let (a, b, none) = (in_project(Some("/a")).await, in_project(Some("/b")).await, in_project(None).await);
    let of_a = propose(&*store, a, "of a").await;
    propose(&*store, b, "of b").await;
    propose(&*store, none, "of none").await;
    let personal = FactProposal { scope: FactScope::Personal, ..proposal(a, "of all") };
    commit(&*store, vec![Write::ProposeFact(personal)]).await.unwrap();
    let of = |project| FactQuery { project, ..every_fact() };
    for (project, expected) in [
        (ProjectScope::Any, vec!["of a", "of b", "of none", "of all"]),
        (ProjectScope::Project("/a".to_owned()), vec!["of a", "of none", "of all"]),
        (ProjectScope::OfThread(b), vec!["of b", "of none", "of all"]),
        (ProjectScope::Personal, vec!["of none", "of all"]),
        (ProjectScope::Project("/c".to_owned()), vec!["of none", "of all"]),
    ] {
        assert_eq!(texts(&*store, of(project.clone())).await, expected, "{project:?}");
    }
    assert_eq!(facts(&*store, every_fact()).await[0].project.as_deref(), Some("/a"));
    commit(&*store, vec![Write::DecideFact(decision(of_a, FactState::Declined))]).await.unwrap();
    let declined = FactQuery { states: vec![FactState::Declined], ..every_fact() };
    assert_eq!(texts(&*store, declined).await, ["of a"]);
    let undecided = FactQuery { states: vec![FactState::Proposed], offset: 1, limit: 1, ..every_fact() };
    assert_eq!(texts(&*store, undecided).await, ["of none"]);
    let either = FactQuery { states: vec![FactState::Proposed, FactState::Declined], ..every_fact() };
    assert_eq!(texts(&*store, either).await.len(), 4);
    let refused = store.facts(FactQuery { limit: 0, ..every_fact() }).await;
    assert!(matches!(refused, Err(Error::InvalidRequest { .. })));
    // The project stays as long as a fact belongs to it.
    commit(&*store, vec![Write::DeleteThread { thread_id: a }]).await.unwrap();
    assert_eq!(store.fact(of_a).await.unwrap().unwrap().project.as_deref(), Some("/a"));
}

pub async fn a_fact_is_not_proposed_again_whatever_was_decided(store: SharedStore) {
    let thread_id = create(&*store).await;
    let first = propose(&*store, thread_id, "Prefers tabs.").await;
    propose(&*store, thread_id, "prefers  TABS").await;
    propose(&*store, thread_id, "Prefers tabs ?!").await;
    assert_eq!(texts(&*store, every_fact()).await, ["Prefers tabs."]);
    commit(&*store, vec![Write::DecideFact(decision(first, FactState::Declined))]).await.unwrap();
    propose(&*store, thread_id, "Prefers tabs").await;
    assert_eq!(texts(&*store, every_fact()).await, ["Prefers tabs."]);
    propose(&*store, thread_id, "Prefers blanks.").await;
    assert_eq!(texts(&*store, every_fact()).await.len(), 2);
    // A fact that was true once can become true again.
    let first = propose(&*store, thread_id, "Uses MySQL.").await;
    for (from, to) in
        [(FactState::Proposed, FactState::Accepted), (FactState::Accepted, FactState::Superseded)]
    {
        let decided = FactDecision { from, ..decision(first, to) };
        commit(&*store, vec![Write::DecideFact(decided)]).await.unwrap();
    }
    let again = propose(&*store, thread_id, "Uses MySQL.").await;
    assert_eq!(store.fact(again).await.unwrap().unwrap().state, FactState::Proposed);
}

pub async fn of_several_decisions_on_a_fact_the_first_wins(store: SharedStore) {
    let thread_id = create(&*store).await;
    let fact_id = propose(&*store, thread_id, "Prefers tabs.").await;
    let decide = async |decision| commit(&*store, vec![Write::DecideFact(decision)]).await;
    let text = Some("Prefers tabs in Go.".to_owned());
    decide(FactDecision { text: text.clone(), ..decision(fact_id, FactState::Edited) }).await.unwrap();
    for to in [FactState::Accepted, FactState::Declined, FactState::Edited] {
        let refused = decide(decision(fact_id, to)).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
    let fact = store.fact(fact_id).await.unwrap().unwrap();
    assert_eq!((fact.state, &fact.decided_text, fact.decided_at), (FactState::Edited, &text, Some(at(4))));
    let backwards = FactDecision { from: FactState::Edited, ..decision(fact_id, FactState::Declined) };
    assert!(matches!(decide(backwards).await, Err(Error::InvalidRequest { .. })));
    let superseded = FactDecision { from: FactState::Edited, ..decision(fact_id, FactState::Superseded) };
    decide(superseded).await.unwrap();
    let fact = store.fact(fact_id).await.unwrap().unwrap();
    assert_eq!((fact.state, fact.decided_text), (FactState::Superseded, text));
    let missing = decide(decision(FactId::generate(), FactState::Declined)).await;
    assert!(matches!(missing, Err(Error::NotFound { what: "fact", .. })), "{missing:?}");
}

pub async fn the_note_of_an_accepted_fact_is_pending_until_it_is_confirmed(store: SharedStore) {
    let thread_id = create(&*store).await;
    let fact_id = propose(&*store, thread_id, "Prefers tabs.").await;
    let decide = async |from, to, text: Option<&str>| {
        let decision = FactDecision { fact_id, from, to, text: text.map(str::to_owned), at: at(4) };
        commit(&*store, vec![Write::DecideFact(decision)]).await
    };
    let pending = || FactQuery { is_note_pending: true, ..every_fact() };
    let (proposed, accepted) = (FactState::Proposed, FactState::Accepted);
    assert_eq!(facts(&*store, pending()).await, []);
    decide(proposed, accepted, Some("- Prefers tabs.")).await.unwrap();
    assert!(facts(&*store, pending()).await[0].is_note_pending);
    decide(accepted, proposed, None).await.unwrap();
    let undone = store.fact(fact_id).await.unwrap().unwrap();
    let found = (undone.state, undone.decided_text, undone.decided_at, undone.is_note_pending);
    assert_eq!(found, (proposed, None, None, false));
    decide(proposed, accepted, Some("- Prefers tabs.")).await.unwrap();
    decide(accepted, accepted, None).await.unwrap();
    assert_eq!(facts(&*store, pending()).await, []);
    let confirmed = store.fact(fact_id).await.unwrap().unwrap();
    assert_eq!((confirmed.state, confirmed.decided_text.as_deref()), (accepted, Some("- Prefers tabs.")));
    for to in [accepted, proposed] {
        let refused = decide(accepted, to, None).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
}

pub async fn a8_a_summary_that_is_not_stored_proposes_nothing(store: SharedStore) {
    let thread_id = create(&*store).await;
    append_turns(&*store, thread_id, 2).await;
    let stale = journal::TurnSummarization { turns: 1, ..summarization(thread_id, (1, 2), "a summary") };
    let fact = Write::ProposeFact(proposal(thread_id, "Prefers tabs."));
    let refused = commit(&*store, vec![Write::SummarizeTurns(stale), fact]).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    assert_eq!(facts(&*store, every_fact()).await, []);
}

pub async fn k9_undecided_facts_are_deleted_with_their_source(store: SharedStore) {
    let (thread_id, other) = (create(&*store).await, create(&*store).await);
    append_turns(&*store, thread_id, 2).await;
    let kept = propose(&*store, thread_id, "kept").await;
    propose(&*store, thread_id, "undecided").await;
    propose(&*store, other, "of another thread").await;
    let accept = FactDecision { text: Some("- kept".to_owned()), ..decision(kept, FactState::Accepted) };
    commit(&*store, vec![Write::DecideFact(accept)]).await.unwrap();
    let summary = summarize_turns(&*store, thread_id, (1, 2), ("We talked.", (1, 2))).await;
    let of_summary = FactProposal { summary_id: summary.id, ..proposal(thread_id, "of a rewound message") };
    commit(&*store, vec![Write::ProposeFact(of_summary)]).await.unwrap();
    rewind(&*store, thread_id, 0).await.unwrap();
    let without_rewound = ["kept", "undecided", "of another thread"];
    assert_eq!(texts(&*store, every_fact()).await, without_rewound, "the summary is removed with its facts");
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    assert_eq!(texts(&*store, every_fact()).await, ["kept", "of another thread"]);
    let fact = store.fact(kept).await.unwrap().unwrap();
    assert_eq!((fact.quote.as_str(), fact.thread_id), ("", None), "words of a deleted thread are not kept");
    // The thread is created again; the fact is not about it.
    commit(&*store, vec![Write::CreateThread(Thread { thread_id, ..thread() })]).await.unwrap();
    assert_eq!(store.fact(kept).await.unwrap().unwrap().thread_id, None);
}

pub async fn revisions_of_the_notes_are_numbered_and_stored_once(store: SharedStore) {
    let record = async |notes: &[u8]| {
        commit(&*store, vec![Write::RecordNotesRevision(revision(notes))]).await.unwrap();
    };
    for notes in [&b"one"[..], b"one", b"not UTF-8: \xff\0\r\n", b"one"] {
        record(notes).await;
    }
    let query = NotesRevisionQuery { agent_id: AssistantId::default(), before: None, limit: 9 };
    let revisions = store.notes_revisions(query.clone()).await.unwrap();
    let found: Vec<_> = revisions.iter().map(|found| (found.number, found.notes.as_slice())).collect();
    assert_eq!(found, [(3, &b"one"[..]), (2, b"not UTF-8: \xff\0\r\n"), (1, b"one")]);
    let newest = &revisions[0];
    assert_eq!((newest.cause, newest.block_offset), (RevisionCause::Remember, Some(2)));
    assert_eq!((newest.created_at, newest.sha256.len()), (at(5), 64));
    let second = NotesRevisionQuery { before: Some(3), limit: 1, ..query.clone() };
    assert_eq!(store.notes_revisions(second).await.unwrap()[0].number, 2);
    let others = NotesRevisionQuery { agent_id: "reviewer".parse().unwrap(), ..query.clone() };
    assert_eq!(store.notes_revisions(others).await.unwrap(), []);
    let writes = (4..=NOTES_REVISIONS_MAX + 2)
        .map(|number| Write::RecordNotesRevision(revision(number.to_string().as_bytes())));
    commit(&*store, writes.collect()).await.unwrap();
    let all = NotesRevisionQuery { limit: 5_000, ..query };
    let revisions = store.notes_revisions(all).await.unwrap();
    let bounds = revisions.first().zip(revisions.last()).map(|(first, last)| (first.number, last.number));
    assert_eq!(bounds, Some((NOTES_REVISIONS_MAX + 2, 3)), "the oldest are deleted");
}
