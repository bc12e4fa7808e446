//! The question about the tool calls that wait for approval. It is asked before a text that lists them is accepted.

use std::io;

use protocol::{Decision, Proposal};
use serde_json::{Map, json};
use terminal::{KeyChoice, Screen, ask};

/// The argument of an accept with the choice.
const CHOICE_ARG: &str = "pending_approvals";
/// The arguments with which an edit is not accepted.
const NOT_ACCEPTED_ARGS: [&str; 5] = ["save_draft", "feedback", "add", "revert_to", "redraft"];

/// The choices. The answers are the values of the argument.
const CHOICES: [KeyChoice<&str>; 4] = [
    KeyChoice { key: 't', label: "Move them to the new thread", answer: "transfer" },
    KeyChoice { key: 'c', label: "Cancel them", answer: "cancel" },
    KeyChoice { key: 'l', label: "Leave them here", answer: "leave" },
    KeyChoice { key: 'b', label: "Ask in both threads", answer: "copy" },
];

/// Returns the decision, with the user's choice about the calls if it accepts a text and the shown one lists any; `None` if the
/// user leaves the question.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub(super) fn ask_about_calls(
    screen: &Screen,
    shown: &Proposal,
    decision: Decision,
) -> io::Result<Option<Decision>> {
    let count = shown.summary_json.carried.pending_approvals.len();
    if count == 0 || !accepts_text(&decision) {
        return Ok(Some(decision));
    }
    screen.print_line(match count {
        1 => "1 call waits for approval in this thread:".to_owned(),
        _ => format!("{count} calls wait for approval in this thread:"),
    })?;
    Ok(ask(screen, &CHOICES, "Go back")?.map(|choice| with_choice(decision, choice)))
}

/// Returns whether the decision accepts a text.
fn accepts_text(decision: &Decision) -> bool {
    match decision {
        Decision::Approve { .. } => true,
        Decision::Edit { edited_action } => {
            !NOT_ACCEPTED_ARGS.iter().any(|arg| edited_action.args.contains_key(*arg))
        }
        Decision::Reject { .. } | Decision::Respond { .. } | Decision::Preview {} | Decision::Defer {} => {
            false
        }
    }
}

/// Returns the decision with the choice as an argument.
fn with_choice(mut decision: Decision, choice: &str) -> Decision {
    let choice = (CHOICE_ARG.to_owned(), json!(choice));
    match &mut decision {
        Decision::Approve { args, .. } => args.get_or_insert_with(Map::new).extend([choice]),
        Decision::Edit { edited_action } => edited_action.args.extend([choice]),
        Decision::Reject { .. } | Decision::Respond { .. } | Decision::Preview {} | Decision::Defer {} => {}
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_decision_that_accepts_a_text_gets_the_choice() {
        let edit = |args| json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args}});
        for (decision, accepts) in [
            (json!({"type": "approve"}), true),
            (json!({"type": "approve", "args": {"title": "t"}}), true),
            (edit(json!({"summary_json": {}})), true),
            (edit(json!({"summary_md": "x", "save_draft": true})), false),
            (edit(json!({"feedback": "x"})), false),
            (json!({"type": "reject"}), false),
        ] {
            let read: Decision = serde_json::from_value(decision.clone()).unwrap();
            assert_eq!(accepts_text(&read), accepts, "{decision}");
            let chosen = serde_json::to_value(with_choice(read, "leave")).unwrap();
            assert_eq!(chosen.to_string().contains("pending_approvals"), decision["type"] != "reject");
        }
    }
}
