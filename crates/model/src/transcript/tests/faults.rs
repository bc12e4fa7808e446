//! The check sees every fault, in conversations that never were made legal.

use std::borrow::Cow;

use protocol::{Block, Message, ToolStatus};
use serde_json::{Value, json};

use super::read;
use crate::name::Provider;
use crate::transcript::{Args, Conversation, Media, Own, Piece, Profile, Rule, Speaker, violations};

const ANTHROPIC: Profile = Profile::of(Provider::Anthropic);

fn as_is(messages: &[Message]) -> Conversation<'_> {
    let said = |message| (speaker(message), Message::content(message).iter().map(piece).collect());
    Conversation::of(messages.iter().map(said).collect())
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

fn piece(block: &Block) -> Piece<'_> {
    match block {
        Block::Text { text } => Piece::Text(Cow::Borrowed(text)),
        Block::ToolCall { id, name, args } => {
            Piece::Call { id: Cow::Borrowed(id), name: Cow::Borrowed(name), args: Args::Object(args) }
        }
        other => panic!("{other:?} is not in the compact form"),
    }
}

#[test]
fn l1_the_check_sees_each_fault() {
    for (script, rule) in [
        ("", Rule::NotEmpty),
        ("A:a | U:b", Rule::HumanFirst),
        ("T:1=x | U:b", Rule::HumanFirst),
        ("U:a | A:b", Rule::NotModelLast),
        ("U:a | U:b", Rule::Alternation),
        ("U:a | A:b | A:c | U:d", Rule::Alternation),
        ("U:a | A:@1 | U:b", Rule::Answered),
        ("U:a | A:@1", Rule::Answered),
        ("U:a | A:@1@2 | T:1=x", Rule::Answered),
        ("U:a | A:@1@2 | T:1=x | U:b", Rule::Answered),
        ("U:a | T:1=x", Rule::Result),
        ("U:a | A:@1 | T:1=x | U:b | T:1=x", Rule::Result),
        ("U:a | A:@1@2 | T:2=x | T:1=y", Rule::Result),
        ("U:a | A:@1 | T:1=x | T:1=y", Rule::Result),
        ("U:a | A:@ü | T:ü=x", Rule::CallId),
        ("U:a | A:@1@1 | T:1=x | T:1=x", Rule::CallId),
        ("U:a | A:@1 | T:1=x | A:@1 | T:1=x", Rule::CallId),
        ("U: ", Rule::NotBlank),
        ("U:a | A: | U:b", Rule::Content),
    ] {
        let messages = read(script);
        let found = violations(&as_is(&messages), &ANTHROPIC);
        assert!(found.iter().any(|found| found.rule == rule), "{script}: {found:?}");
    }
}

/// Returns the rules that a model's message with these pieces breaks between two of a person.
fn broken(profile: &Profile, pieces: Vec<Piece<'_>>) -> Vec<Rule> {
    let text = || vec![Piece::Text(Cow::Borrowed("a"))];
    let conversation =
        Conversation::of(vec![(Speaker::Human, text()), (Speaker::Model, pieces), (Speaker::Human, text())]);
    violations(&conversation, profile).into_iter().map(|found| found.rule).collect()
}

#[test]
fn l5_the_check_sees_reasoning_that_is_not_the_providers_own_or_not_whole() {
    let signed = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    const fn thinking<'a>(provider: &'a str, raw: &'a Value) -> Piece<'a> {
        Piece::Thinking(Own { provider, raw })
    }
    let text = || Piece::Text(Cow::Borrowed("a"));
    let check = |provider: &str, raw: &Value, expected: &[Rule]| {
        assert_eq!(broken(&ANTHROPIC, vec![thinking(provider, raw), text()]), expected, "{provider} {raw}");
    };
    check("anthropic", &signed, &[]);
    check("anthropic", &json!({"type": "redacted_thinking", "data": "d"}), &[]);
    check("openai", &signed, &[Rule::OwnBlocks]);
    check("anthropic", &json!({"type": "thinking", "thinking": "hm"}), &[Rule::OwnBlocks]);
    check("anthropic", &json!({"type": "thinking", "signature": ""}), &[Rule::OwnBlocks]);
    check("anthropic", &json!(null), &[Rule::OwnBlocks]);
    assert_eq!(broken(&ANTHROPIC, vec![text(), thinking("anthropic", &signed)]), [Rule::OwnBlocks]);
    assert_eq!(broken(&ANTHROPIC, vec![thinking("anthropic", &signed)]), [Rule::Content, Rule::OwnBlocks]);
    let opaque = json!({"type": "x"});
    let own = |provider| Piece::Opaque(Own { provider, raw: &opaque });
    assert_eq!(broken(&ANTHROPIC, vec![own("anthropic")]), []);
    assert_eq!(broken(&ANTHROPIC, vec![own("gemini")]), [Rule::OwnBlocks]);
    let chat = Profile::of(Provider::OpenAiChat);
    assert_eq!(broken(&chat, vec![own("openai-chat")]), [Rule::OwnBlocks]);
}

#[test]
fn l10_the_check_sees_media_that_the_provider_does_not_take() {
    let check = |profile: &Profile, media_type, length: usize, expected: &[Rule]| {
        let bytes = vec![0; length];
        let media = Piece::Media(Media { media_type, sha256: "aa", bytes: &bytes });
        let conversation = Conversation::of(vec![(Speaker::Human, vec![media])]);
        let found: Vec<Rule> = violations(&conversation, profile).into_iter().map(|v| v.rule).collect();
        assert_eq!(found, expected, "{media_type} of {length} for {profile:?}");
    };
    check(&ANTHROPIC, "image/png", 9, &[]);
    check(&ANTHROPIC, "image/png", 0, &[Rule::Media]);
    check(&ANTHROPIC, "image/png", 4 << 20, &[Rule::Media]);
    check(&ANTHROPIC, "text/plain", 9, &[Rule::Media]);
    check(&Profile::of(Provider::OpenAiChat), "application/pdf", 9, &[Rule::Media]);
    check(&Profile::of(Provider::Gemini), "application/pdf", 13 << 20, &[Rule::Media, Rule::Media]);
    let media = Piece::Media(Media { media_type: "image/png", sha256: "aa", bytes: b"x" });
    assert_eq!(broken(&ANTHROPIC, vec![media]), [Rule::PieceKind]);
}

#[test]
fn l4_the_check_sees_names_and_arguments_that_are_not_legal() {
    let number = json!(1);
    let empty = json!({});
    let call =
        |name: &'static str, args| Piece::Call { id: Cow::Borrowed("1"), name: Cow::Borrowed(name), args };
    for (piece, rule) in [
        (call("a.b", Args::Object(&empty)), Rule::ToolName),
        (call("", Args::Empty), Rule::ToolName),
        (call("read", Args::Object(&number)), Rule::Args),
    ] {
        assert!(broken(&ANTHROPIC, vec![piece.clone()]).contains(&rule), "{piece:?}");
    }
    assert_eq!(broken(&ANTHROPIC, vec![call("read", Args::Invalid(&number))]), [Rule::Answered]);
}
