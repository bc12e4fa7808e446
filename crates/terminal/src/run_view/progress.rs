//! The progress display of long work on stderr. It is visible only on a terminal, from the first progress frame on.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use agent::Frame;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::screen::Screen;
use crate::text::sanitize::sanitize_line;

/// The unit of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressUnit {
    /// Bytes of files.
    Bytes,
    /// Any other unit that the work counts.
    Steps,
}

/// The interval between two frames of the spinner.
const SPINNER_TICK: Duration = Duration::from_millis(120);

/// A progress bar on stderr, or a spinner if the total is unknown. It is removed when it is dropped.
#[derive(Debug)]
pub struct ProgressDisplay {
    /// The line on the screen, drawn by `indicatif`.
    bar: ProgressBar,
    /// The unit of `done` and `total` in the frames.
    unit: ProgressUnit,
    /// The current shape. A `Cell`, because frames are passed to a shared reference.
    shape: Cell<ProgressShape>,
}

/// The shape of the progress line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgressShape {
    /// No frame has arrived yet.
    Nothing,
    /// A bar, for work with a known total.
    Bar,
    /// A spinner, for work with an unknown total.
    Spinner,
}

impl ProgressDisplay {
    /// Returns a display that is visible only if stderr is a terminal whose rows may be redrawn.
    pub fn new(screen: &Screen, unit: ProgressUnit) -> Self {
        match io::stderr().is_terminal() && !screen.is_plain() {
            true => Self::with_target(ProgressDrawTarget::stderr(), unit),
            false => Self::hidden(unit),
        }
    }

    /// Returns a display that is never visible.
    pub fn hidden(unit: ProgressUnit) -> Self {
        Self::with_target(ProgressDrawTarget::hidden(), unit)
    }

    /// Returns a display that draws to `target`.
    fn with_target(target: ProgressDrawTarget, unit: ProgressUnit) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), target);
        Self { bar, unit, shape: Cell::new(ProgressShape::Nothing) }
    }

    /// Shows the progress of a progress frame. Other frames change nothing.
    pub fn update(&self, frame: &Frame) {
        let Frame::Progress { what, done, total } = frame else { return };
        let shape = if total.is_some() { ProgressShape::Bar } else { ProgressShape::Spinner };
        if self.shape.replace(shape) != shape {
            self.draw(shape);
        }
        let message = match self.unit {
            // A path with its folders would use the columns that the bar needs.
            ProgressUnit::Bytes => what.rsplit(['/', '\\']).next().unwrap_or(what),
            ProgressUnit::Steps => what,
        };
        self.bar.set_message(sanitize_line(message));
        self.bar.set_length(total.unwrap_or(*done));
        self.bar.set_position(*done);
    }

    /// Sets the template of the bar or the spinner.
    fn draw(&self, shape: ProgressShape) {
        let template = match (shape, self.unit) {
            (ProgressShape::Nothing | ProgressShape::Spinner, _) => "{spinner} {msg} … {elapsed}",
            (ProgressShape::Bar, ProgressUnit::Bytes) => {
                "{msg} {bar:24} {bytes}/{total_bytes} {bytes_per_sec}"
            }
            (ProgressShape::Bar, ProgressUnit::Steps) => "{msg} {bar:24} {percent}%",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar.set_style(style.progress_chars("━╸─"));
        match shape {
            ProgressShape::Spinner => self.bar.enable_steady_tick(SPINNER_TICK),
            ProgressShape::Bar | ProgressShape::Nothing => self.bar.disable_steady_tick(),
        }
    }

    /// Hides the bar while `write` prints lines, which stay above it.
    pub fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
