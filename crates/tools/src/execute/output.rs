//! What a command writes: shown live, kept as plain text up to a bound, and cut to what a model is shown. It starts and
//! ends no process.

use jiff::Timestamp;
use journal::{Artifact, Write};
use runtime::{Frame, Frames, ToolContext};

use crate::execute::ansi::Escapes;
use crate::files::read_file::ARTIFACT_PREFIX;
use crate::shown::{cut, ended};

/// The most bytes of output a model is shown.
pub(super) const SHOWN_BYTES_MAX: usize = 30_000;
/// The most bytes of output that are kept to be read later.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The bytes of the end that are kept when there is more.
const END_BYTES: usize = 64 * 1024;
/// The most bytes of output shown live; what comes after is in the result.
const LIVE_BYTES_MAX: usize = 1024 * 1024;
/// Hex digits of an artifact's name that are shown.
const NAME_DIGITS: usize = 16;

/// The output of one command so far.
#[derive(Debug)]
pub(super) struct Output {
    escapes: Escapes,
    /// Bytes of a character that is not complete.
    pending: Vec<u8>,
    after_return: bool,
    text: String,
    /// Where the last line of `text` begins.
    line: usize,
    /// What came when `text` was full: its end, and how much there was.
    end: String,
    end_total: usize,
    live: Live,
}

/// Where output is shown while the command runs.
#[derive(Debug)]
struct Live {
    frames: Frames,
    call_id: String,
    sent: usize,
}

/// What is shown of an output, and what is kept of it.
pub(super) struct Shown {
    /// For the model.
    pub text: String,
    /// Stores the whole, when it is more than is shown.
    pub write: Option<Write>,
}

impl Output {
    /// Returns an empty output of the call.
    pub fn of(context: &ToolContext) -> Self {
        Self {
            escapes: Escapes::default(),
            pending: Vec::new(),
            after_return: false,
            text: String::new(),
            line: 0,
            end: String::new(),
            end_total: 0,
            live: Live { frames: context.frames.clone(), call_id: context.call_id.clone(), sent: 0 },
        }
    }

    /// Takes what the command wrote.
    pub fn push(&mut self, bytes: &[u8]) {
        self.escapes.strip(bytes, &mut self.pending);
        let complete = complete(&self.pending);
        let bytes: Vec<u8> = self.pending.drain(..complete).collect();
        let text = String::from_utf8_lossy(&bytes);
        self.live.send(&text);
        text.chars().for_each(|c| self.keep(c));
    }

    /// Returns what is shown, and what is kept for `context`'s thread.
    pub fn finish(mut self, context: &ToolContext) -> Shown {
        let rest = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&rest).chars().for_each(|c| self.keep(c));
        let text = self.whole();
        let Some((head, tail)) = cut(&text, SHOWN_BYTES_MAX) else {
            return Shown { text: text.trim_end().to_owned(), write: None };
        };
        let sha256 = protocol::sha256_hex(&text);
        let left_out = text.len() - head.len() - tail.len() + self.end_total.saturating_sub(self.end.len());
        let shown = format!(
            "{}[{left_out} bytes left out; read_file {ARTIFACT_PREFIX}{} shows all of it]\n{}",
            ended(head),
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
        Shown { text: shown, write: Some(Write::PutArtifact(artifact)) }
    }

    /// Returns all that is kept; says what is not.
    fn whole(&mut self) -> String {
        let mut text = std::mem::take(&mut self.text);
        if self.end_total > 0 {
            let lost = self.end_total - self.end.len();
            if lost > 0 {
                text = format!("{}[{lost} bytes were not kept]\n", ended(&text));
            }
            text.push_str(&self.end);
        }
        text
    }

    fn keep(&mut self, c: char) {
        let after_return = std::mem::replace(&mut self.after_return, c == '\r');
        if c == '\r' || (c.is_control() && c != '\n' && c != '\t') {
            return;
        }
        if self.text.len() + c.len_utf8() > KEPT_BYTES_MAX || self.end_total > 0 {
            self.end_total += c.len_utf8();
            self.end.push(c);
            if self.end.len() > 2 * END_BYTES {
                let from = self.end.ceil_char_boundary(self.end.len() - END_BYTES);
                self.end.drain(..from);
            }
            return;
        }
        // A line that a progress bar writes again and again is its last state.
        if after_return && c != '\n' {
            self.text.truncate(self.line);
        }
        self.text.push(c);
        if c == '\n' {
            self.line = self.text.len();
        }
    }
}

impl Live {
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
fn complete(bytes: &[u8]) -> usize {
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
