//! What must come of every transcript, whatever is in it and wherever it is cut. The rules are said a second time here,
//! slowly and without the machinery that keeps them.

use std::collections::HashMap;

use protocol::{Block, Message};

use super::corpus::{available, transcript};
use super::messages_of;
use crate::name::Provider;
use crate::transcript::{
    Args, Available, Conversation, NO_RESULT, Own, Piece, Profile, Speaker, legal, violations,
};

/// Transcripts of a run.
const TRANSCRIPTS: u64 = 100_000;

/// Every so manieth transcript is also checked for what is slow to check.
const SAMPLE: u64 = 16;

/// Calls `check` with each piece that a cut leaves of each transcript.
fn pieces(mut check: impl FnMut(u64, &[Message])) {
    for seed in 0..TRANSCRIPTS {
        let transcript = transcript(seed);
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
    let available = available();
    let mut requests = 0_u64;
    pieces(|seed, piece| {
        for provider in Provider::ALL {
            let profile = Profile::of(provider);
            let made = legal(piece, &available, &profile);
            assert_eq!(violations(&made, &profile), [], "transcript {seed} for {provider:?}: {piece:#?}");
            requests += 1;
        }
    });
    assert!(requests > 3_000_000, "{requests} are too few to say anything");
}

/// What a context begins with once its beginning is condensed: the summary, and perhaps the person's last request.
#[test]
fn l1_l7_what_follows_a_summary_is_legal_wherever_the_cut_was_and_both_are_sent_word_for_word() {
    let available = available();
    let summary = "<earlier_conversation_summary>\nWhat was done.\n</earlier_conversation_summary>";
    let mut requests = 0_u64;
    for seed in 0..TRANSCRIPTS {
        let transcript = transcript(seed);
        let profile = Profile::of(Provider::ALL[(seed % 4) as usize]);
        let opening = [Message::human(summary), Message::human("The request.")];
        for cut in 0..=transcript.len() {
            let kept = 1 + (seed as usize + cut) % 2;
            let context: Vec<Message> = opening[..kept].iter().chain(&transcript[cut..]).cloned().collect();
            let made = legal(&context, &available, &profile);
            assert_eq!(violations(&made, &profile), [], "transcript {seed} at {cut}: {context:#?}");
            let first = texts_of(made.said(0).pieces);
            assert!(first.starts_with(summary), "transcript {seed} at {cut}: {first}");
            assert_eq!(first.contains("+The request."), kept == 2, "transcript {seed} at {cut}: {first}");
            requests += 1;
        }
    }
    assert!(requests > 600_000, "{requests} are too few to say anything");
}

#[test]
fn l2_l3_every_call_is_sent_once_with_its_first_result_or_one_that_says_there_is_none() {
    let available = available();
    let (mut answered, mut dangling) = (0_u64, 0_u64);
    pieces(|seed, piece| {
        let profile = Profile::of(Provider::ALL[(seed % 4) as usize]);
        let made = legal(piece, &available, &profile);
        let sent = answers(&made);
        let expected: Vec<_> = calls(piece).into_iter().zip(results(piece)).collect();
        assert_eq!(sent.len(), expected.len(), "transcript {seed}: {piece:#?}");
        for ((call, answer), (args, result)) in sent.iter().zip(&expected) {
            assert_eq!(call, args, "transcript {seed}: {piece:#?}");
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
            assert!(is_right, "transcript {seed}: {answer:?} is not {result:?} of {piece:#?}");
        }
    });
    assert!(answered > 1_000_000 && dangling > 500_000, "{answered} answered, {dangling} dangling");
}

/// Returns the arguments of each call that is sent, with the text that answers it.
fn answers(made: &Conversation<'_>) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    let mut texts = Vec::new();
    for said in made.iter() {
        match said.speaker {
            Speaker::Tool { .. } => texts.push(texts_of(said.pieces)),
            Speaker::Human | Speaker::Model => {
                calls.extend(said.pieces.iter().filter_map(|piece| match piece {
                    Piece::Call { args: Args::Object(args) | Args::Invalid(args), .. } => {
                        Some(args.to_string())
                    }
                    Piece::Call { args: Args::Empty, .. } => Some("null".to_owned()),
                    Piece::Text(_) | Piece::Media(_) | Piece::Thinking(_) | Piece::Opaque(_) => None,
                }))
            }
        }
    }
    assert_eq!(calls.len(), texts.len());
    calls.into_iter().zip(texts).collect()
}

fn texts_of(pieces: &[Piece<'_>]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.as_ref(),
        Piece::Media(_) => "(media)",
        Piece::Call { .. } | Piece::Thinking(_) | Piece::Opaque(_) => "(misplaced)",
    });
    texts.collect::<Vec<_>>().join("+")
}

/// Returns the arguments of each call of a model.
fn calls(messages: &[Message]) -> Vec<String> {
    let models = messages.iter().filter(|message| matches!(message, Message::Ai(_)));
    models.flat_map(Message::tool_calls).map(|(_, _, args)| args.to_string()).collect()
}

/// Returns, for each call of a model, a text that its result has and no other; empty for a result without text, `None`
/// for a call without a result.
fn results(messages: &[Message]) -> Vec<Option<String>> {
    let mut open: Vec<(usize, &str, &str, Option<String>)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::Human(_) => {}
            Message::Ai(_) => {
                open.extend(message.tool_calls().map(|(id, name, _)| (index, id, name, None)));
            }
            Message::Tool(result) => {
                let id = result.call_id.as_str();
                let meant = |call: &&(usize, &str, &str, Option<String>)| id.is_empty() || call.1 == id;
                let Some(batch) = open.iter().filter(meant).map(|call| call.0).max() else { continue };
                let named = |name: &str| {
                    !id.is_empty() || result.name.as_ref().is_none_or(|expected| expected == name)
                };
                let call = open.iter_mut().find(|call| {
                    call.0 == batch && (id.is_empty() || call.1 == id) && named(call.2) && call.3.is_none()
                });
                if let Some(call) = call {
                    let text = message.text();
                    call.3 = Some(text.split('\n').next().unwrap_or_default().trim().to_owned());
                }
            }
        }
    }
    open.into_iter().map(|call| call.3).collect()
}

#[test]
fn l5_signed_reasoning_is_sent_as_it_came_or_its_whole_tool_loop_has_none_and_anothers_is_nothing() {
    let available = available();
    let (mut whole, mut none) = (0_u64, 0_u64);
    pieces(|seed, piece| {
        let provider = [Provider::Anthropic, Provider::OpenAi, Provider::Gemini][(seed % 3) as usize];
        let made = legal(piece, &available, &Profile::of(provider));
        let mut sent = made
            .iter()
            .flat_map(|said| said.pieces)
            .filter_map(|piece| match piece {
                Piece::Thinking(Own { provider, raw }) => Some((*provider, raw.to_string())),
                Piece::Text(_) | Piece::Media(_) | Piece::Call { .. } | Piece::Opaque(_) => None,
            })
            .peekable();
        for mut own in loops(piece, provider) {
            if own.is_empty() {
                continue;
            }
            if sent.peek().is_some_and(|(_, raw)| *raw == own[0]) {
                whole += 1;
                let same: Vec<String> = sent.by_ref().take(own.len()).map(|(_, raw)| raw).collect();
                assert_eq!(same, std::mem::take(&mut own), "transcript {seed}: {piece:#?}");
            } else {
                none += 1;
            }
        }
        assert_eq!(sent.next(), None, "transcript {seed} for {provider:?}: {piece:#?}");
    });
    assert!(whole > 10_000 && none > 1_000, "{whole} loops with reasoning, {none} without");
}

/// Returns the provider's own signed reasoning of each tool loop, as it came.
fn loops(messages: &[Message], provider: Provider) -> Vec<Vec<String>> {
    let mut loops = vec![Vec::new()];
    for message in messages {
        match message {
            Message::Human(human) => {
                let speaks = human.content.iter().any(|block| match block {
                    Block::Text { text } => !text.trim().is_empty(),
                    Block::Media { .. } => true,
                    Block::Thinking { .. } | Block::ToolCall { .. } | Block::Opaque { .. } => false,
                });
                if speaks {
                    loops.push(Vec::new());
                }
            }
            Message::Ai(ai) => {
                let last = loops.last_mut().expect("there is always a loop");
                last.extend(ai.content.iter().filter_map(|block| match block {
                    Block::Thinking { provider: Some(whose), raw: Some(raw), .. }
                        if whose == provider.as_str() && raw.get("n").is_none() =>
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
fn l1_no_word_is_lost_and_a_legal_conversation_stays_as_it_is() {
    let available = available();
    for seed in (0..TRANSCRIPTS).step_by(SAMPLE as usize) {
        let transcript = transcript(seed);
        for provider in Provider::ALL {
            let profile = Profile::of(provider);
            let made = legal(&transcript, &available, &profile);
            let again = messages_of(&made);
            assert_eq!(messages_of(&legal(&again, &available, &profile)), again, "transcript {seed}");
            assert_eq!(words(&again), words(&transcript), "transcript {seed} for {provider:?}");
        }
    }
}

/// Returns what people and models said, by its number.
fn words(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .filter(|message| !matches!(message, Message::Tool(_)))
        .flat_map(Message::content)
        .filter_map(|block| match block {
            Block::Text { text } => Some(text),
            _ => None,
        })
        .filter(|text| text.starts_with(['u', 'a']) && text[1..].parse::<u64>().is_ok())
        .cloned()
        .collect()
}

#[test]
fn l1_a_longer_conversation_begins_as_the_shorter_one_did() {
    let available = Available::new();
    for seed in (0..TRANSCRIPTS).step_by(SAMPLE as usize) {
        let transcript = transcript(seed);
        let profile = Profile::of(Provider::ALL[(seed % 4) as usize]);
        let ids = |messages: &[Message]| -> Vec<String> {
            let made = legal(messages, &available, &profile);
            let pieces = made.iter().flat_map(|said| said.pieces.to_vec());
            let calls = pieces.filter_map(|piece| match piece {
                Piece::Call { id, .. } => Some(id.into_owned()),
                Piece::Text(_) | Piece::Media(_) | Piece::Thinking(_) | Piece::Opaque(_) => None,
            });
            calls.collect()
        };
        let all = ids(&transcript);
        for cut in 0..transcript.len() {
            assert!(all.starts_with(&ids(&transcript[..cut])), "transcript {seed} at {cut}");
        }
        let unique: HashMap<&str, usize> = all.iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
        assert_eq!(unique.len(), all.len(), "transcript {seed}");
    }
}
