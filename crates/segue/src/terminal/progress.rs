//! Progress of long work, on a terminal only. It shows nothing until the work has told how far it is.

use std::io::{self, IsTerminal};

use agent::Frame;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::Format;
use crate::terminal::safe::one_line;

/// The unit progress is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes of files.
    Bytes,
    /// Whatever the work counts.
    Steps,
}

/// A bar on stderr that goes away when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Returns a bar; it stays hidden unless a person looks at stderr.
    pub(crate) fn new(format: Format, unit: Unit) -> Self {
        let target = match format {
            Format::Text if io::stderr().is_terminal() => ProgressDrawTarget::stderr(),
            Format::Text | Format::Json => ProgressDrawTarget::hidden(),
        };
        let template = match unit {
            Unit::Bytes => "{msg} {bar:24} {bytes}/{total_bytes} {bytes_per_sec}",
            Unit::Steps => "{msg} {bar:24} {percent}%",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(0), target).with_style(style.progress_chars("━╸─"));
        Self { bar }
    }

    /// Shows how far the work is; other frames are not progress and change nothing.
    pub(crate) fn show(&self, frame: &Frame) {
        if let Frame::Progress { what, done, total } = frame {
            let name = what.rsplit(['/', '\\']).next().unwrap_or(what);
            self.bar.set_message(one_line(name));
            self.bar.set_length(total.unwrap_or(*done));
            self.bar.set_position(*done);
        }
    }

    /// Writes a line above the bar.
    pub(crate) fn note(&self, text: &str) {
        self.bar.suspend(|| {
            // Whoever closed stderr does not want to know.
            let _ = io::Write::write_fmt(&mut io::stderr().lock(), format_args!("{text}\n"));
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
