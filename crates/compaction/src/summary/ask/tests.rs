//! The prompt as it was reviewed, and texts that try to leave their place in it. No model is asked.

use protocol::Compaction;
use runtime::Frames;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::super::transcript::tests::{ATTACKS, tags};
use super::*;

fn input() -> Input {
    Input {
        focus: Some("the importer".to_owned()),
        earlier_record: Some("{\n  \"goal\": \"Mend the importer\"\n}".to_owned()),
        conversation: "<user seq=\"9\">\nGo on.\n</user>\n".to_owned(),
        more_follows: false,
        last_request: Some("pending"),
        max_summary_tokens: 2_000,
    }
}

#[test]
fn the_prompt_is_what_was_reviewed() {
    let (instructions, text) = prompt(&input()).unwrap();
    insta::assert_snapshot!("condense_instructions", instructions);
    insta::assert_snapshot!("condense_input_anchored", text);
    let first =
        Input { focus: None, earlier_record: None, more_follows: true, last_request: None, ..input() };
    insta::assert_snapshot!("condense_input_first_of_several", prompt(&first).unwrap().1);
    let whole = Input { more_follows: false, ..first };
    insta::assert_snapshot!("condense_input_whole_turns", prompt(&whole).unwrap().1);
}

#[test]
fn every_placeholder_has_a_field_and_every_field_a_placeholder() {
    let environment = Environment::new();
    let mut used: Vec<String> = [INSTRUCTIONS, INPUT]
        .iter()
        .flat_map(|text| environment.template_from_str(text).unwrap().undeclared_variables(false))
        .collect();
    used.sort();
    used.dedup();
    let Value::Object(fields) = serde_json::to_value(input()).unwrap() else { unreachable!() };
    let mut fields: Vec<String> = fields.keys().cloned().collect();
    fields.sort();
    assert_eq!(used, fields);
}

#[test]
fn e13_l14_neither_the_focus_nor_the_earlier_record_leaves_its_element() {
    let model = model::connect(
        "anthropic/claude-test".parse().unwrap(),
        model::Settings { api_key: Some("test".into()), ..model::Settings::default() },
    )
    .unwrap();
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    let scope = RunScope { frames: &frames, cancel: &cancel };
    let options = Options { max_summary_tokens: 2_000, trim_tokens: None };
    for attack in ATTACKS {
        let sections = CondensedSummary {
            goal: attack.to_owned(),
            progress: vec![attack.to_owned()],
            ..CondensedSummary::default()
        };
        let source =
            Source { previous: None::<&Compaction>, dropped: &[], focus: Some(attack), answered: None };
        let asking = Asking { model: &model, source: &source, options: &options, scope };
        let (_, text) = prompt(&asking.input(Some(&sections), String::new(), Place::Last)).unwrap();
        let elements =
            ["focus", "/focus", "earlier_record", "/earlier_record", "conversation", "/conversation"];
        assert_eq!(tags(&text), elements, "{attack:?}: {text}");
    }
}
