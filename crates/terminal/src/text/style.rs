//! Emphasis: with colour where it is wanted, plain text everywhere else. It decides nothing about layout.

use std::fmt::Display;
use std::io::IsTerminal;

/// How text is emphasised.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Not at all.
    #[default]
    Plain,
    /// With the terminal's own colours.
    Color,
}

/// The kind of a code token, for its colour. The terminal's own colours are used, so that any theme fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxColor {
    /// Said to people.
    Comment,
    /// A literal text.
    StringLiteral,
    /// A word of the language.
    Keyword,
    /// A number or another constant.
    Number,
    /// The name of something that is called.
    Function,
    /// The name of a type.
    Type,
    /// A line that goes.
    Removed,
}

impl Style {
    /// Returns the style for `output` where a person asked for none: colour on a terminal that has it, unless `NO_COLOR` is set.
    pub(crate) fn detect(output: &impl IsTerminal) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match output.is_terminal() && !is_set("NO_COLOR") && !is_dumb_terminal() {
            true => Self::Color,
            false => Self::Plain,
        }
    }

    /// Returns the text, bold.
    pub fn bold(self, text: impl Display) -> String {
        self.paint("1", "22", text)
    }

    /// Returns the text, less prominent.
    pub fn dim(self, text: impl Display) -> String {
        self.paint("2", "22", text)
    }

    /// Returns the text, slanted.
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

    /// Returns the text as the chosen one of several.
    pub fn inverse(self, text: impl Display) -> String {
        self.paint("7", "27", text)
    }

    /// Returns the text in the colour of a piece of code.
    pub fn highlight(self, hue: SyntaxColor, text: impl Display) -> String {
        match hue {
            SyntaxColor::Comment => self.dim(text),
            SyntaxColor::StringLiteral => self.good(text),
            SyntaxColor::Keyword => self.paint("35", "39", text),
            SyntaxColor::Number => self.warn(text),
            SyntaxColor::Function => self.paint("34", "39", text),
            SyntaxColor::Type => self.code(text),
            SyntaxColor::Removed => self.bad(text),
        }
    }

    fn paint(self, on: &str, off: &str, text: impl Display) -> String {
        match self {
            Self::Plain => text.to_string(),
            Self::Color => format!("\u{1b}[{on}m{text}\u{1b}[{off}m"),
        }
    }
}

/// Returns the lines of a wrapped text with emphasis that spans several of them ended and begun again on each, so that
/// something else may stand between two of them. Spans must be nested.
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

/// Returns the sequence that ends what the sequence `on` begins.
fn reset_code(on: &str) -> &'static str {
    match on {
        "1" | "2" => "22",
        "3" => "23",
        "7" => "27",
        _ => "39",
    }
}

/// Returns whether the terminal says that it can do nothing but print.
pub fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}
