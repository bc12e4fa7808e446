//! Tests of the handoff state machine: transitions, the views for clients, and unreadable states.

use protocol::ThreadId;
use serde_json::{Value, json};

use super::*;
use crate::request::HandoffOptions;

fn metadata() -> HandoffMetadata {
    HandoffMetadata {
        handoff_id: id(1).parse().unwrap(),
        assistant_id: "agent".parse().unwrap(),
        parent_thread_id: id(2).parse().unwrap(),
        created_at: Timestamp::UNIX_EPOCH,
        options: HandoffOptions::default(),
    }
}

fn id(n: u8) -> String {
    format!("0192f0c1-2d3e-7a4b-8c5d-6e7f8091000{n}")
}

fn child() -> ThreadId {
    id(3).parse().unwrap()
}

fn proposal(iteration: u32) -> ProposalRef {
    let summary_sha256 = Some(format!("sha of {iteration}"));
    ProposalRef { handoff_id: metadata().handoff_id, iteration, summary_sha256 }
}

fn refine(feedback: &str) -> Revision {
    Revision::Refine(Refinement {
        iteration: 0,
        feedback: feedback.to_owned(),
        summary_md: "the text before".to_owned(),
        timestamp: Timestamp::UNIX_EPOCH,
    })
}

fn redraft(model: Option<&str>) -> Revision {
    Revision::Redraft { model: model.map(str::to_owned) }
}

fn requested() -> HandoffState {
    HandoffState::Requested { handoff: Box::new(HandoffInProgress::new(metadata())) }
}

fn awaiting(iteration: u32) -> HandoffState {
    let handoff = Box::new(HandoffInProgress::new(metadata()));
    HandoffState::AwaitingDecision { handoff, proposal: proposal(iteration), problem: None }
}

fn redrafting(revision: Revision) -> HandoffState {
    let handoff = Box::new(HandoffInProgress::new(metadata()));
    HandoffState::Redrafting { handoff, proposal: proposal(0), revision }
}

/// Returns a short description of a state.
pub(super) fn describe_state(state: &HandoffState) -> String {
    let history = |handoff: &HandoffInProgress| {
        let feedback: Vec<&str> =
            handoff.refinements.iter().map(|refinement| refinement.feedback.as_str()).collect();
        let model = handoff.model.as_deref().map(|model| format!(" by {model}")).unwrap_or_default();
        format!("{}{model}", if feedback.is_empty() { String::new() } else { format!(" after {feedback:?}") })
    };
    match state {
        HandoffState::Requested { handoff } => format!("requested{}", history(handoff)),
        HandoffState::AwaitingDecision { handoff, proposal, problem } => {
            let problem = problem.as_ref().map(|problem| {
                let unused = problem.unused_feedback.as_deref().unwrap_or("nothing");
                format!(", {} with {unused} unused", problem.problem)
            });
            format!("awaiting {}{}{}", proposal.iteration, history(handoff), problem.unwrap_or_default())
        }
        HandoffState::Redrafting { handoff, proposal, revision } => {
            let reason = match revision {
                Revision::Refine(refinement) => refinement.feedback.clone(),
                Revision::Redraft { model } => format!("{model:?}"),
                Revision::CoverNewer { covered_until, .. } => format!("newer than {covered_until}"),
            };
            format!("redrafting {} for {reason}{}", proposal.iteration, history(handoff))
        }
        HandoffState::Accepted { child_thread_id } => {
            format!("accepted as …{}", &child_thread_id.to_string()[32..])
        }
        HandoffState::Declined => "declined".to_owned(),
        HandoffState::Previewed => "previewed".to_owned(),
    }
}

/// Returns one input of each kind, with a name for the tables.
fn inputs() -> Vec<(&'static str, HandoffInput)> {
    vec![
        ("propose", HandoffInput::Propose { proposal: proposal(1), problem: None }),
        (
            "propose offline",
            HandoffInput::Propose {
                proposal: proposal(1),
                problem: Some(DraftProblem::failed("no".to_owned())),
            },
        ),
        ("keep", HandoffInput::KeepProposal { problem: Some("empty".to_owned()) }),
        ("stop", HandoffInput::KeepProposal { problem: None }),
        ("refine", HandoffInput::Revise(refine("shorter"))),
        ("redraft", HandoffInput::Revise(redraft(None))),
        ("redraft by", HandoffInput::Revise(redraft(Some("a/b")))),
        (
            "cover newer",
            HandoffInput::Revise(Revision::CoverNewer { summary_md: "before".to_owned(), covered_until: 7 }),
        ),
        ("redraft offline", HandoffInput::Revise(redraft(Some(OFFLINE_SUMMARY_MODEL)))),
        ("replace", HandoffInput::ReplaceProposal(proposal(2))),
        ("accept", HandoffInput::Accept { child_thread_id: child() }),
        ("decline", HandoffInput::Decline),
        ("preview", HandoffInput::Preview),
    ]
}

/// Checks every input in `state`: the listed ones lead to the described states, all others are rejected.
#[track_caller]
fn check(state: &HandoffState, expected: &[(&str, &str)]) {
    for (name, input) in inputs() {
        let actual = state.clone().transition(input).map(|next| describe_state(&next)).ok();
        let listed = expected.iter().find(|(listed, _)| *listed == name).map(|(_, next)| (*next).to_owned());
        assert_eq!(actual, listed, "{name} from {}", describe_state(state));
    }
}

#[test]
fn a_requested_handoff_accepts_only_a_proposal() {
    check(
        &requested(),
        &[("propose", "awaiting 1"), ("propose offline", "awaiting 1, no with nothing unused")],
    );
}

#[test]
fn a_proposal_can_be_decided_revised_or_reverted() {
    check(
        &awaiting(0),
        &[
            ("refine", "redrafting 0 for shorter"),
            ("redraft", "redrafting 0 for None"),
            ("redraft by", "redrafting 0 for Some(\"a/b\") by a/b"),
            ("redraft offline", "redrafting 0 for Some(\"extractive\")"),
            ("cover newer", "redrafting 0 for newer than 7"),
            ("replace", "awaiting 2"),
            ("accept", "accepted as …0003"),
            ("decline", "declined"),
            ("preview", "previewed"),
        ],
    );
}

#[test]
fn another_draft_leads_to_a_new_proposal_or_keeps_the_last_good_one() {
    check(
        &redrafting(refine("longer")),
        &[
            ("propose", "awaiting 1 after [\"longer\"]"),
            ("propose offline", "awaiting 1 after [\"longer\"], no with nothing unused"),
            ("keep", "awaiting 0 after [\"longer\"], empty with longer unused"),
            ("stop", "awaiting 0 after [\"longer\"]"),
        ],
    );
    check(
        &redrafting(redraft(Some("a/b"))),
        &[
            ("propose", "awaiting 1"),
            ("propose offline", "awaiting 1, no with nothing unused"),
            ("keep", "awaiting 0, empty with nothing unused"),
            ("stop", "awaiting 0"),
        ],
    );
}

#[test]
fn a_decided_handoff_accepts_no_input() {
    for state in
        [HandoffState::Accepted { child_thread_id: child() }, HandoffState::Declined, HandoffState::Previewed]
    {
        check(&state, &[]);
    }
}

#[test]
fn clients_see_the_keys_of_the_contract_and_nothing_private() {
    let reference = |iteration| json!(proposal(iteration));
    let check = |state: &HandoffState, expected: Value| {
        let channels = state.channels();
        let shown = channels.iter().filter(|(key, value)| !key.starts_with('_') && !value.is_null());
        let shown: Channels = shown.map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(Value::Object(shown), expected, "{}", describe_state(state));
    };
    check(&requested(), json!({"handoff_requested": true}));
    check(&awaiting(1), json!({"handoff_requested": true, "handoff_proposal": reference(1)}));
    check(&redrafting(refine("x")), json!({"handoff_requested": true, "handoff_proposal": reference(0)}));
    check(
        &HandoffState::Accepted { child_thread_id: child() },
        json!({"handoff_decision": {"type": "approve"}, "handoff_approved": true, "child_thread_id": child()}),
    );
    check(
        &HandoffState::Declined,
        json!({"handoff_decision": {"type": "reject"}, "handoff_approved": false}),
    );
    check(
        &HandoffState::Previewed,
        json!({"handoff_decision": {"type": "preview"}, "handoff_approved": false}),
    );
}

#[test]
fn a_stored_state_is_read_back_and_an_unreadable_state_is_an_error() {
    for state in
        [requested(), awaiting(1), redrafting(refine("x")), redrafting(redraft(None)), HandoffState::Declined]
    {
        let mut channels = state.channels();
        channels.retain(|_, value| !value.is_null());
        assert_eq!(HandoffState::read(&channels), Ok(Some(state)));
    }
    for unreadable in [json!("declined"), json!({"stage": "paused"}), json!({"stage": "requested"})] {
        let mut channels = HandoffState::Declined.channels();
        channels.insert("_handoff".to_owned(), unreadable);
        assert_eq!(HandoffState::read(&channels).unwrap_err().key, "_handoff");
    }
    assert_eq!(HandoffState::read(&Channels::new()), Ok(None));
}

#[test]
fn a_step_writes_only_the_channels_it_changes() {
    let mut before = awaiting(0).channels();
    before.retain(|_, value| !value.is_null());
    let written = changed_channels(HandoffState::Declined.channels(), &before);
    let mut keys: Vec<&str> = written.keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected =
        ["_handoff", "handoff_approved", "handoff_decision", "handoff_proposal", "handoff_requested"];
    assert_eq!(keys, expected);
    assert_eq!(changed_channels(awaiting(0).channels(), &before), Channels::new());
}
