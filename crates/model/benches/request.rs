//! Benchmark of building a request from a conversation: the legal form, the check, and the complete path to the
//! bytes.

use std::sync::Arc;

use divan::{Bencher, black_box};
use model::transcript::{AvailableMedia, ProviderProfile, find_violations, legalize};
use model::{ChatRequest, Provider, encode_request, tokens};
use protocol::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};
use serde_json::json;

/// The lengths of the conversations in messages.
const SIZES: [usize; 4] = [10, 1_000, 5_000, 50_000];

fn main() {
    divan::main();
}

/// Returns a conversation of small messages: a question, a call with a short text before it, its result, an
/// answer.
fn conversation(messages: usize) -> Vec<Message> {
    let message = |index: usize| match index % 4 {
        0 => Message::human(format!("Question {index}: what does the file say?")),
        1 => Message::Ai(AiMessage {
            content: vec![
                ContentBlock::text("Let me look."),
                ContentBlock::ToolCall {
                    id: format!("call_{index}"),
                    name: "read_file".to_owned(),
                    args: json!({"path": format!("src/part_{index}.rs")}),
                },
            ],
            ..AiMessage::default()
        }),
        2 => Message::Tool(ToolMessage {
            id: None,
            call_id: format!("call_{}", index - 1),
            name: Some("read_file".to_owned()),
            content: vec![ContentBlock::text(format!("pub fn part() -> usize {{\n    {index}\n}}\n"))],
            status: ToolStatus::Success,
        }),
        _ => Message::ai(format!("It returns {index}.")),
    };
    // The request ends on the user's side, so nothing has to be added to it.
    (0..messages - messages % 4 + 1).map(message).collect()
}

#[divan::bench(args = SIZES)]
fn legal_form(bencher: Bencher<'_, '_>, messages: usize) {
    let (messages, media) = (conversation(messages), AvailableMedia::new());
    let profile = ProviderProfile::for_provider(Provider::Anthropic);
    bencher.bench(|| legalize(black_box(&messages), &media, &profile).len());
}

#[divan::bench(args = SIZES)]
fn check(bencher: Bencher<'_, '_>, messages: usize) {
    let (messages, media) = (conversation(messages), AvailableMedia::new());
    let profile = ProviderProfile::for_provider(Provider::Anthropic);
    let legal = legalize(&messages, &media, &profile);
    bencher.bench(|| find_violations(black_box(&legal), &profile).len());
}

#[divan::bench(args = SIZES)]
fn estimate(bencher: Bencher<'_, '_>, messages: usize) {
    let messages = conversation(messages);
    bencher.bench(|| black_box(&messages).iter().map(tokens::message_tokens).sum::<u64>());
}

/// Measures the legal form, the check and the body together: everything before sending.
fn complete_path(bencher: Bencher<'_, '_>, model: &str, messages: usize) {
    let model = model.parse().expect("a name");
    let request = ChatRequest { messages: Arc::new(conversation(messages)), ..ChatRequest::default() };
    bencher.bench(|| encode_request(&model, black_box(&request)).expect("it is legal").len());
}

#[divan::bench(args = SIZES)]
fn whole_anthropic(bencher: Bencher<'_, '_>, messages: usize) {
    complete_path(bencher, "anthropic/claude-sonnet-4-5", messages);
}

#[divan::bench(args = SIZES)]
fn whole_responses(bencher: Bencher<'_, '_>, messages: usize) {
    complete_path(bencher, "openai/gpt-5", messages);
}

#[divan::bench(args = SIZES)]
fn whole_chat(bencher: Bencher<'_, '_>, messages: usize) {
    complete_path(bencher, "openai-chat/gpt-4.1", messages);
}

#[divan::bench(args = SIZES)]
fn whole_gemini(bencher: Bencher<'_, '_>, messages: usize) {
    complete_path(bencher, "gemini/gemini-2.5-pro", messages);
}
