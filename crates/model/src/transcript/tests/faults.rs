//! Tests of the check: it finds every violation, in conversations that were not made legal.

use std::borrow::Cow;

use protocol::{ContentBlock, Message, ToolStatus};
use serde_json::{Value, json};

use super::parse_script;
use crate::name::Provider;
use crate::transcript::{
    CallArguments, Conversation, ConversationRule, MediaBytes, MessagePiece, ProviderBlock, ProviderProfile,
    Speaker, find_violations,
};

const ANTHROPIC: ProviderProfile = ProviderProfile::for_provider(Provider::Anthropic);

/// Returns the messages as a conversation without changing them.
fn unchanged_conversation(messages: &[Message]) -> Conversation<'_> {
    let to_message = |message| (speaker(message), Message::content(message).iter().map(piece).collect());
    Conversation::from_messages(messages.iter().map(to_message).collect())
}

fn speaker(message: &Message) -> Speaker<'_> {
    match message {
        Message::Human(_) => Speaker::Human,
        Message::Ai(_) => Speaker::Model,
        Message::Tool(tool) => Speaker::Tool {
            call_id: Cow::Borrowed(&tool.call_id),
            name: Cow::Borrowed("read"),
            status: ToolStatus::Success,
        },
    }
}

fn piece(block: &ContentBlock) -> MessagePiece<'_> {
    match block {
        ContentBlock::Text { text } => MessagePiece::Text(Cow::Borrowed(text)),
        ContentBlock::ToolCall { id, name, args } => MessagePiece::Call {
            id: Cow::Borrowed(id),
            name: Cow::Borrowed(name),
            args: CallArguments::Object(args),
        },
        other => panic!("{other:?} is not in the compact form"),
    }
}

#[test]
fn l1_the_check_finds_each_violation() {
    for (script, rule) in [
        ("", ConversationRule::NotEmpty),
        ("A:a | U:b", ConversationRule::HumanFirst),
        ("T:1=x | U:b", ConversationRule::HumanFirst),
        ("U:a | A:b", ConversationRule::NotModelLast),
        ("U:a | U:b", ConversationRule::Alternation),
        ("U:a | A:b | A:c | U:d", ConversationRule::Alternation),
        ("U:a | A:@1 | U:b", ConversationRule::Answered),
        ("U:a | A:@1", ConversationRule::Answered),
        ("U:a | A:@1@2 | T:1=x", ConversationRule::Answered),
        ("U:a | A:@1@2 | T:1=x | U:b", ConversationRule::Answered),
        ("U:a | T:1=x", ConversationRule::Result),
        ("U:a | A:@1 | T:1=x | U:b | T:1=x", ConversationRule::Result),
        ("U:a | A:@1@2 | T:2=x | T:1=y", ConversationRule::Result),
        ("U:a | A:@1 | T:1=x | T:1=y", ConversationRule::Result),
        ("U:a | A:@ü | T:ü=x", ConversationRule::CallId),
        ("U:a | A:@1@1 | T:1=x | T:1=x", ConversationRule::CallId),
        ("U:a | A:@1 | T:1=x | A:@1 | T:1=x", ConversationRule::CallId),
        ("U: ", ConversationRule::NotBlank),
        ("U:a | A: | U:b", ConversationRule::Content),
    ] {
        let messages = parse_script(script);
        let violations = find_violations(&unchanged_conversation(&messages), &ANTHROPIC);
        assert!(violations.iter().any(|violation| violation.rule == rule), "{script}: {violations:?}");
    }
}

/// Returns the rules that a model's message with these pieces breaks, between two messages of a person.
fn broken_rules(profile: &ProviderProfile, pieces: Vec<MessagePiece<'_>>) -> Vec<ConversationRule> {
    let text = || vec![MessagePiece::Text(Cow::Borrowed("a"))];
    let conversation = Conversation::from_messages(vec![
        (Speaker::Human, text()),
        (Speaker::Model, pieces),
        (Speaker::Human, text()),
    ]);
    find_violations(&conversation, profile).into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn l5_the_check_finds_foreign_and_incomplete_reasoning() {
    let signed = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    const fn thinking<'a>(provider: &'a str, raw: &'a Value) -> MessagePiece<'a> {
        MessagePiece::Thinking(ProviderBlock { provider, raw })
    }
    let text = || MessagePiece::Text(Cow::Borrowed("a"));
    let check = |provider: &str, raw: &Value, expected: &[ConversationRule]| {
        assert_eq!(
            broken_rules(&ANTHROPIC, vec![thinking(provider, raw), text()]),
            expected,
            "{provider} {raw}"
        );
    };
    check("anthropic", &signed, &[]);
    check("anthropic", &json!({"type": "redacted_thinking", "data": "d"}), &[]);
    check("openai", &signed, &[ConversationRule::OwnBlocks]);
    check("anthropic", &json!({"type": "thinking", "thinking": "hm"}), &[ConversationRule::OwnBlocks]);
    check("anthropic", &json!({"type": "thinking", "signature": ""}), &[ConversationRule::OwnBlocks]);
    check("anthropic", &json!(null), &[ConversationRule::OwnBlocks]);
    assert_eq!(
        broken_rules(&ANTHROPIC, vec![text(), thinking("anthropic", &signed)]),
        [ConversationRule::OwnBlocks]
    );
    assert_eq!(
        broken_rules(&ANTHROPIC, vec![thinking("anthropic", &signed)]),
        [ConversationRule::Content, ConversationRule::OwnBlocks]
    );
    let opaque = json!({"type": "x"});
    let opaque_block = |provider| MessagePiece::Opaque(ProviderBlock { provider, raw: &opaque });
    assert_eq!(broken_rules(&ANTHROPIC, vec![opaque_block("anthropic")]), []);
    assert_eq!(broken_rules(&ANTHROPIC, vec![opaque_block("gemini")]), [ConversationRule::OwnBlocks]);
    let chat = ProviderProfile::for_provider(Provider::OpenAiChat);
    assert_eq!(broken_rules(&chat, vec![opaque_block("openai-chat")]), [ConversationRule::OwnBlocks]);
}

#[test]
fn l10_the_check_finds_media_that_the_provider_does_not_accept() {
    let check = |profile: &ProviderProfile, media_type, length: usize, expected: &[ConversationRule]| {
        let bytes = vec![0; length];
        let media = MessagePiece::Media(MediaBytes { media_type, sha256: "aa", bytes: &bytes });
        let conversation = Conversation::from_messages(vec![(Speaker::Human, vec![media])]);
        let rules: Vec<ConversationRule> =
            find_violations(&conversation, profile).into_iter().map(|v| v.rule).collect();
        assert_eq!(rules, expected, "{media_type} of {length} for {profile:?}");
    };
    check(&ANTHROPIC, "image/png", 9, &[]);
    check(&ANTHROPIC, "image/png", 0, &[ConversationRule::Media]);
    check(&ANTHROPIC, "image/png", 4 << 20, &[ConversationRule::Media]);
    check(&ANTHROPIC, "text/plain", 9, &[ConversationRule::Media]);
    check(
        &ProviderProfile::for_provider(Provider::OpenAiChat),
        "application/pdf",
        9,
        &[ConversationRule::Media],
    );
    check(
        &ProviderProfile::for_provider(Provider::Gemini),
        "application/pdf",
        13 << 20,
        &[ConversationRule::Media, ConversationRule::Media],
    );
    let media = MessagePiece::Media(MediaBytes { media_type: "image/png", sha256: "aa", bytes: b"x" });
    assert_eq!(broken_rules(&ANTHROPIC, vec![media]), [ConversationRule::PieceKind]);
}

#[test]
fn l4_the_check_finds_illegal_names_and_arguments() {
    let number = json!(1);
    let empty = json!({});
    let call = |name: &'static str, args| MessagePiece::Call {
        id: Cow::Borrowed("1"),
        name: Cow::Borrowed(name),
        args,
    };
    for (piece, rule) in [
        (call("a.b", CallArguments::Object(&empty)), ConversationRule::ToolName),
        (call("", CallArguments::Empty), ConversationRule::ToolName),
        (call("read", CallArguments::Object(&number)), ConversationRule::Args),
    ] {
        assert!(broken_rules(&ANTHROPIC, vec![piece.clone()]).contains(&rule), "{piece:?}");
    }
    assert_eq!(
        broken_rules(&ANTHROPIC, vec![call("read", CallArguments::Invalid(&number))]),
        [ConversationRule::Answered]
    );
}
