//! Transcripts by chance, the same ones in every run: ordinary batches among everything that goes wrong in practice.
//! What must come of them is said elsewhere.

use protocol::{AiMessage, Block, HumanMessage, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use crate::name::Provider;
use crate::transcript::Available;

/// Names of tools, legal and not.
const NAMES: [&str; 4] = ["read", "write", "mcp.files/read", ""];

/// Chance that can be repeated.
pub(crate) struct Dice(u64);

impl Dice {
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
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.below(items.len() as u64)).expect("it is an index")]
    }
}

/// A transcript as it grows. Everything in it is numbered, so that it can be told apart wherever it ends up.
struct Story {
    dice: Dice,
    messages: Vec<Message>,
    ids: Vec<String>,
    number: u64,
}

/// Returns the bytes that are at hand for the transcripts' media.
pub(crate) fn available() -> Available {
    let bytes = |text: &str| text.as_bytes().into();
    Available::from([("aa".to_owned(), bytes("\u{89}PNG")), ("bb".to_owned(), bytes("%PDF-1.7"))])
}

/// Returns the transcript of that number.
pub(crate) fn transcript(seed: u64) -> Vec<Message> {
    let mut story = Story { dice: Dice::new(seed), messages: Vec::new(), ids: Vec::new(), number: 0 };
    for _ in 0..story.dice.below(7) {
        match story.dice.below(8) {
            0 | 1 => story.human(),
            2 | 3 => story.ai(),
            4 => story.lone_result(),
            5..=7 => story.batch(),
            _ => unreachable!("the dice has eight sides"),
        }
    }
    story.messages
}

impl Story {
    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn human(&mut self) {
        let content = (0..self.dice.below(3)).map(|_| self.spoken()).collect();
        self.messages.push(Message::Human(HumanMessage { id: None, content }));
    }

    fn ai(&mut self) {
        let content = (0..self.dice.below(5)).map(|_| self.sayable()).collect();
        let incomplete = self.dice.once_in(4);
        self.messages.push(Message::Ai(AiMessage { content, incomplete, ..AiMessage::default() }));
    }

    /// Adds calls and, in some order, most of their results; some twice, some after someone else has spoken.
    fn batch(&mut self) {
        let mut content: Vec<Block> = (0..self.dice.below(3)).map(|_| self.sayable()).collect();
        let first = self.ids.len();
        let calls = 1 + self.dice.below(3);
        content.extend((0..calls).map(|_| self.call()));
        if self.dice.once_in(6) {
            content.push(self.sayable());
        }
        self.messages.push(Message::Ai(AiMessage { content, ..AiMessage::default() }));
        if self.dice.once_in(8) {
            self.human();
        }
        let mut ids = self.ids[first..].to_vec();
        if self.dice.once_in(2) {
            ids.reverse();
        }
        for id in ids {
            let times = self.dice.of(&[1, 1, 1, 1, 0, 2]);
            for _ in 0..times {
                self.result(id.clone());
            }
        }
    }

    fn lone_result(&mut self) {
        let id = match self.dice.below(4) {
            0 => String::new(),
            1 => "unknown".to_owned(),
            _ if self.ids.is_empty() => "early".to_owned(),
            _ => {
                let ids = self.ids.clone();
                let at = usize::try_from(self.dice.below(ids.len() as u64)).expect("it is an index");
                ids[at].clone()
            }
        };
        self.result(id);
    }

    fn result(&mut self, call_id: String) {
        let mut content = vec![];
        if !self.dice.once_in(6) {
            content.push(Block::text(format!("r{}", self.number())));
        }
        if self.dice.once_in(6) {
            content.push(self.spoken());
        }
        let name = self.dice.once_in(3).then(|| self.dice.of(&NAMES).to_owned());
        let status = self.dice.of(&[ToolStatus::Success, ToolStatus::Success, ToolStatus::Error]);
        self.messages.push(Message::Tool(ToolMessage { id: None, call_id, name, content, status }));
    }

    /// Returns a block of a person or a tool.
    fn spoken(&mut self) -> Block {
        match self.dice.below(10) {
            0..=4 => Block::text(format!("u{}", self.number())),
            5 => Block::text(self.dice.of(&["", " \n", "\u{a0}\t"])),
            6 | 7 => self.media(),
            8 => self.thinking(),
            _ => self.call_misplaced(),
        }
    }

    /// Returns a block of a model.
    fn sayable(&mut self) -> Block {
        match self.dice.below(12) {
            0..=3 => Block::text(format!("a{}", self.number())),
            4 => Block::text(self.dice.of(&["", " \n"])),
            5..=8 => self.thinking(),
            9 => self.call(),
            10 => {
                let provider = self.provider();
                let raw = self.dice.of(&[r#"{"type":"x"}"#, r#"{"type":"x"}"#, "{}", "null"]);
                let raw = serde_json::from_str(raw).expect("it is JSON");
                Block::Opaque { provider, raw }
            }
            _ => self.media(),
        }
    }

    fn media(&mut self) -> Block {
        let media_type = self.dice.of(&["image/png", "image/png", "application/pdf", "text/plain", ""]);
        let sha256 = self.dice.of(&[Some("aa"), Some("bb"), Some("cc"), None]);
        Block::Media { media_type: media_type.into(), sha256: sha256.map(str::to_owned), bytes: Some(9) }
    }

    fn thinking(&mut self) -> Block {
        let provider = self.provider();
        let number = self.number();
        let raw = self.dice.once_in(4).then(|| json!({"n": number}));
        let raw = if self.dice.once_in(3) { raw } else { Some(signed(&provider, number)) };
        let provider = (!self.dice.once_in(12)).then_some(provider);
        Block::Thinking { text: "hm".into(), provider, raw }
    }

    fn provider(&mut self) -> String {
        self.dice.of(&Provider::ALL).as_str().to_owned()
    }

    fn call(&mut self) -> Block {
        let number = self.number();
        let id = match self.dice.below(12) {
            0 => String::new(),
            1 => "functions.read:0".to_owned(),
            2 => "é".repeat(70),
            3 => "x".repeat(60),
            4..=6 => format!("c{}", self.dice.below(3)),
            _ => format!("call_{number}"),
        };
        self.ids.push(id.clone());
        let args = match self.dice.below(8) {
            0 => Value::Null,
            1 => json!("{\"n\": "),
            2 => json!([1]),
            _ => json!({"n": number}),
        };
        Block::ToolCall { id, name: self.dice.of(&NAMES).into(), args }
    }

    /// Returns a call where none belongs; nothing answers it.
    fn call_misplaced(&mut self) -> Block {
        let block = self.call();
        self.ids.pop();
        block
    }
}

/// Returns a block of reasoning as its provider gives it.
fn signed(provider: &str, number: u64) -> Value {
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
