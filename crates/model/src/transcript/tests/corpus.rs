//! Pseudorandom transcripts, the same in every run: ordinary batches of calls mixed with everything that goes
//! wrong in practice. The expectations are in the tests that use them.

use protocol::{AiMessage, ContentBlock, HumanMessage, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use crate::name::Provider;
use crate::transcript::AvailableMedia;

/// Tool names, legal and illegal.
const NAMES: [&str; 4] = ["read", "write", "mcp.files/read", ""];

/// A deterministic pseudorandom generator (SplitMix64).
pub(crate) struct TranscriptRng(u64);

impl TranscriptRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    fn next_below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true with a probability of one in `times`.
    fn is_one_in(&mut self, times: u64) -> bool {
        self.next_below(times) == 0
    }

    fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.next_below(items.len() as u64)).expect("it is an index")]
    }
}

/// A generator of one transcript. Every text is numbered, so that a test can recognise it.
struct ConversationGenerator {
    rng: TranscriptRng,
    messages: Vec<Message>,
    ids: Vec<String>,
    number: u64,
}

/// Returns the bytes that are available for the media of transcripts.
pub(crate) fn available_media() -> AvailableMedia {
    let bytes = |text: &str| text.as_bytes().into();
    AvailableMedia::from([("aa".to_owned(), bytes("\u{89}PNG")), ("bb".to_owned(), bytes("%PDF-1.7"))])
}

/// Returns the transcript for this seed.
pub(crate) fn generate_transcript(seed: u64) -> Vec<Message> {
    let mut generator = ConversationGenerator {
        rng: TranscriptRng::new(seed),
        messages: Vec::new(),
        ids: Vec::new(),
        number: 0,
    };
    for _ in 0..generator.rng.next_below(7) {
        match generator.rng.next_below(8) {
            0 | 1 => generator.push_human(),
            2 | 3 => generator.push_ai(),
            4 => generator.push_lone_result(),
            5..=7 => generator.push_batch(),
            _ => unreachable!("the number is below eight"),
        }
    }
    generator.messages
}

impl ConversationGenerator {
    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn push_human(&mut self) {
        let content = (0..self.rng.next_below(3)).map(|_| self.human_block()).collect();
        self.messages.push(Message::Human(HumanMessage { id: None, content }));
    }

    fn push_ai(&mut self) {
        let content = (0..self.rng.next_below(5)).map(|_| self.model_block()).collect();
        let incomplete = self.rng.is_one_in(4);
        self.messages.push(Message::Ai(AiMessage { content, incomplete, ..AiMessage::default() }));
    }

    /// Adds calls and most of their results, in some order. Some results come twice, and some after another
    /// message.
    fn push_batch(&mut self) {
        let mut content: Vec<ContentBlock> =
            (0..self.rng.next_below(3)).map(|_| self.model_block()).collect();
        let first = self.ids.len();
        let calls = 1 + self.rng.next_below(3);
        content.extend((0..calls).map(|_| self.call_block()));
        if self.rng.is_one_in(6) {
            content.push(self.model_block());
        }
        self.messages.push(Message::Ai(AiMessage { content, ..AiMessage::default() }));
        if self.rng.is_one_in(8) {
            self.push_human();
        }
        let mut ids = self.ids[first..].to_vec();
        if self.rng.is_one_in(2) {
            ids.reverse();
        }
        for id in ids {
            let times = self.rng.choose(&[1, 1, 1, 1, 0, 2]);
            for _ in 0..times {
                self.push_result(id.clone());
            }
        }
    }

    fn push_lone_result(&mut self) {
        let id = match self.rng.next_below(4) {
            0 => String::new(),
            1 => "unknown".to_owned(),
            _ if self.ids.is_empty() => "early".to_owned(),
            _ => {
                let ids = self.ids.clone();
                let index = usize::try_from(self.rng.next_below(ids.len() as u64)).expect("it is an index");
                ids[index].clone()
            }
        };
        self.push_result(id);
    }

    fn push_result(&mut self, call_id: String) {
        let mut content = vec![];
        if !self.rng.is_one_in(6) {
            content.push(ContentBlock::text(format!("r{}", self.number())));
        }
        if self.rng.is_one_in(6) {
            content.push(self.human_block());
        }
        let name = self.rng.is_one_in(3).then(|| self.rng.choose(&NAMES).to_owned());
        let status = self.rng.choose(&[ToolStatus::Success, ToolStatus::Success, ToolStatus::Error]);
        self.messages.push(Message::Tool(ToolMessage { id: None, call_id, name, content, status }));
    }

    /// Returns a block of a person's or a tool's message.
    fn human_block(&mut self) -> ContentBlock {
        match self.rng.next_below(10) {
            0..=4 => ContentBlock::text(format!("u{}", self.number())),
            5 => ContentBlock::text(self.rng.choose(&["", " \n", "\u{a0}\t"])),
            6 | 7 => self.media_block(),
            8 => self.thinking_block(),
            _ => self.misplaced_call_block(),
        }
    }

    /// Returns a block of a model's message.
    fn model_block(&mut self) -> ContentBlock {
        match self.rng.next_below(12) {
            0..=3 => ContentBlock::text(format!("a{}", self.number())),
            4 => ContentBlock::text(self.rng.choose(&["", " \n"])),
            5..=8 => self.thinking_block(),
            9 => self.call_block(),
            10 => {
                let provider = self.provider();
                let raw = self.rng.choose(&[r#"{"type":"x"}"#, r#"{"type":"x"}"#, "{}", "null"]);
                let raw = serde_json::from_str(raw).expect("it is JSON");
                ContentBlock::Opaque { provider, raw }
            }
            _ => self.media_block(),
        }
    }

    fn media_block(&mut self) -> ContentBlock {
        let media_type = self.rng.choose(&["image/png", "image/png", "application/pdf", "text/plain", ""]);
        let sha256 = self.rng.choose(&[Some("aa"), Some("bb"), Some("cc"), None]);
        ContentBlock::Media {
            media_type: media_type.into(),
            sha256: sha256.map(str::to_owned),
            bytes: Some(9),
        }
    }

    fn thinking_block(&mut self) -> ContentBlock {
        let provider = self.provider();
        let number = self.number();
        let raw = self.rng.is_one_in(4).then(|| json!({"n": number}));
        let raw = if self.rng.is_one_in(3) { raw } else { Some(signed_thinking(&provider, number)) };
        let provider = (!self.rng.is_one_in(12)).then_some(provider);
        ContentBlock::Thinking { text: "hm".into(), provider, raw }
    }

    fn provider(&mut self) -> String {
        self.rng.choose(&Provider::ALL).as_str().to_owned()
    }

    fn call_block(&mut self) -> ContentBlock {
        let number = self.number();
        let id = match self.rng.next_below(12) {
            0 => String::new(),
            1 => "functions.read:0".to_owned(),
            2 => "é".repeat(70),
            3 => "x".repeat(60),
            4..=6 => format!("c{}", self.rng.next_below(3)),
            _ => format!("call_{number}"),
        };
        self.ids.push(id.clone());
        let args = match self.rng.next_below(8) {
            0 => Value::Null,
            1 => json!("{\"n\": "),
            2 => json!([1]),
            _ => json!({"n": number}),
        };
        ContentBlock::ToolCall { id, name: self.rng.choose(&NAMES).into(), args }
    }

    /// Returns a call in a message that must not have any. It never gets a result.
    fn misplaced_call_block(&mut self) -> ContentBlock {
        let block = self.call_block();
        self.ids.pop();
        block
    }
}

/// Returns a block of reasoning in the form of its provider.
fn signed_thinking(provider: &str, number: u64) -> Value {
    let text = format!("t{number}");
    match provider {
        "anthropic" if number.is_multiple_of(3) => json!({"type": "redacted_thinking", "data": text}),
        "anthropic" => json!({"type": "thinking", "thinking": "hm", "signature": text}),
        "openai" => json!({"type": "reasoning", "summary": [], "encrypted_content": text}),
        "gemini" if number.is_multiple_of(2) => json!({"thoughtSignature": text}),
        "gemini" => json!({"text": "hm", "thought": true, "thoughtSignature": text}),
        _ => json!({"reasoning_content": text}),
    }
}
