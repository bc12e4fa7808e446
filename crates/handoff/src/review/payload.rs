//! The interrupt payload that asks for a decision about a proposal (contract §5). It is built from stored rows only,
//! so that what is shown is what is stored.

use protocol::{ActionRequest, InterruptPayload, Proposal, ReviewConfig, SCHEMA_VERSION};
use serde_json::{Map, Value, json};

use crate::request::{Options, Problem};

/// The wire name of the middleware that asks.
pub const MIDDLEWARE_SOURCE: &str = "HandoffApprovalMiddleware";
/// The name of the action.
pub const ACTION_NAME: &str = "handoff_summary";
/// Another name of the action that readers accept.
pub const ACTION_ALIAS: &str = "approve_handoff";

/// Everything a question may show; a client may send it back with its answer.
pub(crate) const SHOWN: [&str; 17] = [
    "handoff_id",
    "assistant_id",
    "parent_thread_id",
    "summary_json",
    "summary_md",
    "summary_sha256",
    "preview_only",
    "iteration",
    "feedback",
    "feedback_history",
    "uncovered_messages",
    "remaining_refinements",
    "initiated_by",
    "goal",
    "tool_call_id",
    "problem",
    "unused_feedback",
];

/// What the payload says beside the proposal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Situation {
    /// How the handoff was asked for.
    pub(crate) options: Options,
    /// Messages of the parent that came after what the summary covers.
    pub(crate) uncovered_messages: u64,
    pub(crate) remaining_refinements: u32,
    /// Whether the person has used up all refinements.
    pub(crate) is_capped: bool,
    /// All feedback so far, oldest first.
    pub(crate) feedback_history: Vec<String>,
    /// What was wrong with the newest draft.
    pub(crate) problem: Option<Problem>,
}

/// Returns the payload for `proposal`.
pub(crate) fn payload(
    proposal: &Proposal,
    situation: &Situation,
) -> Result<InterruptPayload, serde_json::Error> {
    let summary = &proposal.summary_json;
    let mut args = Map::new();
    args.insert("handoff_id".to_owned(), json!(proposal.handoff_id));
    args.insert("assistant_id".to_owned(), json!(summary.assistant_id));
    args.insert("parent_thread_id".to_owned(), json!(summary.parent_thread_id));
    args.insert("summary_json".to_owned(), serde_json::to_value(summary)?);
    args.insert("summary_md".to_owned(), json!(proposal.summary_md));
    args.insert("summary_sha256".to_owned(), json!(proposal.summary_sha256));
    args.insert("preview_only".to_owned(), json!(situation.options.preview_only));
    args.insert("iteration".to_owned(), json!(proposal.iteration));
    if let Some(feedback) = situation.feedback_history.last() {
        args.insert("feedback".to_owned(), json!(feedback));
        args.insert("feedback_history".to_owned(), json!(situation.feedback_history));
    }
    args.insert("uncovered_messages".to_owned(), json!(situation.uncovered_messages));
    args.insert("remaining_refinements".to_owned(), json!(situation.remaining_refinements));
    args.insert("initiated_by".to_owned(), json!(situation.options.initiated_by()));
    let more = [("goal", &situation.options.goal), ("tool_call_id", &situation.options.tool_call_id)];
    args.extend(more.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text.as_ref()?)))));
    if let Some(problem) = &situation.problem {
        args.insert("problem".to_owned(), json!(problem.problem));
        args.extend(problem.unused_feedback.iter().map(|text| ("unused_feedback".to_owned(), json!(text))));
    }
    // The decision `edit` carries feedback; at the cap a person still edits by approving a text of their own.
    let allowed = ["approve", "edit", "reject", "preview"].into_iter();
    let allowed = allowed.filter(|name| *name != "edit" || !situation.is_capped).map(str::to_owned).collect();
    Ok(InterruptPayload {
        schema_version: SCHEMA_VERSION,
        middleware_source: MIDDLEWARE_SOURCE.to_owned(),
        action_requests: vec![ActionRequest {
            name: ACTION_NAME.to_owned(),
            description: "Preview handoff summary for approval".to_owned(),
            args: Value::Object(args),
            details: None,
        }],
        review_configs: vec![ReviewConfig {
            action_name: ACTION_NAME.to_owned(),
            allowed_decisions: allowed,
        }],
        workspace: None,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::review::edit::tests::shown;

    #[test]
    fn g3_whatever_a_question_shows_can_be_sent_back_with_the_answer() {
        let summary_json = shown();
        let proposal = Proposal {
            handoff_id: summary_json.handoff_id,
            iteration: 1,
            summary_json,
            summary_md: "md".to_owned(),
            summary_sha256: "ab".to_owned(),
            feedback: Some("shorter".to_owned()),
            created_at: Timestamp::UNIX_EPOCH,
        };
        let options = Options {
            goal: Some("ship".to_owned()),
            tool_call_id: Some("c1".to_owned()),
            ..Options::default()
        };
        let problem = Problem { problem: "no".to_owned(), unused_feedback: Some("longer".to_owned()) };
        let situation = Situation {
            options,
            feedback_history: vec!["shorter".to_owned()],
            problem: Some(problem),
            ..Situation::default()
        };
        let payload = payload(&proposal, &situation).unwrap();
        let mut keys: Vec<&str> =
            payload.action_requests[0].args.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut known = SHOWN.to_vec();
        known.sort_unstable();
        assert_eq!(keys, known);
    }
}
