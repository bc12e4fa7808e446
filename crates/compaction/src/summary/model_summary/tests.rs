//! Tests of the prompt: its reviewed snapshot, and texts that try to leave their element. No model is called.

use protocol::Compaction;
use runtime::FrameSender;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::super::transcript::tests::{ATTACKS, tags_in};
use super::*;

fn input() -> CompactionPromptInput {
    CompactionPromptInput {
        focus: Some("the importer".to_owned()),
        earlier_record: Some("{\n  \"goal\": \"Mend the importer\"\n}".to_owned()),
        conversation: "<user seq=\"9\">\nGo on.\n</user>\n".to_owned(),
        more_follows: false,
        last_request: Some("pending"),
        max_summary_tokens: 2_000,
    }
}

#[test]
fn the_prompt_matches_its_reviewed_snapshot() {
    let (instructions, text) = render_prompt(&input()).unwrap();
    insta::assert_snapshot!("condense_instructions", instructions);
    insta::assert_snapshot!("condense_input_anchored", text);
    let first = CompactionPromptInput {
        focus: None,
        earlier_record: None,
        more_follows: true,
        last_request: None,
        ..input()
    };
    insta::assert_snapshot!("condense_input_first_of_several", render_prompt(&first).unwrap().1);
    let whole = CompactionPromptInput { more_follows: false, ..first };
    insta::assert_snapshot!("condense_input_whole_turns", render_prompt(&whole).unwrap().1);
}

#[test]
fn every_placeholder_has_a_field_and_every_field_has_a_placeholder() {
    let environment = Environment::new();
    let mut used: Vec<String> = [INSTRUCTIONS_TEMPLATE, INPUT_TEMPLATE]
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
        model::ProviderSettings { api_key: Some("test".into()), ..model::ProviderSettings::default() },
    )
    .unwrap();
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let scope = RunScope { frames: &frames, cancel: &cancel };
    let options = CompactionSummaryOptions { max_summary_tokens: 2_000, trim_tokens: None };
    for attack in ATTACKS {
        let sections = CondensedSummary {
            goal: attack.to_owned(),
            progress: vec![attack.to_owned()],
            ..CondensedSummary::default()
        };
        let source = SummarySource {
            previous: None::<&Compaction>,
            dropped_messages: &[],
            focus: Some(attack),
            request_answered: None,
        };
        let summarizer = ModelSummarizer { model: &model, source: &source, options: &options, scope };
        let (_, text) =
            render_prompt(&summarizer.prompt_input(Some(&sections), String::new(), ChunkPosition::Last))
                .unwrap();
        let elements =
            ["focus", "/focus", "earlier_record", "/earlier_record", "conversation", "/conversation"];
        assert_eq!(tags_in(&text), elements, "{attack:?}: {text}");
    }
}
