//! The last look at a person's own text: what it changes, and whether it is taken so. How it was written is not its business.

use std::io;

use terminal::{Choice, Screen, ask, diff, safe};

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
pub(super) fn confirm(screen: &Screen, before: &str, after: &str) -> io::Result<Option<Then>> {
    screen.line(screen.style.bold("You changed:"))?;
    screen.lines(diff::versions(screen, &safe(before), &safe(after)))?;
    ask(screen, &CHOICES, "Go back")
}
