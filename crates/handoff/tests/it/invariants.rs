//! Tests of invariants that hold for every real conversation, both whole and cut off in the middle.

use std::sync::Arc;

use facts::{ConversationFacts, FactCollector, GoalMatcher, TranscriptItem, TranscriptItemKind};
use handoff::{GroundingCheck, OfflineSummary, TranscriptSelector, build_offline_summary, count_coverage};
use jiff::Timestamp;
use protocol::{AssistantId, ContentBlock, HandoffId, HandoffSummary, SCHEMA_VERSION, ThreadId};

use crate::conversations;

/// Calls `check` with every conversation, whole and cut off in the middle.
fn for_each_conversation(mut check: impl FnMut(&str, &[TranscriptItem])) {
    for conversation in conversations::read_all() {
        let length = conversation.items.len();
        for cut in [length, length / 2] {
            check(&format!("{}@{cut}", conversation.name), &conversation.items[..cut]);
        }
    }
}

fn facts(items: &[TranscriptItem], goal: Option<&Arc<GoalMatcher>>) -> ConversationFacts {
    let mut collector = FactCollector::with_goal(goal.cloned());
    items.iter().for_each(|item| collector.push(item));
    collector.finish()
}

fn summary(offline: OfflineSummary) -> HandoffSummary {
    HandoffSummary {
        schema_version: SCHEMA_VERSION,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: offline.title,
        tldr: offline.tldr,
        body: offline.body,
        model: "extractive".to_owned(),
        model_run_id: None,
        run_id: None,
        notes: protocol::ReviewNotes::default(),
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: protocol::Coverage::default(),
        carried: offline.carried,
    }
}

/// Returns the names in the summary that the items do not contain, by the index of their item.
fn ungrounded_names(
    summary: &HandoffSummary,
    items: &[TranscriptItem],
    goal: Option<&GoalMatcher>,
) -> Vec<(usize, Vec<String>)> {
    let mut grounding = GroundingCheck::new(summary, None);
    if let Some(goal) = goal {
        grounding.search_user_text(goal.text());
    }
    items.iter().for_each(|item| grounding.visit(item));
    grounding.missing_names()
}

#[test]
fn m6_an_offline_summary_of_a_real_conversation_is_never_unverified() {
    let goal = Arc::new(GoalMatcher::new("fix the failing tests in src/lib.rs and README.md"));
    for_each_conversation(|name, items| {
        for goal in [None, Some(&goal)] {
            let facts = facts(items, goal);
            let goal = goal.map(Arc::as_ref);
            let mut summary_parts = summary(build_offline_summary(&facts, goal, 300));
            for tokens_max in [150, 1_000, 4_000] {
                summary_parts.body.extend(build_offline_summary(&facts, goal, tokens_max).body);
            }
            let missing = ungrounded_names(&summary_parts, items, goal);
            assert!(missing.is_empty(), "{name}: {missing:?}\n{:#?}", summary_parts.body);
        }
    });
}

#[test]
fn m6_a_name_planted_in_a_summary_of_a_real_conversation_is_always_unverified() {
    let planted = [
        "src/zqxj/wvkpt.rs",
        "https://zqxj.test/wvkpt",
        "9e7d3c1b5a2f4068",
        "73519ms",
        "9173 GB",
        "`zqxj wvkpt`",
        "zqxj_wvkpt",
        "--zqxj-wvkpt",
        "ZQXJ-91735",
        "v97.53.1",
    ];
    for_each_conversation(|name, items| {
        let original = summary(build_offline_summary(&facts(items, None), None, 600));
        let mut marked = original.clone();
        marked.body.clear();
        for (index, planted) in planted.iter().enumerate() {
            let mut item = original.body[index % original.body.len()].clone();
            let text = &mut item.text;
            let spaces: Vec<usize> = text.match_indices(' ').map(|(offset, _)| offset).collect();
            // The name is inserted between words, outside existing code spans.
            let outside =
                spaces.into_iter().filter(|offset| text[..*offset].matches('`').count().is_multiple_of(2));
            let outside: Vec<usize> = outside.collect();
            let offset = outside.get((index * 7) % outside.len().max(1)).copied().unwrap_or(text.len());
            text.insert_str(offset, &format!(" {planted} "));
            marked.body.push(item);
        }
        let missing: Vec<usize> =
            ungrounded_names(&marked, items, None).into_iter().map(|(item, _)| item).collect();
        assert_eq!(missing, (0..planted.len()).collect::<Vec<_>>(), "{name}: {:?}", marked.body);
    });
}

#[test]
fn m7_carried_over_facts_occur_in_the_conversation() {
    for_each_conversation(|name, items| {
        let facts = facts(items, None);
        let carried = facts.carried_facts();
        for text in items.iter().filter_map(TranscriptItem::user_text).filter(|text| facts::is_farewell(text))
        {
            let lower = text.to_lowercase();
            let says_goodbye = ["thank", "bye", "that's all", "that is all", "care", "have a "]
                .iter()
                .any(|cue| lower.contains(cue));
            assert!(says_goodbye && text.len() < 200, "{name}: {text}");
        }
        // Thanks, goodbyes and greetings ask for nothing.
        let asks = |text: &String| !facts::is_farewell(text) && !facts::is_greeting(text);
        let request = |item: &TranscriptItem| item.user_text().filter(asks);
        let request = items.iter().rev().find_map(request);
        let expected =
            request.as_deref().map(|text| handoff_text(text, carried.last_user_request.as_deref()));
        assert_eq!(carried.last_user_request.as_deref(), expected, "{name}");
        let all = text_of(items);
        let contains = |path: &str| all.contains(&path.replace("[redacted]", ""));
        // A file that is moved into a folder has the name of both.
        let is_joined = |path: &str| {
            path.rsplit_once('/').is_some_and(|(folder, file)| contains(folder) && contains(file))
        };
        for path in carried.files.changed.iter().chain(&carried.files.read) {
            assert!(contains(path) || is_joined(path), "{name}: {path}");
        }
        for error in &carried.errors {
            let words = error.split_whitespace().filter(|word| !word.contains("[redacted]"));
            assert!(
                words.clone().all(|word| contains(word.trim_end_matches(':'))) || error.ends_with(" failed"),
                "{name}: {error}"
            );
        }
        for todo in carried.todos.iter().filter(|todo| !todo.text.contains("[redacted]")) {
            assert!(all.contains(&todo.text), "{name}: {todo:?}");
        }
    });
}

/// Returns the expected carried-over text of a request: `carried` if it was redacted or cut because of its length,
/// else the whole request.
fn handoff_text<'a>(request: &'a str, carried: Option<&'a str>) -> &'a str {
    match carried {
        Some(carried)
            if carried.contains("[redacted]") || request.starts_with(carried) && carried.len() > 3_700 =>
        {
            carried
        }
        Some(_) | None => request,
    }
}

/// Returns all texts and call arguments, with slashes for backslashes and unchanged.
fn text_of(items: &[TranscriptItem]) -> String {
    let mut all = String::new();
    let mut add = |text: &str| {
        all.push_str(&text.replace("\\\\", "\\").replace('\\', "/"));
        all.push('\n');
        all.push_str(text);
        all.push('\n');
    };
    for item in items {
        let TranscriptItemKind::Message(message) = &item.kind else { continue };
        for block in message.content() {
            match block {
                ContentBlock::Text { text } => add(text),
                ContentBlock::ToolCall { args, .. } => strings(args, &mut add),
                ContentBlock::Thinking { .. } | ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => {}
            }
        }
    }
    all
}

/// Calls `add` with every string in a JSON value.
fn strings(value: &serde_json::Value, add: &mut impl FnMut(&str)) {
    match value {
        serde_json::Value::String(text) => add(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, add)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| strings(item, add)),
        _ => {}
    }
}

#[test]
fn m5_the_coverage_counts_of_a_real_conversation_add_up() {
    for_each_conversation(|name, items| {
        let mut selector = TranscriptSelector::new(4_000, None);
        items.iter().for_each(|item| selector.visit(item));
        let selection = selector.select(&facts(items, None), 4_000);
        let counts = count_coverage(&selection.coverage);
        assert_eq!(counts.messages, items.iter().filter(|item| item.is_message()).count() as u64, "{name}");
        assert_eq!(counts.messages + counts.other_events, items.len() as u64, "{name}");
        let conversation_messages = items.iter().filter(|item| item.is_conversation_message()).count() as u64;
        assert_eq!(
            counts.verbatim + counts.summarized + counts.truncated,
            conversation_messages,
            "{name}: {counts:?}"
        );
        assert!(model::tokens::fits(&selection.text(), 4_000), "{name}");
    });
}
