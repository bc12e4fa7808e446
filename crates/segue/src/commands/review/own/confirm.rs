//! The last look at a person's own text: what it changes, and whether it is taken so. How it was written is not its business.

use std::io;

use crate::terminal::ask::question::{Choice, ask};
use crate::terminal::screen::Screen;
use crate::terminal::show::diff;
use crate::terminal::text::safe::safe;

/// What is done with the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Accept,
    Again,
}

const CHOICES: [Choice<Then>; 2] = [
    Choice { key: 'a', label: "Accept this text", answer: Then::Accept },
    Choice { key: 'e', label: "Change it again", answer: Then::Again },
];

/// Shows what changed from `before` to `after` and asks; `None` when the person goes back.
///
/// # Errors
/// When the terminal fails.
pub(super) fn confirm(screen: &Screen, before: &str, after: &str) -> io::Result<Option<Then>> {
    screen.line(screen.style.bold("You changed:"))?;
    diff::versions(screen, &safe(before), &safe(after)).iter().try_for_each(|line| screen.line(line))?;
    ask(screen, &CHOICES, "Go back")
}
