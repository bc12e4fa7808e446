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

/// What a piece of code is, as far as its colour goes. They are the terminal's own colours, so that any theme fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hue {
    /// Said to people.
    Comment,
    /// A literal text.
    Text,
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
        match output.is_terminal() && !is_set("NO_COLOR") && !is_dumb() {
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
    pub fn chosen(self, text: impl Display) -> String {
        self.paint("7", "27", text)
    }

    /// Returns the text in the colour of a piece of code.
    pub fn hue(self, hue: Hue, text: impl Display) -> String {
        match hue {
            Hue::Comment => self.dim(text),
            Hue::Text => self.good(text),
            Hue::Keyword => self.paint("35", "39", text),
            Hue::Number => self.warn(text),
            Hue::Function => self.paint("34", "39", text),
            Hue::Type => self.code(text),
            Hue::Removed => self.bad(text),
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
pub fn apart<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut out = Vec::new();
    for line in lines {
        let mut text: String = open.iter().map(|on| format!("\u{1b}[{on}m")).collect();
        text.push_str(line);
        for code in line.split("\u{1b}[").skip(1).filter_map(|part| Some(part.split_once('m')?.0)) {
            match open.last() {
                Some(on) if ends(on) == code => drop(open.pop()),
                Some(_) | None => open.push(code),
            }
        }
        text.extend(open.iter().rev().map(|on| format!("\u{1b}[{}m", ends(on))));
        out.push(text);
    }
    out
}

/// Returns the sequence that ends what the sequence `on` begins.
fn ends(on: &str) -> &'static str {
    match on {
        "1" | "2" => "22",
        "3" => "23",
        "7" => "27",
        _ => "39",
    }
}

/// Returns whether the terminal says that it can do nothing but print.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}
