//! Emphasis: with colour where it is wanted, plain text everywhere else. It decides nothing about layout.

use std::fmt::Display;
use std::io::IsTerminal;

use crate::cli::ColorChoice;

/// How text is emphasised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Not at all.
    Plain,
    /// With the terminal's own colours.
    Color,
}

impl Style {
    /// Returns the style for `output`.
    pub(crate) fn choose(choice: ColorChoice, output: &impl IsTerminal) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        match choice {
            ColorChoice::Always => Self::Color,
            ColorChoice::Never => Self::Plain,
            ColorChoice::Auto if output.is_terminal() && !set("NO_COLOR") && !dumb => Self::Color,
            ColorChoice::Auto => Self::Plain,
        }
    }

    /// Returns the text, bold.
    pub(crate) fn bold(self, text: impl Display) -> String {
        self.paint("1", "22", text)
    }

    /// Returns the text, less prominent.
    pub(crate) fn dim(self, text: impl Display) -> String {
        self.paint("2", "22", text)
    }

    /// Returns the text, slanted.
    pub(crate) fn italic(self, text: impl Display) -> String {
        self.paint("3", "23", text)
    }

    /// Returns the text in the colour of success.
    pub(crate) fn good(self, text: impl Display) -> String {
        self.paint("32", "39", text)
    }

    /// Returns the text in the colour of a warning.
    pub(crate) fn warn(self, text: impl Display) -> String {
        self.paint("33", "39", text)
    }

    /// Returns the text in the colour of failure.
    pub(crate) fn bad(self, text: impl Display) -> String {
        self.paint("31", "39", text)
    }

    /// Returns the text in the colour of code, ids and things to type.
    pub(crate) fn code(self, text: impl Display) -> String {
        self.paint("36", "39", text)
    }

    /// Returns the text as the chosen one of several.
    pub(crate) fn chosen(self, text: impl Display) -> String {
        self.paint("7", "27", text)
    }

    fn paint(self, on: &str, off: &str, text: impl Display) -> String {
        match self {
            Self::Plain => text.to_string(),
            Self::Color => format!("\u{1b}[{on}m{text}\u{1b}[{off}m"),
        }
    }
}
