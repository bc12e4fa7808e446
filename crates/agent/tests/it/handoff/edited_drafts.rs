//! Tests of the user's own text as a draft: it is stored, refined, edited again and accepted like any other draft.

use agent::{Agent, PendingHandoff};
use protocol::{EventType, HandoffSummary};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::pending_handoff;
use crate::environment::{DRAFT, DRAFT_PROMPT, TestEnvironment, approval, decisions, unwatched};

/// Edits the proposal with these arguments, and returns the next one.
async fn edit(agent: &Agent, pending: &PendingHandoff, args: &Value) -> PendingHandoff {
    let (frames, cancel) = unwatched();
    let action = json!({"name": "handoff_summary", "args": args});
    let answer = json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &decisions(&answer), &frames, &cancel).await.unwrap();
    decided.next.expect("a proposal waits for a decision again")
}

/// Returns the names of the summary that are unfound: those of the title, of the TL;DR, and of all items.
fn unfound_names(summary: &HandoffSummary) -> (Vec<String>, Vec<String>, Vec<String>) {
    let items = summary.body.iter().flat_map(|item| item.unfound.clone()).collect();
    (summary.notes.title_unfound.clone(), summary.notes.tldr_unfound.clone(), items)
}

#[tokio::test]
async fn g4_a_text_is_edited_refined_edited_again_and_accepted() {
    let environment = TestEnvironment::new();
    let refined = DRAFT.replace("one row only.", "one row only in tests/one_row.rs.");
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT),
        ScriptedReply::text(refined).when_body_contains("<feedback>"),
    ]))
    .unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let own = first.proposal.package_md.replace("one row only.", "one row only, in tests/one_row.rs by Ada.");
    let second = edit(&agent, &first, &json!({"summary_md": own, "save_draft": true})).await;
    assert_eq!((second.proposal.iteration, second.proposal.package_md.as_str()), (1, own.trim()));
    assert_eq!((second.proposal.summary_json.model.as_str(), server.call_count()), ("user", 1));
    let own = own.replace("by Ada", "by Grace");
    let third = edit(&agent, &second, &json!({"summary_md": own, "feedback": "Name the test."})).await;
    let prompt = server.requests()[1].body.to_string();
    assert!(prompt.contains("<previous_summary>") && prompt.contains("by Grace"), "{prompt}");
    let review = agent.handoffs().review(first.handoff.handoff_id).await.unwrap();
    let texts: Vec<&str> = review.proposals.iter().map(|proposal| proposal.package_md.as_str()).collect();
    assert_eq!((texts.len(), texts[2]), (4, own.trim()), "the edited text is a proposal of its own");
    let none: Vec<String> = Vec::new();
    let unfound = unfound_names(&third.proposal.summary_json);
    assert_eq!(unfound, (none.clone(), none.clone(), none), "the user named the file, so it is no invention");
    let last = edit(&agent, &third, &json!({"title": "Importer, last row", "save_draft": true})).await;
    let (frames, cancel) = unwatched();
    let id = first.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&last), &frames, &cancel).await.unwrap();
    let events = agent.threads().events(first.handoff.parent_thread_id).await.unwrap();
    let edits = events.iter().filter(|event| event.kind() == Some(EventType::HandoffEdited));
    assert_eq!((edits.count(), server.call_count()), (3, 2));
    let block = memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap();
    assert_eq!(decided.handoff.accepted_sha256, Some(last.proposal.summary_sha256));
    assert_eq!(block.trim(), last.proposal.package_md.trim());
    assert!(block.contains("**Importer, last row**"));
}

#[tokio::test]
async fn g5_a_failed_refinement_of_an_edited_text_leaves_that_text_pending() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT),
        ScriptedReply::text("I cannot help with that.").with_repeat(),
    ]))
    .unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let own = first.proposal.package_md.replace("one row only", "a single row");
    let next = edit(&agent, &first, &json!({"summary_md": own, "feedback": "Shorter."})).await;
    assert_eq!((next.proposal.iteration, next.proposal.package_md.as_str()), (1, own.trim()));
    assert_eq!(next.unused_feedback.as_deref(), Some("Shorter."));
    let again = edit(&agent, &next, &json!({"revert_to": 0})).await;
    assert_eq!(again.proposal.package_md, first.proposal.package_md);
}

#[tokio::test]
async fn m6_title_tldr_and_references_are_checked_and_a_mended_typo_verifies_nothing() {
    let environment = TestEnvironment::new();
    let draft = DRAFT
        .replace("Importer drops", "src/invented_title.rs drops")
        .replace("is mended;", "of src/invented_tldr.rs is mended;")
        .replace("one row only.", "one row onyl in src/invented_item.rs.")
        .replace("[6]", "[6, 0, 4711]");
    let reply = ScriptedReply::text(draft).when_body_contains(DRAFT_PROMPT);
    let server = ScriptedServer::start(Script::new([reply])).unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let summary = &first.proposal.summary_json;
    let name = |name: &str| vec![format!("src/invented_{name}.rs")];
    assert_eq!(unfound_names(summary), (name("title"), name("tldr"), name("item")));
    let heads: Vec<&str> = first.proposal.package_md.lines().take(2).collect();
    assert!(heads.iter().all(|line| line.ends_with(" (unverified)")), "{heads:?}");
    let checked = &summary.body[2];
    assert_eq!((&checked.refs, &checked.false_refs), (&vec![6], &vec![0, 4711]));
    let mended = first.proposal.package_md.replace("onyl", "only").replace("is mended", "was mended");
    let second = edit(&agent, &first, &json!({"summary_md": mended, "save_draft": true})).await;
    assert_eq!(unfound_names(&second.proposal.summary_json), unfound_names(summary));
    let confirmed = second.proposal.package_md.replace("invented_item.rs. (unverified)", "invented_item.rs.");
    let second = edit(&agent, &second, &json!({"summary_md": confirmed, "save_draft": true})).await;
    let unfound = unfound_names(&second.proposal.summary_json);
    assert_eq!(unfound, (name("title"), name("tldr"), Vec::new()), "the user removed the mark of the item");
    let title = json!({"title": "The importer", "save_draft": true});
    let third = edit(&agent, &second, &title).await;
    assert_eq!(unfound_names(&third.proposal.summary_json), (Vec::new(), name("tldr"), Vec::new()));
    assert!(third.proposal.package_md.starts_with("**The importer**\n"));
}

#[tokio::test]
async fn m6_names_that_the_user_writes_are_looked_for_in_the_conversation() {
    let environment = TestEnvironment::new();
    let draft = DRAFT.replace("one row only.", "one row only in src/invented.rs.");
    let reply = ScriptedReply::text(draft).when_body_contains(DRAFT_PROMPT);
    let server = ScriptedServer::start(Script::new([reply])).unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    assert_eq!(first.proposal.summary_json.notes.names_by_user, [""; 0]);
    let mended = first.proposal.package_md.replace("src/invented.rs", "src/other.rs");
    let second = edit(&agent, &first, &json!({"summary_md": mended, "save_draft": true})).await;
    let summary = &second.proposal.summary_json;
    let item = summary.body.iter().find(|item| item.text.contains("src/other.rs")).unwrap();
    assert_eq!((item.verified, &item.unfound[..]), (false, &["src/other.rs".to_owned()][..]));
    assert_eq!(summary.notes.names_by_user, ["src/other.rs"]);
    assert_eq!(second.proposal.package_md, mended.trim(), "the mark stays");
    let mut fields = serde_json::to_value(&summary.body).unwrap();
    let text = item.text.replace("src/other.rs", "src/third.rs");
    for entry in fields.as_array_mut().unwrap() {
        if entry["text"] == json!(item.text) {
            entry["text"] = json!(text);
        }
    }
    let tldr = "`src/typed.rs` is next.";
    let fields = json!({"title": summary.title, "tldr": tldr, "body": fields});
    let third = edit(&agent, &second, &json!({"summary_json": fields, "save_draft": true})).await;
    let summary = &third.proposal.summary_json;
    assert_eq!(unfound_names(summary).2, ["src/third.rs"]);
    assert!(third.proposal.package_md.contains("src/third.rs. (unverified)"));
    assert_eq!(summary.notes.names_by_user, ["src/third.rs", "src/typed.rs"]);
    assert_eq!(
        summary.notes.tldr_unfound, [""; 0],
        "a text of the user is not marked, but the name is noted"
    );
    let (frames, cancel) = unwatched();
    let id = first.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&third), &frames, &cancel).await.unwrap();
    assert_eq!(decided.handoff.accepted_sha256, Some(third.proposal.summary_sha256));
}

#[tokio::test]
async fn m4_items_that_a_draft_left_out_are_listed_and_can_be_added() {
    let environment = TestEnvironment::new();
    let item =
        |index: usize| format!(r#"{{"kind":"artifact","text":"Row reader, part {index}.","refs":[3]}}"#);
    let more: Vec<String> = (0..6).map(item).collect();
    let draft = DRAFT.replace("]}]}", &format!("]}},{}]}}", more.join(",")));
    let reply = ScriptedReply::text(draft).when_body_contains(DRAFT_PROMPT);
    let server = ScriptedServer::start(Script::new([reply])).unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let left_out = &first.proposal.summary_json.notes.left_out;
    let texts: Vec<&str> = left_out.iter().map(|entry| entry.item.text.as_str()).collect();
    assert_eq!(
        (first.proposal.summary_json.body.len(), texts),
        (7, vec!["Row reader, part 4.", "Row reader, part 5."])
    );
    assert!(!first.proposal.package_md.contains("part 5"));
    let second = edit(&agent, &first, &json!({"add": {"left_out": [1]}})).await;
    assert!(second.proposal.package_md.contains("- Row reader, part 5.\n"));
    let summary = &second.proposal.summary_json;
    assert_eq!((summary.body.len(), summary.notes.left_out.len()), (8, 1));
    assert_eq!(summary.body[7].refs, [3]);
    let (frames, cancel) = unwatched();
    for (args, expected) in [
        (json!({"add": {"left_out": [1]}}), "there is no left-out item 1"),
        (json!({"add": {"topics": [0]}}), "there is no topic 0"),
        (json!({"add": {}}), "names nothing to add"),
        (json!({"add": {"rules": [0]}}), "there is no lost rule 0"),
        (json!({"add": {"other": [0]}}), "unknown field `other`"),
        (json!({"add": {"left_out": [0]}, "title": "Mine"}), "save your own text first"),
        (json!({"add": {"left_out": [0]}, "save_draft": "yes"}), "`save_draft` must be true or false"),
        (json!({"add": {"left_out": [0]}, "save_draft": false}), "`add` always saves"),
        (json!({"add": {"facts": [9]}}), "there are no left-out facts 9"),
    ] {
        let action = json!({"name": "handoff_summary", "args": args});
        let answer = json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string();
        let id = first.handoff.handoff_id;
        let refused = agent.handoffs().decide(id, &decisions(&answer), &frames, &cancel).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{args}: {refused}");
    }
}

#[tokio::test]
async fn a_draft_that_contradicts_a_rule_or_an_edit_that_removes_one_is_flagged_and_the_rule_can_be_put_back()
{
    let environment = TestEnvironment::new();
    let line = "Change the file format so that it has a row count.";
    let contradicting = DRAFT.replace("Add a test for a file with one row only.", line);
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text(contradicting).when_body_contains(DRAFT_PROMPT),
        ScriptedReply::text(DRAFT).when_body_contains("<feedback>"),
    ]))
    .unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let notes = |pending: &PendingHandoff| {
        let notes = serde_json::to_value(&pending.proposal.summary_json.notes.rules).unwrap();
        let notes = notes.as_array().unwrap().clone();
        notes
            .into_iter()
            .map(|note| (note["rule"]["text"].clone(), note["problem"].clone()))
            .collect::<Vec<_>>()
    };
    let rule = first.proposal.summary_json.carried.rules[0].text.clone();
    assert_eq!(notes(&first), [(json!(rule), json!({"kind": "contradicted", "line": line}))]);

    let own = first.proposal.package_md.replace(&format!("\n### Rules\n- {rule}\n"), "");
    let second = edit(&agent, &first, &json!({"summary_md": own, "save_draft": true})).await;
    let lost = [(json!(rule), json!({"kind": "lost"}))];
    assert_eq!(notes(&second), lost, "a rule that is not in the text is not contradicted by it");
    let third = edit(&agent, &second, &json!({"feedback": "Shorter."})).await;
    assert_eq!(notes(&third), lost, "the refined text has not got it back");
    assert!(!third.proposal.package_md.contains("### Rules"), "{}", third.proposal.package_md);
    let fourth = edit(&agent, &third, &json!({"add": {"rules": [0]}})).await;
    assert_eq!(notes(&fourth), []);
    assert!(fourth.proposal.package_md.contains(&format!("\n### Rules\n- {rule}\n")));
    let restored = &fourth.proposal.summary_json.carried.rules;
    assert_eq!(restored, &first.proposal.summary_json.carried.rules, "with its references");
}

#[tokio::test]
async fn m6_no_chain_of_edits_and_refinements_loses_the_mark_of_an_invented_name() {
    let environment = TestEnvironment::new();
    let draft = DRAFT.replace("Importer drops", "src/invented_title.rs drops");
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text(draft.clone()).when_body_contains(DRAFT_PROMPT),
        ScriptedReply::text(draft).when_body_contains("<feedback>").with_repeat(),
    ]))
    .unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let invented = vec!["src/invented_title.rs".to_owned()];
    let title_unfound = |pending: &PendingHandoff| pending.proposal.summary_json.notes.title_unfound.clone();
    assert_eq!(title_unfound(&first), invented);
    let whole = json!({"summary_md": first.proposal.package_md, "save_draft": true});
    let unmarked = first.proposal.package_md.replacen(" (unverified)", "", 1);
    let unmarked = json!({"summary_md": unmarked, "save_draft": true});
    let mut first = first;
    for brought_back in [whole, unmarked] {
        let title = json!({"title": "The importer", "save_draft": true});
        let second = edit(&agent, &first, &title).await;
        assert_eq!(title_unfound(&second), Vec::<String>::new());
        let third = edit(&agent, &second, &brought_back).await;
        assert_eq!(title_unfound(&third), invented, "the draft has invented the name, not the user");
        assert_eq!(third.proposal.summary_json.notes.names_by_user, [""; 0]);
        assert!(third.proposal.package_md.lines().next().unwrap().ends_with(" (unverified)"));
        let fourth =
            edit(&agent, &third, &json!({"feedback": "Is src/invented_title.rs right? Shorter."})).await;
        assert_eq!(title_unfound(&fourth), invented, "the model returned the same title");
        first = edit(&agent, &fourth, &json!({"revert_to": 0})).await;
        assert_eq!(title_unfound(&first), invented);
    }
}

#[tokio::test]
async fn m6_the_notes_of_a_text_are_known_before_it_is_accepted() {
    let environment = TestEnvironment::new();
    let reply = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT);
    let server = ScriptedServer::start(Script::new([reply])).unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let line = "Change the file format in src/ghost9.rs.";
    let own = first.proposal.package_md.replace("Add a test for a file with one row only.", line);
    let args = |text: &str| json!({"summary_md": text}).as_object().unwrap().clone();
    let preview = agent.handoffs().preview_edit(&first, &args(&own)).await.unwrap();
    let notes = preview.summary_json.notes.clone();
    assert_eq!(notes.names_by_user, ["src/ghost9.rs"]);
    let problem = serde_json::to_value(&notes.rules[0].problem).unwrap();
    assert_eq!(problem, json!({"kind": "contradicted", "line": line}));
    let rule = first.proposal.summary_json.carried.rules[0].text.clone();
    let without = own.replace(&format!("\n### Rules\n- {rule}\n"), "");
    let lost = agent.handoffs().preview_edit(&first, &args(&without)).await.unwrap();
    let problem = serde_json::to_value(&lost.summary_json.notes.rules[0].problem).unwrap();
    assert_eq!(problem, json!({"kind": "lost"}));
    let restored = agent::add_rule(&without, &rule);
    let restored = agent.handoffs().preview_edit(&first, &args(&restored)).await.unwrap();
    assert_eq!(restored.summary_json.notes.rules, notes.rules, "the rule is back, and contradicted again");
    let review = agent.handoffs().review(first.handoff.handoff_id).await.unwrap();
    assert_eq!((review.proposals.len(), server.call_count()), (1, 1), "nothing was stored");
    let saved = edit(&agent, &first, &json!({"summary_md": own, "save_draft": true})).await;
    assert_eq!(saved.proposal.summary_json.notes, notes, "the notes are those of the stored text");
    assert_eq!(saved.proposal.summary_sha256, preview.summary_sha256);
    let refused = agent.handoffs().preview_edit(&saved, &args("no heading")).await.unwrap_err();
    assert!(refused.to_string().contains("read the text for handoff"), "{refused}");
}

#[tokio::test]
async fn g5_an_acceptance_without_a_hash_is_about_the_draft_that_was_current_when_it_was_sent() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT),
        ScriptedReply::text(DRAFT.replace("Importer", "Exporter")).when_body_contains("<feedback>"),
    ]))
    .unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    let id = first.handoff.handoff_id;
    let approve = decisions(r#"{"decisions": [{"type": "approve"}]}"#);
    let sent = agent.handoffs().bind_to_current(id, approve).await.unwrap();
    edit(&agent, &first, &json!({"feedback": "Say that it exports."})).await;
    let (frames, cancel) = unwatched();
    let error = agent.handoffs().decide(id, &sent, &frames, &cancel).await.unwrap_err();
    assert!(
        error.to_string().contains("the decision is about draft 1, and draft 2 has replaced it"),
        "{error}"
    );
}
