//! Emphasis of text: escape sequences for colour, or plain text. This file does no layout.

use std::fmt::Display;
use std::io::IsTerminal;

/// The kind of emphasis.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// No emphasis: texts are returned unchanged.
    #[default]
    Plain,
    /// Escape sequences that select the terminal's own colours.
    Color,
}

/// The kind of a code token, which selects its colour. All colours are the terminal's own, so that they fit its theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxColor {
    /// A comment.
    Comment,
    /// A string literal.
    StringLiteral,
    /// A keyword of the language.
    Keyword,
    /// A number or another constant.
    Number,
    /// The name of a function.
    Function,
    /// The name of a type.
    Type,
    /// A removed line of a diff.
    Removed,
}

impl Style {
    /// Returns the default style of an output: colour on a terminal that supports it, unless `NO_COLOR` is set.
    pub(crate) fn detect(output: &impl IsTerminal) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match output.is_terminal() && !is_set("NO_COLOR") && !is_dumb_terminal() {
            true => Self::Color,
            false => Self::Plain,
        }
    }

    /// Returns the text in bold.
    pub fn bold(self, text: impl Display) -> String {
        self.paint("1", "22", text)
    }

    /// Returns the text dimmed.
    pub fn dim(self, text: impl Display) -> String {
        self.paint("2", "22", text)
    }

    /// Returns the text in italics.
    pub fn italic(self, text: impl Display) -> String {
        self.paint("3", "23", text)
    }

    /// Returns the text in the colour of success.
    pub fn good(self, text: impl Display) -> String {
        self.paint("32", "39", text)
    }

    /// Returns the text in the colour of a warning.
    pub fn warn(self, text: impl Display) -> String {
        self.paint("33", "39", text)
    }

    /// Returns the text in the colour of failure.
    pub fn bad(self, text: impl Display) -> String {
        self.paint("31", "39", text)
    }

    /// Returns the text in the colour of code, ids and things to type.
    pub fn code(self, text: impl Display) -> String {
        self.paint("36", "39", text)
    }

    /// Returns the text with inverted colours, which mark a selection.
    pub fn inverse(self, text: impl Display) -> String {
        self.paint("7", "27", text)
    }

    /// Returns the text in the colour of a code token.
    pub fn highlight(self, kind: SyntaxColor, text: impl Display) -> String {
        match kind {
            SyntaxColor::Comment => self.dim(text),
            SyntaxColor::StringLiteral => self.good(text),
            SyntaxColor::Keyword => self.paint("35", "39", text),
            SyntaxColor::Number => self.warn(text),
            SyntaxColor::Function => self.paint("34", "39", text),
            SyntaxColor::Type => self.code(text),
            SyntaxColor::Removed => self.bad(text),
        }
    }

    /// Returns the text between the sequences with the codes `on` and `off`.
    fn paint(self, on: &str, off: &str, text: impl Display) -> String {
        match self {
            Self::Plain => text.to_string(),
            Self::Color => format!("\u{1b}[{on}m{text}\u{1b}[{off}m"),
        }
    }
}

/// Returns the lines of a wrapped text in which emphasis that spans several lines is closed at the end of each line and opened
/// again on the next, so that other text can be inserted between two lines. Spans must be nested.
/// The lines must come from text that only contains the escape sequences of [`Style`].
pub fn close_styles_per_line<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut out = Vec::new();
    for line in lines {
        let mut text: String = open.iter().map(|on| format!("\u{1b}[{on}m")).collect();
        text.push_str(line);
        for code in line.split("\u{1b}[").skip(1).filter_map(|part| Some(part.split_once('m')?.0)) {
            match open.last() {
                Some(on) if reset_code(on) == code => drop(open.pop()),
                Some(_) | None => open.push(code),
            }
        }
        text.extend(open.iter().rev().map(|on| format!("\u{1b}[{}m", reset_code(on))));
        out.push(text);
    }
    out
}

/// Returns the code that ends the emphasis of the code `on`.
fn reset_code(on: &str) -> &'static str {
    match on {
        "1" | "2" => "22",
        "3" => "23",
        "7" => "27",
        _ => "39",
    }
}

/// Returns whether `TERM` declares a terminal that cannot move the cursor or use colour.
pub fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}
