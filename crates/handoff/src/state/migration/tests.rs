//! Tests of reading old states. Every golden checkpoint was stored by a run of the version that used a channel for each
//! part of a handoff.

use super::*;
use crate::state::tests::describe_state;

/// Returns the channels of a stored checkpoint.
fn stored_channels(text: &str) -> Channels {
    let checkpoint: Channels = serde_json::from_str(text).unwrap();
    checkpoint["channels"].as_object().unwrap().clone()
}

macro_rules! golden {
    ($($name:literal: $expected:expr,)+) => {
        [$(($name, include_str!(concat!("golden/", $name, ".json")), $expected),)+]
    };
}

/// Returns each golden checkpoint: its name, its text and the expected description of its state.
fn goldens() -> [(&'static str, &'static str, &'static str); 17] {
    golden! {
        "requested": "requested",
        "requested_by_agent": "requested",
        "awaiting_decision": "awaiting 0",
        "awaiting_decision_by_agent": "awaiting 0",
        "draft_failed": "awaiting 0, summarization failed: ask anthropic/claude-test: refused (400): no such model \
                         with nothing unused",
        "refining": "redrafting 0 for Shorter.",
        "refined": "awaiting 1 after [\"Shorter.\"]",
        "stopped_refinement": "awaiting 0 after [\"Shorter.\"]",
        "restarted": "awaiting 0 after [\"Shorter.\"]",
        "refinement_failed": "awaiting 1 after [\"Shorter.\", \"Name the file.\"], summarization failed: read the draft: \
                              it is empty with Name the file. unused",
        "redrafting_with_model": "redrafting 1 for Some(\"openai-chat/other\") after [\"Shorter.\", \"Name the file.\"] \
                                  by openai-chat/other",
        "reverted": "awaiting 3 after [\"Shorter.\", \"Name the file.\"] by openai-chat/other",
        "accepted": "accepted as …2d05",
        "accepted_before_result": "accepted as …37ec",
        "declined": "declined",
        "declined_before_result": "declined",
        "previewed": "previewed",
    }
}

#[test]
fn a_handoff_stored_by_an_earlier_version_is_read() {
    for (name, text, expected) in goldens() {
        let state = HandoffState::read(&stored_channels(text)).unwrap().unwrap();
        assert_eq!(describe_state(&state), expected, "{name}");
        if let HandoffState::Redrafting { revision: Revision::Refine(refinement), .. } = &state {
            assert!(refinement.summary_md.starts_with("**"), "{name}: the previous summary is restored");
        }
    }
}

#[test]
fn migration_does_not_change_the_views_of_a_stored_handoff() {
    for (name, text, _) in goldens() {
        let before = stored_channels(text);
        let state = HandoffState::read(&before).unwrap().unwrap();
        let views = |channels: &Channels| -> Channels {
            let is_view = |key: &str| key.starts_with("handoff_") || key == "child_thread_id";
            let shown = channels.iter().filter(|(key, value)| is_view(key) && !value.is_null());
            shown.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        assert_eq!(views(&state.channels()), views(&before), "{name}");
    }
}

#[test]
fn the_first_step_of_this_version_replaces_the_separate_channels_by_one() {
    for (name, text, _) in goldens() {
        let mut channels = stored_channels(text);
        let state = HandoffState::read(&channels).unwrap().unwrap();
        channels.extend(state.channels());
        channels.retain(|_, value| !value.is_null());
        let private = channels.keys().filter(|key| key.starts_with("_handoff") && *key != "_handoff_asker");
        assert_eq!(private.collect::<Vec<_>>(), ["_handoff"], "{name}");
        assert_eq!(HandoffState::read(&channels), Ok(Some(state)), "{name}");
    }
}

#[test]
fn a_channel_that_cannot_be_read_is_an_error() {
    for (key, value) in [
        ("_handoff_metadata", serde_json::json!({"handoff_id": "none"})),
        ("_handoff_refinement_history", serde_json::json!("Shorter.")),
        ("_handoff_feedback", serde_json::json!(["Shorter."])),
        ("handoff_proposal", serde_json::json!(0)),
    ] {
        let mut channels = stored_channels(include_str!("golden/refining.json"));
        channels.insert(key.to_owned(), value);
        assert_eq!(HandoffState::read(&channels).unwrap_err().key, key);
    }
}
