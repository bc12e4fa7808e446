//! What holds for every real conversation, whole and cut off in the middle.

use std::sync::Arc;

use facts::{Facts, Goal, Item, Ledger, What};
use handoff::{Extract, Grounding, Selector, counts, extract};
use jiff::Timestamp;
use protocol::{AssistantId, Block, HandoffId, HandoffSummary, SCHEMA_VERSION, ThreadId};

use crate::conversations;

/// Calls `check` with every conversation, whole and cut off in the middle.
fn each(mut check: impl FnMut(&str, &[Item])) {
    for read in conversations::all() {
        let length = read.items.len();
        for cut in [length, length / 2] {
            check(&format!("{}@{cut}", read.name), &read.items[..cut]);
        }
    }
}

fn facts(items: &[Item], goal: Option<&Arc<Goal>>) -> Facts {
    let mut ledger = Ledger::for_goal(goal.cloned());
    items.iter().for_each(|item| ledger.push(item));
    ledger.finish()
}

fn summary(told: Extract) -> HandoffSummary {
    HandoffSummary {
        schema_version: SCHEMA_VERSION,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: told.title,
        tldr: told.tldr,
        body: told.body,
        model: "extractive".to_owned(),
        model_run_id: None,
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: protocol::Coverage::default(),
        carry_over: told.carry_over,
    }
}

/// Returns the names of the summary that the items do not have.
fn unfound(summary: &HandoffSummary, items: &[Item], goal: Option<&Goal>) -> Vec<(usize, Vec<String>)> {
    let mut grounding = Grounding::new(summary, None);
    if let Some(goal) = goal {
        grounding.see_words(goal.text());
    }
    items.iter().for_each(|item| grounding.see(item));
    grounding.missing()
}

#[test]
fn m6_an_extract_of_a_real_conversation_is_never_flagged() {
    let goal = Arc::new(Goal::of("fix the failing tests in src/lib.rs and README.md"));
    each(|name, items| {
        for goal in [None, Some(&goal)] {
            let facts = facts(items, goal);
            let goal = goal.map(Arc::as_ref);
            let mut told = summary(extract(&facts, goal, 300));
            for tokens_max in [150, 1_000, 4_000] {
                told.body.extend(extract(&facts, goal, tokens_max).body);
            }
            let missing = unfound(&told, items, goal);
            assert!(missing.is_empty(), "{name}: {missing:?}\n{:#?}", told.body);
        }
    });
}

#[test]
fn m6_a_name_planted_in_a_summary_of_a_real_conversation_is_always_flagged() {
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
    each(|name, items| {
        let told = summary(extract(&facts(items, None), None, 600));
        let mut marked = told.clone();
        marked.body.clear();
        for (at, planted) in planted.iter().enumerate() {
            let mut item = told.body[at % told.body.len()].clone();
            let text = &mut item.text;
            let spaces: Vec<usize> = text.match_indices(' ').map(|(at, _)| at).collect();
            // Between words, and outside the code spans that are there.
            let outside = spaces.into_iter().filter(|at| text[..*at].matches('`').count().is_multiple_of(2));
            let outside: Vec<usize> = outside.collect();
            let place = outside.get((at * 7) % outside.len().max(1)).copied().unwrap_or(text.len());
            text.insert_str(place, &format!(" {planted} "));
            marked.body.push(item);
        }
        let missing: Vec<usize> = unfound(&marked, items, None).into_iter().map(|(item, _)| item).collect();
        assert_eq!(missing, (0..planted.len()).collect::<Vec<_>>(), "{name}: {:?}", marked.body);
    });
}

#[test]
fn m7_what_is_carried_over_is_what_the_conversation_says() {
    each(|name, items| {
        let facts = facts(items, None);
        let carried = facts.carry_over();
        let said = items.iter().rev().find_map(Item::user_text);
        let said = said.as_deref().map(|said| handoff_text(said, carried.last_user_request.as_deref()));
        assert_eq!(carried.last_user_request.as_deref(), said, "{name}");
        let all = text_of(items);
        let holds = |path: &str| all.contains(&path.replace("[redacted]", ""));
        for path in carried.files_modified.iter().chain(&carried.files_read) {
            assert!(holds(path), "{name}: {path}");
        }
        for error in &carried.errors {
            let words = error.split_whitespace().filter(|word| !word.contains("[redacted]"));
            assert!(
                words.clone().all(|word| holds(word.trim_end_matches(':'))) || error.ends_with(" failed"),
                "{name}: {error}"
            );
        }
        for todo in carried.todos.iter().filter(|todo| !todo.text.contains("[redacted]")) {
            assert!(all.contains(&todo.text), "{name}: {todo:?}");
        }
    });
}

/// Returns what of a request is carried over, once its secrets and its length are left aside.
fn handoff_text<'a>(said: &'a str, carried: Option<&'a str>) -> &'a str {
    match carried {
        Some(carried)
            if carried.contains("[redacted]") || said.starts_with(carried) && carried.len() > 3_700 =>
        {
            carried
        }
        Some(_) | None => said,
    }
}

/// Returns everything that was said and called, with slashes one way.
fn text_of(items: &[Item]) -> String {
    let mut all = String::new();
    let mut add = |text: &str| {
        all.push_str(&text.replace("\\\\", "\\").replace('\\', "/"));
        all.push('\n');
        all.push_str(text);
        all.push('\n');
    };
    for item in items {
        let What::Message(message) = &item.what else { continue };
        for block in message.content() {
            match block {
                Block::Text { text } => add(text),
                Block::ToolCall { args, .. } => strings(args, &mut add),
                Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
            }
        }
    }
    all
}

fn strings(value: &serde_json::Value, add: &mut impl FnMut(&str)) {
    match value {
        serde_json::Value::String(text) => add(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, add)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| strings(item, add)),
        _ => {}
    }
}

#[test]
fn m5_the_numbers_told_of_a_real_conversation_add_up() {
    each(|name, items| {
        let mut selector = Selector::new(4_000, None);
        items.iter().for_each(|item| selector.see(item));
        let selection = selector.finish(&facts(items, None), 4_000);
        let told = counts(&selection.coverage);
        assert_eq!(told.messages, items.iter().filter(|item| item.is_message()).count() as u64, "{name}");
        assert_eq!(told.messages + told.other_events, items.len() as u64, "{name}");
        let meant = items.iter().filter(|item| item.is_meant()).count() as u64;
        assert_eq!(told.verbatim + told.summarized + told.truncated, meant, "{name}: {told:?}");
        assert!(model::tokens::fits(&selection.text(), 4_000), "{name}");
    });
}
