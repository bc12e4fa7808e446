//! The output of a command: streamed live, kept as plain text up to a limit, and shortened for the model. It starts and
//! stops no process.

use jiff::Timestamp;
use journal::{Artifact, Write};
use runtime::{Frame, FrameSender, ToolContext};

use crate::execute::ansi::AnsiEscapeParser;
use crate::files::read_file::ARTIFACT_PREFIX;
use crate::truncation::{split_ends, with_final_newline};

/// The most bytes of output a model is shown.
pub(super) const SHOWN_BYTES_MAX: usize = 30_000;
/// The most bytes of output that are kept to be read later.
const STORED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The bytes of the end that are kept when there is more.
const TAIL_BYTES: usize = 64 * 1024;
/// The most bytes of output shown live; what comes after is in the result.
const LIVE_BYTES_MAX: usize = 1024 * 1024;
/// Hex digits of an artifact's name that are shown.
const NAME_DIGITS: usize = 16;

/// The output of one command so far.
#[derive(Debug)]
pub(super) struct ShellOutput {
    escapes: AnsiEscapeParser,
    /// Bytes of a character that is not complete.
    pending: Vec<u8>,
    after_return: bool,
    text: String,
    /// Where the last line of `text` begins.
    last_line_start: usize,
    /// The end of the output that came after `text` was full, and its total length.
    tail: String,
    tail_total: usize,
    live: LiveOutput,
}

/// Where output is shown while the command runs.
#[derive(Debug)]
struct LiveOutput {
    frames: FrameSender,
    call_id: String,
    sent: usize,
}

/// The output of a finished command: the part that is shown and the part that is kept.
pub(super) struct FinishedOutput {
    /// For the model.
    pub text: String,
    /// Stores the whole, when it is more than is shown.
    pub write: Option<Write>,
}

impl ShellOutput {
    /// Returns an empty output of the call.
    pub fn for_call(context: &ToolContext) -> Self {
        Self {
            escapes: AnsiEscapeParser::default(),
            pending: Vec::new(),
            after_return: false,
            text: String::new(),
            last_line_start: 0,
            tail: String::new(),
            tail_total: 0,
            live: LiveOutput { frames: context.frames.clone(), call_id: context.call_id.clone(), sent: 0 },
        }
    }

    /// Takes what the command wrote.
    pub fn push(&mut self, bytes: &[u8]) {
        self.escapes.strip(bytes, &mut self.pending);
        let complete = complete_prefix_len(&self.pending);
        let bytes: Vec<u8> = self.pending.drain(..complete).collect();
        let text = String::from_utf8_lossy(&bytes);
        self.live.send(&text);
        text.chars().for_each(|c| self.push_char(c));
    }

    /// Returns what is shown, and what is kept for `context`'s thread.
    pub fn finish(mut self, context: &ToolContext) -> FinishedOutput {
        let rest = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&rest).chars().for_each(|c| self.push_char(c));
        let text = self.full_text();
        let Some((head, tail)) = split_ends(&text, SHOWN_BYTES_MAX) else {
            return FinishedOutput { text: text.trim_end().to_owned(), write: None };
        };
        let sha256 = protocol::sha256_hex(&text);
        let left_out = text.len() - head.len() - tail.len() + self.tail_total.saturating_sub(self.tail.len());
        let shown = format!(
            "{}[{left_out} bytes left out; read_file {ARTIFACT_PREFIX}{} shows all of it]\n{}",
            with_final_newline(head),
            &sha256[..NAME_DIGITS],
            tail.trim_end()
        );
        let artifact = Artifact {
            thread_id: context.thread_id,
            sha256,
            media_type: "text/plain".to_owned(),
            bytes: text.into_bytes(),
            created_at: Timestamp::now(),
        };
        FinishedOutput { text: shown, write: Some(Write::PutArtifact(artifact)) }
    }

    /// Returns all that is kept; says what is not.
    fn full_text(&mut self) -> String {
        let mut text = std::mem::take(&mut self.text);
        if self.tail_total > 0 {
            let lost = self.tail_total - self.tail.len();
            if lost > 0 {
                text = format!("{}[{lost} bytes were not kept]\n", with_final_newline(&text));
            }
            text.push_str(&self.tail);
        }
        text
    }

    fn push_char(&mut self, c: char) {
        let after_return = std::mem::replace(&mut self.after_return, c == '\r');
        if c == '\r' || (c.is_control() && c != '\n' && c != '\t') {
            return;
        }
        if self.text.len() + c.len_utf8() > STORED_BYTES_MAX || self.tail_total > 0 {
            self.tail_total += c.len_utf8();
            self.tail.push(c);
            if self.tail.len() > 2 * TAIL_BYTES {
                let from = self.tail.ceil_char_boundary(self.tail.len() - TAIL_BYTES);
                self.tail.drain(..from);
            }
            return;
        }
        // A line that a progress bar writes again and again is its last state.
        if after_return && c != '\n' {
            self.text.truncate(self.last_line_start);
        }
        self.text.push(c);
        if c == '\n' {
            self.last_line_start = self.text.len();
        }
    }
}

impl LiveOutput {
    fn send(&mut self, text: &str) {
        if text.is_empty() || self.sent >= LIVE_BYTES_MAX || !self.frames.is_open() {
            return;
        }
        self.sent += text.len();
        let mut text = text.to_owned();
        if self.sent >= LIVE_BYTES_MAX {
            text.push_str("\n[more output is not shown while the command runs]\n");
        }
        self.frames.send(Frame::ToolOutput { call_id: self.call_id.clone(), text });
    }
}

/// Returns how many of the bytes are whole characters; invalid ones count as whole.
fn complete_prefix_len(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Err(error) = std::str::from_utf8(&bytes[end..]) {
        end += error.valid_up_to();
        match error.error_len() {
            Some(invalid) => end += invalid,
            None => return end,
        }
    }
    bytes.len()
}
