//! The interrupt payload that asks for a decision about a proposal (contract §5).
//!
//! The payload is built from stored rows only, so that the text a person sees is the stored text.

use protocol::{ActionRequest, InterruptPayload, Proposal, ReviewConfig, SCHEMA_VERSION};
use serde_json::{Map, Value, json};

use crate::request::{DraftProblem, HandoffOptions};

/// The wire name of the middleware, for `middleware_source`.
pub const MIDDLEWARE_SOURCE: &str = "HandoffApprovalMiddleware";
/// The name of the action to decide about.
pub const ACTION_NAME: &str = "handoff_summary";
/// An alias of the action's name that decisions may use.
pub const ACTION_ALIAS: &str = "approve_handoff";

/// All arguments that a payload can have. A client may send each of them back with its decision.
pub(crate) const PAYLOAD_FIELDS: [&str; 18] = [
    "handoff_id",
    "assistant_id",
    "parent_thread_id",
    "summary_json",
    "package_md",
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

/// The part of the payload that does not come from the proposal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReviewContext {
    /// The options of the request.
    pub(crate) options: HandoffOptions,
    /// The number of messages in the parent after the covered range.
    pub(crate) uncovered_messages: u64,
    /// The number of refinements that remain; 0 also when no model could refine.
    pub(crate) remaining_refinements: u32,
    /// True if all refinements are used up.
    pub(crate) is_refinement_limit_reached: bool,
    /// All feedback so far, oldest first.
    pub(crate) feedback_history: Vec<String>,
    /// The problem with the newest draft, if there is one.
    pub(crate) problem: Option<DraftProblem>,
}

/// Returns the interrupt payload for `proposal`.
///
/// # Errors
///
/// When the summary cannot be serialized.
pub(crate) fn review_payload(
    proposal: &Proposal,
    context: &ReviewContext,
) -> Result<InterruptPayload, serde_json::Error> {
    let summary = &proposal.summary_json;
    let mut args = Map::new();
    args.insert("handoff_id".to_owned(), json!(proposal.handoff_id));
    args.insert("assistant_id".to_owned(), json!(summary.assistant_id));
    args.insert("parent_thread_id".to_owned(), json!(summary.parent_thread_id));
    args.insert("summary_json".to_owned(), serde_json::to_value(summary)?);
    args.insert("package_md".to_owned(), json!(proposal.package_md));
    // The name of version 1, which generic clients show and send back.
    args.insert("summary_md".to_owned(), json!(proposal.package_md));
    args.insert("summary_sha256".to_owned(), json!(proposal.summary_sha256));
    args.insert("preview_only".to_owned(), json!(context.options.preview_only));
    args.insert("iteration".to_owned(), json!(proposal.iteration));
    if let Some(feedback) = context.feedback_history.last() {
        args.insert("feedback".to_owned(), json!(feedback));
        args.insert("feedback_history".to_owned(), json!(context.feedback_history));
    }
    args.insert("uncovered_messages".to_owned(), json!(context.uncovered_messages));
    args.insert("remaining_refinements".to_owned(), json!(context.remaining_refinements));
    args.insert("initiated_by".to_owned(), json!(context.options.initiated_by()));
    let optional = [("goal", &context.options.goal), ("tool_call_id", &context.options.tool_call_id)];
    args.extend(optional.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text.as_ref()?)))));
    if let Some(problem) = &context.problem {
        args.insert("problem".to_owned(), json!(problem.problem));
        args.extend(problem.unused_feedback.iter().map(|text| ("unused_feedback".to_owned(), json!(text))));
    }
    // The decision `edit` carries feedback, so it is not allowed at the limit of refinements. The person can still
    // edit by approving a text of their own.
    let allowed = ["approve", "edit", "reject", "preview"].into_iter();
    let allowed = allowed
        .filter(|name| *name != "edit" || !context.is_refinement_limit_reached)
        .map(str::to_owned)
        .collect();
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
    use crate::review::edit::tests::shown_summary;

    #[test]
    fn g3_every_argument_of_the_payload_is_a_known_field_of_a_decision() {
        let summary_json = shown_summary();
        let proposal = Proposal {
            handoff_id: summary_json.handoff_id,
            iteration: 1,
            summary_json,
            package_md: "md".to_owned(),
            summary_sha256: "ab".to_owned(),
            feedback: Some("shorter".to_owned()),
            created_at: Timestamp::UNIX_EPOCH,
        };
        let options = HandoffOptions {
            goal: Some("ship".to_owned()),
            tool_call_id: Some("c1".to_owned()),
            ..HandoffOptions::default()
        };
        let unused_feedback = Some("longer".to_owned());
        let problem = DraftProblem { unused_feedback, ..DraftProblem::failed("no".to_owned()) };
        let context = ReviewContext {
            options,
            feedback_history: vec!["shorter".to_owned()],
            problem: Some(problem),
            ..ReviewContext::default()
        };
        let payload = review_payload(&proposal, &context).unwrap();
        let mut keys: Vec<&str> =
            payload.action_requests[0].args.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut known = PAYLOAD_FIELDS.to_vec();
        known.sort_unstable();
        assert_eq!(keys, known);
    }
}
