//! Tests of properties that hold for every generated transcript, wherever it is cut. The rules are stated a
//! second time here, slowly and without the code that implements them.

use std::collections::HashMap;

use protocol::{ContentBlock, Message};

use super::corpus::{available_media, generate_transcript};
use super::to_messages;
use crate::name::Provider;
use crate::transcript::{
    AvailableMedia, CallArguments, Conversation, MessagePiece, NO_RESULT, ProviderBlock, ProviderProfile,
    Speaker, find_violations, legalize,
};

/// Returns the number of transcripts, and with it the divisor of all numbers that are expected of the full count.
fn transcript_count() -> (u64, u64) {
    let reduction = test_counts::count(50, 1);
    (100_000 / reduction, reduction)
}

/// Every `SAMPLE`th transcript is also checked for slower properties.
const SAMPLE: u64 = 16;

/// Calls `check` with both parts of each transcript, for every position of the cut.
fn for_each_part(mut check: impl FnMut(u64, &[Message])) {
    for seed in 0..transcript_count().0 {
        let transcript = generate_transcript(seed);
        for cut in 0..=transcript.len() {
            check(seed, &transcript[..cut]);
            if cut > 0 {
                check(seed, &transcript[cut..]);
            }
        }
    }
}

#[test]
fn l1_every_cut_of_every_transcript_is_legal_for_every_provider() {
    let available = available_media();
    let mut requests = 0_u64;
    for_each_part(|seed, part| {
        for provider in Provider::ALL {
            let profile = ProviderProfile::for_provider(provider);
            let legal = legalize(part, &available, &profile);
            assert_eq!(
                find_violations(&legal, &profile),
                [],
                "transcript {seed} for {provider:?}: {part:#?}"
            );
            requests += 1;
        }
    });
    assert!(requests > 3_000_000 / transcript_count().1, "{requests} are too few to be conclusive");
}

/// A compacted context begins with the summary, and possibly the person's last request.
#[test]
fn l1_l7_a_context_with_a_summary_is_legal_for_every_cut_and_the_summary_is_sent_verbatim() {
    let available = available_media();
    let summary = "<earlier_conversation_summary>\nWhat was done.\n</earlier_conversation_summary>";
    let mut requests = 0_u64;
    for seed in 0..transcript_count().0 {
        let transcript = generate_transcript(seed);
        let profile = ProviderProfile::for_provider(Provider::ALL[(seed % 4) as usize]);
        let opening = [Message::human(summary), Message::human("The request.")];
        for cut in 0..=transcript.len() {
            let kept = 1 + (seed as usize + cut) % 2;
            let context: Vec<Message> = opening[..kept].iter().chain(&transcript[cut..]).cloned().collect();
            let legal = legalize(&context, &available, &profile);
            assert_eq!(find_violations(&legal, &profile), [], "transcript {seed} at {cut}: {context:#?}");
            let first = texts_of(legal.message(0).pieces);
            assert!(first.starts_with(summary), "transcript {seed} at {cut}: {first}");
            assert_eq!(first.contains("+The request."), kept == 2, "transcript {seed} at {cut}: {first}");
            requests += 1;
        }
    }
    assert!(requests > 600_000 / transcript_count().1, "{requests} are too few to be conclusive");
}

#[test]
fn l2_l3_every_call_is_sent_once_with_its_first_result_or_a_placeholder() {
    let available = available_media();
    let (mut answered, mut dangling) = (0_u64, 0_u64);
    for_each_part(|seed, part| {
        let profile = ProviderProfile::for_provider(Provider::ALL[(seed % 4) as usize]);
        let legal = legalize(part, &available, &profile);
        let sent = answers(&legal);
        let expected: Vec<_> = calls(part).into_iter().zip(results(part)).collect();
        assert_eq!(sent.len(), expected.len(), "transcript {seed}: {part:#?}");
        for ((call, answer), (args, result)) in sent.iter().zip(&expected) {
            assert_eq!(call, args, "transcript {seed}: {part:#?}");
            let is_right = match result {
                Some(number) => {
                    answered += 1;
                    answer != NO_RESULT && answer.starts_with(number.as_str())
                }
                None => {
                    dangling += 1;
                    answer == NO_RESULT
                }
            };
            assert!(is_right, "transcript {seed}: {answer:?} is not {result:?} of {part:#?}");
        }
    });
    let reduction = transcript_count().1;
    assert!(
        answered > 1_000_000 / reduction && dangling > 500_000 / reduction,
        "{answered} answered, {dangling} dangling"
    );
}

/// Returns the arguments of each call that is sent, with the text of its result.
fn answers(legal: &Conversation<'_>) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    let mut texts = Vec::new();
    for message in legal.iter() {
        match message.speaker {
            Speaker::Tool { .. } => texts.push(texts_of(message.pieces)),
            Speaker::Human | Speaker::Model => {
                calls.extend(message.pieces.iter().filter_map(|piece| match piece {
                    MessagePiece::Call {
                        args: CallArguments::Object(args) | CallArguments::Invalid(args),
                        ..
                    } => Some(args.to_string()),
                    MessagePiece::Call { args: CallArguments::Empty, .. } => Some("null".to_owned()),
                    MessagePiece::Text(_)
                    | MessagePiece::Media(_)
                    | MessagePiece::Thinking(_)
                    | MessagePiece::Opaque(_) => None,
                }))
            }
        }
    }
    assert_eq!(calls.len(), texts.len());
    calls.into_iter().zip(texts).collect()
}

fn texts_of(pieces: &[MessagePiece<'_>]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        MessagePiece::Text(text) => text.as_ref(),
        MessagePiece::Media(_) => "(media)",
        MessagePiece::Call { .. } | MessagePiece::Thinking(_) | MessagePiece::Opaque(_) => "(misplaced)",
    });
    texts.collect::<Vec<_>>().join("+")
}

/// Returns the arguments of each call of a model.
fn calls(messages: &[Message]) -> Vec<String> {
    let models = messages.iter().filter(|message| matches!(message, Message::Ai(_)));
    models.flat_map(Message::tool_calls).map(|(_, _, args)| args.to_string()).collect()
}

/// Returns, for each call of a model, the unique text of its result. The text is empty for a result without text,
/// and `None` stands for a call without a result.
fn results(messages: &[Message]) -> Vec<Option<String>> {
    let mut calls: Vec<(usize, &str, &str, Option<String>)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::Human(_) => {}
            Message::Ai(_) => {
                calls.extend(message.tool_calls().map(|(id, name, _)| (index, id, name, None)));
            }
            Message::Tool(result) => {
                let id = result.call_id.as_str();
                let is_match = |call: &&(usize, &str, &str, Option<String>)| id.is_empty() || call.1 == id;
                let Some(batch) = calls.iter().filter(is_match).map(|call| call.0).max() else { continue };
                let has_name = |name: &str| {
                    !id.is_empty() || result.name.as_ref().is_none_or(|expected| expected == name)
                };
                let call = calls.iter_mut().find(|call| {
                    call.0 == batch && (id.is_empty() || call.1 == id) && has_name(call.2) && call.3.is_none()
                });
                if let Some(call) = call {
                    let text = message.text();
                    call.3 = Some(text.split('\n').next().unwrap_or_default().trim().to_owned());
                }
            }
        }
    }
    calls.into_iter().map(|call| call.3).collect()
}

#[test]
fn l5_a_tool_loop_has_all_of_its_signed_reasoning_unchanged_or_none_and_no_foreign_reasoning() {
    let available = available_media();
    let (mut complete, mut none) = (0_u64, 0_u64);
    for_each_part(|seed, part| {
        let provider = [Provider::Anthropic, Provider::OpenAi, Provider::Gemini][(seed % 3) as usize];
        let legal = legalize(part, &available, &ProviderProfile::for_provider(provider));
        let mut sent = legal
            .iter()
            .flat_map(|message| message.pieces)
            .filter_map(|piece| match piece {
                MessagePiece::Thinking(ProviderBlock { provider, raw }) => Some((*provider, raw.to_string())),
                MessagePiece::Text(_)
                | MessagePiece::Media(_)
                | MessagePiece::Call { .. }
                | MessagePiece::Opaque(_) => None,
            })
            .peekable();
        for mut expected in loops(part, provider) {
            if expected.is_empty() {
                continue;
            }
            if sent.peek().is_some_and(|(_, raw)| *raw == expected[0]) {
                complete += 1;
                let same: Vec<String> = sent.by_ref().take(expected.len()).map(|(_, raw)| raw).collect();
                assert_eq!(same, std::mem::take(&mut expected), "transcript {seed}: {part:#?}");
            } else {
                none += 1;
            }
        }
        assert_eq!(sent.next(), None, "transcript {seed} for {provider:?}: {part:#?}");
    });
    let reduction = transcript_count().1;
    assert!(
        complete > 10_000 / reduction && none > 1_000 / reduction,
        "{complete} loops with reasoning, {none} without"
    );
}

/// Returns the provider's own signed reasoning of each tool loop, unchanged.
fn loops(messages: &[Message], provider: Provider) -> Vec<Vec<String>> {
    let mut loops = vec![Vec::new()];
    for message in messages {
        match message {
            Message::Human(human) => {
                let has_content = human.content.iter().any(|block| match block {
                    ContentBlock::Text { text } => !text.trim().is_empty(),
                    ContentBlock::Media { .. } => true,
                    ContentBlock::Thinking { .. }
                    | ContentBlock::ToolCall { .. }
                    | ContentBlock::Opaque { .. } => false,
                });
                if has_content {
                    loops.push(Vec::new());
                }
            }
            Message::Ai(ai) => {
                let last = loops.last_mut().expect("there is always a loop");
                last.extend(ai.content.iter().filter_map(|block| match block {
                    ContentBlock::Thinking { provider: Some(owner), raw: Some(raw), .. }
                        if owner == provider.as_str() && raw.get("n").is_none() =>
                    {
                        Some(raw.to_string())
                    }
                    _ => None,
                }));
            }
            Message::Tool(_) => {}
        }
    }
    loops
}

#[test]
fn l1_no_text_is_lost_and_a_legal_conversation_stays_unchanged() {
    let available = available_media();
    for seed in (0..transcript_count().0).step_by(SAMPLE as usize) {
        let transcript = generate_transcript(seed);
        for provider in Provider::ALL {
            let profile = ProviderProfile::for_provider(provider);
            let legal = legalize(&transcript, &available, &profile);
            let again = to_messages(&legal);
            assert_eq!(to_messages(&legalize(&again, &available, &profile)), again, "transcript {seed}");
            assert_eq!(words(&again), words(&transcript), "transcript {seed} for {provider:?}");
        }
    }
}

/// Returns the numbered texts of people and models.
fn words(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .filter(|message| !matches!(message, Message::Tool(_)))
        .flat_map(Message::content)
        .filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text),
            _ => None,
        })
        .filter(|text| text.starts_with(['u', 'a']) && text[1..].parse::<u64>().is_ok())
        .cloned()
        .collect()
}

#[test]
fn l1_a_longer_conversation_begins_as_the_shorter_one_did() {
    let available = AvailableMedia::new();
    for seed in (0..transcript_count().0).step_by(SAMPLE as usize) {
        let transcript = generate_transcript(seed);
        let profile = ProviderProfile::for_provider(Provider::ALL[(seed % 4) as usize]);
        let ids = |messages: &[Message]| -> Vec<String> {
            let legal = legalize(messages, &available, &profile);
            let pieces = legal.iter().flat_map(|message| message.pieces.to_vec());
            let calls = pieces.filter_map(|piece| match piece {
                MessagePiece::Call { id, .. } => Some(id.into_owned()),
                MessagePiece::Text(_)
                | MessagePiece::Media(_)
                | MessagePiece::Thinking(_)
                | MessagePiece::Opaque(_) => None,
            });
            calls.collect()
        };
        let all = ids(&transcript);
        for cut in 0..transcript.len() {
            assert!(all.starts_with(&ids(&transcript[..cut])), "transcript {seed} at {cut}");
        }
        let unique: HashMap<&str, usize> =
            all.iter().enumerate().map(|(index, id)| (id.as_str(), index)).collect();
        assert_eq!(unique.len(), all.len(), "transcript {seed}");
    }
}
