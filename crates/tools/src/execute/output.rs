//! The output of a command: streamed live, stored as plain text up to a limit, and shortened for the model. It starts
//! and stops no process.

use jiff::Timestamp;
use journal::{Artifact, Write};
use runtime::{Frame, FrameSender, ToolContext};

use crate::execute::ansi::AnsiEscapeParser;
use crate::files::read_file::ARTIFACT_PREFIX;
use crate::truncation::{split_ends, with_final_newline};

/// Maximum number of bytes of output that the model is shown.
pub(super) const SHOWN_BYTES_MAX: usize = 30_000;
/// Maximum number of bytes from the beginning of the output that are stored for later reading.
const STORED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Number of bytes from the end of the output that are stored if it exceeds [`STORED_BYTES_MAX`].
const TAIL_BYTES: usize = 64 * 1024;
/// Maximum number of bytes of output that are streamed live. Later output appears only in the result.
const LIVE_BYTES_MAX: usize = 1024 * 1024;
/// Number of hex digits of an artifact's SHA-256 that the model is shown as its name.
const NAME_DIGITS: usize = 16;

/// The output of a running command.
#[derive(Debug)]
pub(super) struct ShellOutput {
    escapes: AnsiEscapeParser,
    /// Bytes of an incomplete UTF-8 character at the end of the last chunk.
    pending: Vec<u8>,
    /// True if the previous character was a carriage return.
    after_return: bool,
    /// The beginning of the output as plain text, at most [`STORED_BYTES_MAX`] bytes.
    text: String,
    /// Byte offset in `text` at which its last line begins.
    last_line_start: usize,
    /// The end of the output after `text` is full, at most twice [`TAIL_BYTES`].
    tail: String,
    /// Total number of bytes of output after `text` was full, including those dropped from `tail`.
    tail_total: usize,
    live: LiveOutput,
}

/// The live stream of the output to the run's subscribers.
#[derive(Debug)]
struct LiveOutput {
    frames: FrameSender,
    call_id: String,
    /// Bytes sent so far.
    sent: usize,
}

/// The output of a finished command.
pub(super) struct FinishedOutput {
    /// The text for the model.
    pub text: String,
    /// The write that stores the full output as an artifact; `None` if the model is shown all of it.
    pub write: Option<Write>,
}

impl ShellOutput {
    /// Returns an empty output for the call.
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

    /// Adds a chunk of bytes that the command wrote. A chunk may end within a character or an escape sequence.
    pub fn push(&mut self, bytes: &[u8]) {
        self.escapes.strip(bytes, &mut self.pending);
        let complete = complete_prefix_len(&self.pending);
        let bytes: Vec<u8> = self.pending.drain(..complete).collect();
        let text = String::from_utf8_lossy(&bytes);
        self.live.send(&text);
        text.chars().for_each(|c| self.push_char(c));
    }

    /// Ends the output, and returns the text for the model and the artifact for the thread of `context`.
    pub fn finish(mut self, context: &ToolContext) -> FinishedOutput {
        let incomplete = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&incomplete).chars().for_each(|c| self.push_char(c));
        let text = self.full_text();
        let Some((head, tail)) = split_ends(&text, SHOWN_BYTES_MAX) else {
            return FinishedOutput { text: text.trim_end().to_owned(), write: None };
        };
        let sha256 = protocol::sha256_hex(&text);
        let left_out = text.len() - head.len() - tail.len() + self.tail_total.saturating_sub(self.tail.len());
        let shortened = format!(
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
        FinishedOutput { text: shortened, write: Some(Write::PutArtifact(artifact)) }
    }

    /// Takes the stored output: the beginning, a note about dropped bytes if there are any, and the end.
    fn full_text(&mut self) -> String {
        let mut text = std::mem::take(&mut self.text);
        if self.tail_total > 0 {
            let lost = self.tail_total - self.tail.len();
            if lost > 0 {
                text = format!("{}[{lost} bytes were not stored]\n", with_final_newline(&text));
            }
            text.push_str(&self.tail);
        }
        text
    }

    /// Appends one character. Control characters other than a line break and a tab are dropped.
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
        // A carriage return without a line break rewrites the current line, as progress bars do. Only the last state of
        // such a line is stored.
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
    /// Sends text to the subscribers, until [`LIVE_BYTES_MAX`] is reached or if there are none.
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

/// Returns the length of the prefix that ends with a complete UTF-8 character. Invalid bytes count as complete.
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
