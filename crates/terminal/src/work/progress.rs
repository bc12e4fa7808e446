//! Progress of long work, on a terminal only. It shows nothing until the work has told how far it is.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use agent::Frame;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::screen::Screen;
use crate::text::safe::one_line;

/// The unit progress is told in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of files.
    Bytes,
    /// Whatever the work counts.
    Steps,
}

/// How often a spinner turns.
const TURN: Duration = Duration::from_millis(120);

/// A bar on stderr, or a spinner where the end is not known, that goes away when it is dropped.
#[derive(Debug)]
pub struct Progress {
    line: ProgressBar,
    unit: Unit,
    shape: Cell<Shape>,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Nothing,
    Bar,
    Spinner,
}

impl Progress {
    /// Returns a line that stays hidden unless a person looks at stderr, and may be drawn over.
    pub fn new(screen: &Screen, unit: Unit) -> Self {
        match io::stderr().is_terminal() && !screen.is_plain() {
            true => Self::on(ProgressDrawTarget::stderr(), unit),
            false => Self::hidden(unit),
        }
    }

    /// Returns a line that is never shown.
    pub fn hidden(unit: Unit) -> Self {
        Self::on(ProgressDrawTarget::hidden(), unit)
    }

    fn on(target: ProgressDrawTarget, unit: Unit) -> Self {
        let line = ProgressBar::with_draw_target(Some(0), target);
        Self { line, unit, shape: Cell::new(Shape::Nothing) }
    }

    /// Shows how far the work is; other frames are not progress and change nothing.
    pub fn show(&self, frame: &Frame) {
        let Frame::Progress { what, done, total } = frame else { return };
        let shape = if total.is_some() { Shape::Bar } else { Shape::Spinner };
        if self.shape.replace(shape) != shape {
            self.draw(shape);
        }
        let message = match self.unit {
            // The folders of a path would leave no room for the bar.
            Unit::Bytes => what.rsplit(['/', '\\']).next().unwrap_or(what),
            Unit::Steps => what,
        };
        self.line.set_message(one_line(message));
        self.line.set_length(total.unwrap_or(*done));
        self.line.set_position(*done);
    }

    fn draw(&self, shape: Shape) {
        let template = match (shape, self.unit) {
            (Shape::Nothing | Shape::Spinner, _) => "{spinner} {msg} … {elapsed}",
            (Shape::Bar, Unit::Bytes) => "{msg} {bar:24} {bytes}/{total_bytes} {bytes_per_sec}",
            (Shape::Bar, Unit::Steps) => "{msg} {bar:24} {percent}%",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.line.set_style(style.progress_chars("━╸─"));
        match shape {
            Shape::Spinner => self.line.enable_steady_tick(TURN),
            Shape::Bar | Shape::Nothing => self.line.disable_steady_tick(),
        }
    }

    /// Does something that writes lines, which then stand above the bar.
    pub fn aside(&self, write: impl FnOnce()) {
        self.line.suspend(write);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
