//! A turn as it happens: the answer line by line, one dim line for each tool call, what it cost at the end.

use std::collections::HashMap;
use std::io;

use agent::Frame;
use protocol::{Message, Usage};
use serde_json::Value;

use crate::terminal::markdown::Markdown;
use crate::terminal::safe::one_line;
use crate::terminal::screen::Screen;
use crate::terminal::wrap::shorten;

/// A turn being shown.
#[derive(Debug)]
pub(crate) struct Stream<'a> {
    screen: &'a Screen,
    answer: Markdown,
    /// Tool calls under way, as they are shown, by their id.
    calls: HashMap<String, String>,
    thinking: Thinking,
    usage: Usage,
    model: Option<String>,
}

/// Whether the reasoning of the present answer was mentioned; its text is not shown.
#[derive(Debug, PartialEq, Eq)]
enum Thinking {
    NotMentioned,
    Mentioned,
}

impl<'a> Stream<'a> {
    /// Returns a turn of which nothing is shown yet.
    pub(crate) fn new(screen: &'a Screen) -> Self {
        Self {
            screen,
            answer: Markdown::new(screen),
            calls: HashMap::new(),
            thinking: Thinking::NotMentioned,
            usage: Usage::default(),
            model: None,
        }
    }

    /// Shows one frame.
    pub(crate) fn show(&mut self, frame: &Frame) -> io::Result<()> {
        match frame {
            Frame::Text { text } => {
                let lines = self.answer.push(text);
                self.write(&lines)
            }
            Frame::Thinking { .. } if self.thinking == Thinking::NotMentioned => {
                self.thinking = Thinking::Mentioned;
                self.screen.line(self.screen.style.dim("  thinking …"))
            }
            Frame::ToolStarted { call_id, name, args } => {
                self.end_answer()?;
                self.calls.insert(call_id.clone(), call(name, args));
                Ok(())
            }
            Frame::ToolEnded { call_id, name, failed: true } => {
                self.tool_ended(call_id, name, ("✗", " · failed"))
            }
            Frame::ToolEnded { call_id, name, failed: false } => self.tool_ended(call_id, name, ("✓", "")),
            Frame::Event(event) => match event.message() {
                Some(Message::Ai(answer)) => {
                    self.add(answer.usage.unwrap_or_default());
                    self.model = answer.model.or_else(|| self.model.take());
                    self.thinking = Thinking::NotMentioned;
                    self.end_answer()
                }
                Some(_) | None => Ok(()),
            },
            Frame::Notice { text } => {
                self.end_answer()?;
                self.screen.line(self.screen.style.warn(one_line(text)))
            }
            Frame::RunEnded { .. } => self.end_answer(),
            Frame::RunStarted { .. }
            | Frame::StepStarted { .. }
            | Frame::Thinking { .. }
            | Frame::Progress { .. }
            | Frame::Interrupted(_) => Ok(()),
        }
    }

    /// Shows what the turn cost.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.end_answer()?;
        if self.usage.total_tokens() == 0 {
            return Ok(());
        }
        let model = self.model.as_deref().map(|model| format!("{} · ", one_line(model))).unwrap_or_default();
        let Usage { input_tokens, output_tokens, cache_read_tokens, .. } = self.usage;
        let cached = match cache_read_tokens {
            0 => String::new(),
            cached => format!(" ({cached} cached)"),
        };
        let line = format!("{model}{input_tokens} tokens in{cached} · {output_tokens} out");
        self.screen.line(self.screen.style.dim(line))
    }

    fn tool_ended(&mut self, call_id: &str, name: &str, (mark, outcome): (&str, &str)) -> io::Result<()> {
        let call = self.calls.remove(call_id).unwrap_or_else(|| one_line(name));
        let columns = self.screen.columns.saturating_sub(4 + outcome.len());
        let line = format!("  {mark} {}{outcome}", shorten(&call, columns));
        self.screen.line(self.screen.style.dim(line))
    }

    fn end_answer(&mut self) -> io::Result<()> {
        let lines = self.answer.finish();
        self.write(&lines)
    }

    fn write(&self, lines: &str) -> io::Result<()> {
        if lines.is_empty() { Ok(()) } else { self.screen.write(lines) }
    }

    fn add(&mut self, usage: Usage) {
        self.usage.input_tokens += usage.input_tokens;
        self.usage.output_tokens += usage.output_tokens;
        self.usage.cache_read_tokens += usage.cache_read_tokens;
        self.usage.cache_write_tokens += usage.cache_write_tokens;
    }
}

/// Returns a tool call on one line.
pub(crate) fn call(name: &str, args: &Value) -> String {
    let mut line = one_line(name);
    match args {
        Value::Object(fields) => {
            for (key, value) in fields {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                line.push_str(&format!(" {}={}", one_line(key), one_line(&value)));
            }
        }
        Value::Null => {}
        other => line.push_str(&format!(" {}", one_line(&other.to_string()))),
    }
    line
}
