//! Table tests of decisions and their outcomes. Parsing of edited texts is tested in `review::edit`.

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::review::edit::tests::shown_summary as summary;
use crate::summary::render;

fn proposal() -> Proposal {
    let summary_json = summary();
    Proposal {
        handoff_id: summary_json.handoff_id,
        iteration: 0,
        package_md: render::render_summary(&summary_json),
        summary_sha256: "ab".to_owned(),
        summary_json,
        feedback: None,
        created_at: Timestamp::UNIX_EPOCH,
    }
}

/// Returns the choice about waiting calls, unless it is the default.
fn describe_calls(calls: WaitingCalls) -> String {
    if calls == WaitingCalls::default() { String::new() } else { format!(", {calls:?}") }
}

/// Returns a short description of the outcome of a decision.
fn describe_outcome(shown: &Proposal, answer: &Value) -> String {
    let decision: Decision = serde_json::from_value(answer.clone()).unwrap();
    match decision_outcome(shown, 1, &decision) {
        Ok(DecisionOutcome::Accept(calls)) => format!("accept{}", describe_calls(calls)),
        Ok(DecisionOutcome::AcceptEdited(edited, calls)) => {
            format!("edited: {}{}", edited.summary_json.title, describe_calls(calls))
        }
        Ok(DecisionOutcome::SaveEdited(edited)) => format!("saved: {}", edited.summary_json.title),
        Ok(DecisionOutcome::RefineEdited(edited, feedback)) => {
            format!("refine {}: {feedback}", edited.summary_json.title)
        }
        Ok(DecisionOutcome::Refine(feedback)) => format!("refine: {feedback}"),
        Ok(DecisionOutcome::Revert(iteration)) => format!("revert to {iteration}"),
        Ok(DecisionOutcome::Redraft(model)) => format!("redraft by {}", model.unwrap_or_default()),
        Ok(DecisionOutcome::CoverNewer) => "cover newer".to_owned(),
        Ok(DecisionOutcome::Decline(_)) => "decline".to_owned(),
        Ok(DecisionOutcome::Preview) => "preview".to_owned(),
        Err(DecisionRejection::Stale(_)) => "stale".to_owned(),
        Err(rejection) => format!("refused: {rejection}"),
    }
}

#[test]
fn g3_every_approval_is_an_accept_an_edit_or_rejected() {
    let shown = proposal();
    let own = "**Theirs**\nSo far.\n\n### Objective\n- Go on.";
    for (args, expected) in [
        (json!({}), "accept"),
        (json!({"handoff_id": "x", "iteration": 0, "preview_only": false}), "accept"),
        (
            json!({"titel": "Mine"}),
            "refused: unknown field `titel`; known: package_md, title, summary_json, pending_approvals",
        ),
        (
            json!({"title": "Mine", "sumary_md": own}),
            "refused: unknown field `sumary_md`; known: package_md, title, summary_json, pending_approvals",
        ),
        (json!({"summary_md": shown.package_md}), "accept"),
        (json!({"title": " Progress "}), "accept"),
        (json!({"summary_md": shown.package_md, "title": "Mine"}), "edited: Mine"),
        (json!({"title": "Mine"}), "edited: Mine"),
        (json!({"summary_md": own}), "edited: Theirs"),
        (json!({"package_md": own}), "edited: Theirs"),
        // A client that sends back everything sends the text under both names, and the person may have changed either.
        (json!({"package_md": shown.package_md, "summary_md": own}), "edited: Theirs"),
        (json!({"package_md": own, "summary_md": shown.package_md}), "edited: Theirs"),
        (json!({"package_md": own, "summary_md": own}), "edited: Theirs"),
        (
            json!({"package_md": own, "summary_md": own.replace("So far", "Not yet")}),
            "refused: `package_md` and `summary_md` were both changed, in different ways: send one of them",
        ),
        (json!({"summary_md": own, "title": "Mine"}), "edited: Mine"),
        (json!({"title": 5}), "refused: `title` must be text"),
        (json!({"title": null}), "refused: `title` must be text"),
        (json!({"title": ""}), "refused: the title is empty"),
        (json!({"summary_md": own, "title": " "}), "refused: the title is empty"),
        (json!({"summary_md": []}), "refused: `summary_md` must be text"),
        (json!({"summary_md": " "}), "refused: the text is empty: write something, or decline"),
    ] {
        assert_eq!(describe_outcome(&shown, &json!({"type": "approve", "args": args})), expected, "{args}");
    }
    assert_eq!(describe_outcome(&shown, &json!({"type": "approve", "summary_sha256": "cd"})), "stale");
}

#[test]
fn g1_a_submitted_text_stays_exact_when_a_title_is_submitted_with_it() {
    let args = json!({"summary_md": "**Theirs**\n\n### Objective\n* Go  on.", "title": "Mine"});
    let decision = serde_json::from_value(json!({"type": "approve", "args": args})).unwrap();
    let Ok(DecisionOutcome::AcceptEdited(edited, _)) = decision_outcome(&proposal(), 1, &decision) else {
        panic!("an edit")
    };
    assert_eq!(edited.package_md, "**Theirs**\n\n### Objective\n* Go  on.");
}

#[test]
fn g3_an_edit_contains_a_summary_a_text_or_feedback() {
    let shown = proposal();
    let mut other = serde_json::to_value(&shown.summary_json).unwrap();
    other["title"] = json!("Mine");
    for (args, expected) in [
        (json!({"summary_json": shown.summary_json}), "accept"),
        (json!({"summary_json": other}), "edited: Mine"),
        (json!({"feedback": " shorter "}), "refine: shorter"),
        (json!({"feedback": " "}), "refused: the feedback is empty: say what should change"),
        (json!({"feedback": 5}), "refused: `feedback` must be text"),
        (
            json!({}),
            "refused: an edit needs `summary_json`, `package_md`, `title`, `feedback`, `add`, `revert_to` or `redraft`",
        ),
        (
            json!({"summary_json": {"title": 5}}),
            "refused: `summary_json.body` is missing or has another type",
        ),
    ] {
        let answer =
            json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args.clone()}});
        assert_eq!(describe_outcome(&shown, &answer), expected, "{args}");
    }
}

#[test]
fn g3_no_part_of_a_decision_is_dropped_without_a_word() {
    let shown = Proposal { iteration: 1, feedback: Some("shorter".to_owned()), ..proposal() };
    let own = "**Theirs**\nSo far.\n\n### Objective\n- Go on.";
    let mut other = serde_json::to_value(&shown.summary_json).unwrap();
    other["title"] = json!("Mine");
    let edit =
        |args: Value| json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args}});
    let no_feedback = "refused: an approval cannot hold `feedback`: send it with the decision `edit`";
    for (answer, expected) in [
        // Feedback may repeat the last one. Only a client that sends everything back does not mean it.
        (edit(json!({"title": "Mine", "feedback": "shorter"})), "refine Mine: shorter"),
        (
            edit(json!({"summary_md": own, "feedback": "shorter", "save_draft": true})),
            "refine Theirs: shorter",
        ),
        (edit(json!({"feedback": "shorter"})), "refine: shorter"),
        (json!({"type": "approve", "args": {"summary_json": other}}), "edited: Mine"),
        (json!({"type": "approve", "args": {"feedback": "name the files"}}), no_feedback),
        (json!({"type": "approve", "args": {"title": "t", "feedback": "shorter"}}), no_feedback),
        (
            edit(json!({"summary_json": other, "summary_md": own})),
            "refused: `summary_json` and `package_md` (or `title`) were both changed, in different ways: send one \
             of them",
        ),
    ] {
        assert_eq!(describe_outcome(&shown, &answer), expected, "{answer}");
    }
}

#[test]
fn g4_an_edit_is_saved_refined_or_accepted() {
    let shown = proposal();
    let own = "**Theirs**\nSo far.\n\n### Objective\n- Go on.";
    let mut other = serde_json::to_value(&shown.summary_json).unwrap();
    other["title"] = json!("Mine");
    let unchanged = "refused: `save_draft` needs a changed `package_md`, `title` or `summary_json`";
    for (args, expected) in [
        (json!({"summary_md": own, "save_draft": true}), "saved: Theirs"),
        (json!({"summary_md": own, "save_draft": false}), "edited: Theirs"),
        (json!({"summary_json": other, "save_draft": true}), "saved: Mine"),
        (json!({"title": "Mine", "save_draft": true}), "saved: Mine"),
        (json!({"title": "Mine"}), "edited: Mine"),
        (json!({"summary_md": shown.package_md, "save_draft": true}), unchanged),
        (json!({"save_draft": true}), unchanged),
        (json!({"save_draft": true, "feedback": "shorter"}), unchanged),
        (json!({"summary_md": own, "save_draft": "yes"}), "refused: `save_draft` must be true or false"),
        (json!({"summary_md": own, "feedback": " shorter "}), "refine Theirs: shorter"),
        (json!({"summary_md": own, "feedback": "shorter", "save_draft": true}), "refine Theirs: shorter"),
        (
            json!({"summary_md": own, "redraft": {}}),
            "refused: an edit with a text of your own cannot hold `redraft`, which would replace the text",
        ),
    ] {
        let answer =
            json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args.clone()}});
        assert_eq!(describe_outcome(&shown, &answer), expected, "{args}");
    }
    // Each of the two proposals takes an iteration.
    let args = json!({"summary_md": own, "feedback": "shorter"});
    let answer = json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args}});
    let last = Proposal { iteration: ITERATIONS_MAX - 2, ..proposal() };
    assert!(describe_outcome(&last, &answer).starts_with("refused: there are 64 drafts already"));
}

#[test]
fn g4_an_edit_requests_another_draft_in_one_way_only() {
    let shown = Proposal { iteration: 2, feedback: Some("shorter".to_owned()), ..proposal() };
    let (md, json) = (&shown.package_md, &shown.summary_json);
    let only = "refused: an edit holds only one of `feedback`, `revert_to`, `redraft`";
    let shape =
        r#"refused: `redraft` is `true` (cover the newer messages), `{}` or `{"model": "provider/name"}`"#;
    for (args, expected) in [
        (json!({"revert_to": 1}), "revert to 1"),
        (json!({"revert_to": 2}), "refused: iteration 2 is the current one"),
        (json!({"revert_to": 3}), "refused: there is no iteration 3; the newest is 2, the first is 0"),
        (json!({"revert_to": "x"}), "refused: there is no iteration \"x\"; the newest is 2, the first is 0"),
        (json!({"redraft": {}}), "redraft by "),
        (json!({"redraft": {"model": null}}), "redraft by "),
        (json!({"redraft": {"model": "openai/gpt-5"}}), "redraft by openai/gpt-5"),
        (json!({"redraft": {"model": 5}}), shape),
        (json!({"redraft": true}), "cover newer"),
        (json!({"redraft": false}), shape),
        (json!({"redraft": true, "feedback": "shorter"}), only),
        (
            json!({"redraft": {"modle": "extractive"}}),
            "refused: unknown field `modle` in `redraft`; known: model",
        ),
        (
            json!({"feedbak": "shorter"}),
            "refused: unknown field `feedbak`; known: package_md, title, summary_json, \
             pending_approvals, feedback, revert_to, redraft, save_draft, add",
        ),
        (json!({"redraft": {}, "revert_to": 1}), only),
        (json!({"redraft": {}, "feedback": "shorter"}), only),
        // Some clients send back everything that they were shown.
        (json!({"summary_md": md, "summary_json": json, "feedback": "shorter"}), "accept"),
        (json!({"summary_md": md, "summary_json": json, "feedback": "longer"}), "refine: longer"),
        (json!({"feedback": "shorter"}), "refine: shorter"),
    ] {
        let answer =
            json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args.clone()}});
        assert_eq!(describe_outcome(&shown, &answer), expected, "{args}");
    }
    let many = Proposal { iteration: ITERATIONS_MAX - 1, ..shown };
    let answer =
        json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": {"revert_to": 1}}});
    assert!(describe_outcome(&many, &answer).starts_with("refused: there are 64 drafts already"));
}

#[test]
fn an_accept_says_what_becomes_of_the_calls_that_wait_for_approval() {
    let mut summary_json = summary();
    summary_json.carried.is_in_markdown = true;
    summary_json.carried.pending_approvals = vec!["execute: {}".to_owned()];
    let package_md = render::render_summary(&summary_json);
    let shown = Proposal { summary_json, package_md: package_md.clone(), ..proposal() };
    let own = format!("{}\n\n\n# Files read\n- a.rs", package_md.replace("Progress", "Mine"));
    let without = own.replace("### Calls that wait for approval\n- execute: {}\n", "");
    let one_of = "refused: `pending_approvals` must be one of `copy`, `transfer`, `cancel`, `leave`";
    let not_listed = "refused: your text does not list the calls that wait for approval: to hand them over, keep \
                      them; else `pending_approvals` is `cancel` or `leave`";
    for (args, expected) in [
        (json!({}), "accept"),
        (json!({"pending_approvals": "copy"}), "accept"),
        (json!({"pending_approvals": "transfer"}), "accept, Transfer"),
        (json!({"pending_approvals": "cancel"}), "edited: Progress, Cancel"),
        (json!({"pending_approvals": "leave"}), "edited: Progress, Leave"),
        (json!({"pending_approvals": "keep"}), one_of),
        (json!({"pending_approvals": null}), one_of),
        (json!({"title": "Mine", "pending_approvals": "transfer"}), "edited: Mine, Transfer"),
        (json!({"summary_md": without, "pending_approvals": "transfer"}), not_listed),
        (json!({"summary_md": without, "pending_approvals": "cancel"}), "edited: Mine, Cancel"),
    ] {
        let answer = json!({"type": "approve", "args": args.clone()});
        assert_eq!(describe_outcome(&shown, &answer), expected, "{args}");
    }
    for text in [None, Some(own)] {
        let args = match text {
            Some(own) => json!({"summary_md": own, "pending_approvals": "leave"}),
            None => json!({"pending_approvals": "leave"}),
        };
        let decision = serde_json::from_value(json!({"type": "approve", "args": args})).unwrap();
        let Ok(DecisionOutcome::AcceptEdited(edited, WaitingCalls::Leave)) =
            decision_outcome(&shown, 1, &decision)
        else {
            panic!("an edit")
        };
        assert_eq!(edited.summary_json.carried.pending_approvals, [""; 0]);
        assert!(!edited.package_md.contains("wait for approval"), "{}", edited.package_md);
        assert!(edited.package_md.contains("### Objective"), "{}", edited.package_md);
    }
    let args = json!({"feedback": "shorter", "pending_approvals": "leave"});
    let answer = json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args}});
    let refused = "refused: `pending_approvals` goes with an accept: leave it out here";
    assert_eq!(describe_outcome(&shown, &answer), refused);
}

/// Returns the edit that a generic form sends for `shown`: every argument with `changed` applied, and JSON values as
/// text.
fn form(shown: &Proposal, changed: &Value) -> Value {
    let context = crate::review::payload::ReviewContext {
        feedback_history: shown.feedback.iter().cloned().collect(),
        ..Default::default()
    };
    let payload = crate::review::payload::review_payload(shown, &context).unwrap();
    let mut args = crate::transcript::editable_args(&payload.action_requests[0].args);
    for (key, value) in changed.as_object().unwrap() {
        args[key] = value.clone();
    }
    let args: Map<String, Value> = args
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| match value {
            Value::Object(_) | Value::Array(_) => (key.clone(), format!("{value:#}").into()),
            value => (key.clone(), value.clone()),
        })
        .collect();
    json!({"type": "edit", "edited_action": {"name": "approve_handoff", "args": args}})
}

#[test]
fn g3_a_form_that_sends_everything_back_requests_only_its_changes() {
    let first = Proposal { summary_sha256: "cd".to_owned(), ..proposal() };
    let refined = Proposal { iteration: 1, feedback: Some("shorter".to_owned()), ..first.clone() };
    for shown in [first, refined] {
        let own = "**Theirs**\nSo far.\n\n### Objective\n- Go on.";
        let mut other = serde_json::to_value(&shown.summary_json).unwrap();
        other["title"] = json!("Mine");
        for (changed, expected) in [
            (json!({}), "accept"),
            (json!({"feedback": " \n"}), "accept"),
            (json!({"feedback": null}), "accept"),
            (json!({"feedback": " longer "}), "refine: longer"),
            (json!({"feedback": 5}), "refused: `feedback` must be text"),
            (json!({"summary_md": own}), "edited: Theirs"),
            (json!({"summary_md": own, "feedback": ""}), "edited: Theirs"),
            (json!({"summary_md": own, "feedback": "longer"}), "refine Theirs: longer"),
            (json!({"summary_md": own, "save_draft": true}), "saved: Theirs"),
            (json!({"summary_json": other}), "edited: Mine"),
            (json!({"title": "Mine"}), "edited: Mine"),
            (json!({"summary_md": " "}), "refused: the text is empty: write something, or decline"),
            (json!({"uncovered_messages": 7, "goal": "other"}), "accept"),
            // The person reviewed an older proposal.
            (json!({"summary_sha256": "ef"}), "stale"),
        ] {
            assert_eq!(describe_outcome(&shown, &form(&shown, &changed)), expected, "{changed}");
        }
        let mut broken = form(&shown, &json!({}));
        broken["edited_action"]["args"]["summary_json"] = json!("{\"title\": ");
        assert!(
            describe_outcome(&shown, &broken).starts_with("refused: `summary_json` cannot be read as JSON: ")
        );
        broken["edited_action"]["args"]["summary_json"] = json!("[]");
        assert!(describe_outcome(&shown, &broken).starts_with("refused: `summary_json."));
        broken["edited_action"]["name"] = json!("execute");
        assert_eq!(
            describe_outcome(&shown, &broken),
            "refused: the edited action is `execute`, expected `handoff_summary`"
        );
    }
}

#[test]
fn g5_empty_feedback_alone_is_rejected() {
    let answer =
        |args: Value| json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args}});
    for args in [json!({"feedback": ""}), json!({"feedback": "", "handoff_id": "x", "iteration": 0})] {
        assert_eq!(
            describe_outcome(&proposal(), &answer(args)),
            "refused: the feedback is empty: say what should change"
        );
    }
    let respond = json!({"type": "respond", "message": "no"});
    assert_eq!(
        describe_outcome(&proposal(), &respond),
        "refused: a handoff is accepted, edited, refined or declined; it takes no response"
    );
}

#[test]
fn m16_feedback_and_the_reason_of_a_decline_are_limited_and_redacted() {
    let outcome = |message: &str| {
        let decision = Decision::Reject { message: Some(message.to_owned()) };
        match decision_outcome(&proposal(), 1, &decision) {
            Ok(DecisionOutcome::Decline(reason)) => reason.unwrap(),
            Ok(_) => panic!("not a decline"),
            Err(rejection) => format!("{rejection:?}"),
        }
    };
    assert_eq!(outcome("not now"), "not now");
    assert_eq!(outcome("password=hunter2hunter2 is in it"), "password=[redacted] is in it");
    assert!(outcome(&"x".repeat(8_001)).contains("has 8001 bytes"));
    let blank = json!({"type": "edit", "edited_action": {
        "name": "handoff_summary", "args": {"feedback": " \u{200b} "}}});
    assert!(describe_outcome(&proposal(), &blank).contains("the feedback is empty"));
    let refine = json!({"type": "edit", "edited_action": {
        "name": "handoff_summary", "args": {"feedback": "name password=hunter2hunter2"}}});
    assert_eq!(describe_outcome(&proposal(), &refine), "refine: name password=[redacted]");
}
