//! Code in colour, line by line as it arrives. The grammars are read when the first code is shown in colour, never
//! before: most commands show none. It decides nothing about layout.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use crate::text::style::{Hue, Style};

/// Longer lines are shown as they are: nobody reads them, and a grammar may take its time over them.
const LINE_BYTES_MAX: usize = 2_000;
/// Lines of one block that are coloured.
const LINES_MAX: usize = 5_000;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// The beginnings of scopes and what they look like; of several that fit, the first is taken.
static HUES: LazyLock<Vec<(Scope, Option<Hue>)>> = LazyLock::new(|| {
    let known = [
        ("comment", Some(Hue::Comment)),
        ("punctuation.definition.comment", Some(Hue::Comment)),
        ("punctuation.section.interpolation", Some(Hue::Keyword)),
        ("constant.character.escape", Some(Hue::Type)),
        ("constant", Some(Hue::Number)),
        ("string", Some(Hue::Text)),
        ("keyword.operator", None),
        ("keyword", Some(Hue::Keyword)),
        ("storage", Some(Hue::Keyword)),
        ("entity.name.function", Some(Hue::Function)),
        ("support.function", Some(Hue::Function)),
        ("variable.function", Some(Hue::Function)),
        ("entity.name.tag", Some(Hue::Function)),
        ("entity.name", Some(Hue::Type)),
        ("support.type", Some(Hue::Type)),
        ("support.class", Some(Hue::Type)),
        ("entity.other.attribute-name", Some(Hue::Type)),
        ("markup.inserted", Some(Hue::Text)),
        ("markup.deleted", Some(Hue::Removed)),
        ("meta.diff.range", Some(Hue::Type)),
        ("meta.diff.header", Some(Hue::Comment)),
    ];
    known.into_iter().filter_map(|(name, hue)| Some((Scope::new(name).ok()?, hue))).collect()
});

/// A block of code under way.
pub struct Code {
    parser: ParseState,
    scopes: ScopeStack,
    lines_left: usize,
}

impl Code {
    /// Returns an empty block in that language; `None` for one that is not known, or where nothing is coloured.
    pub fn begin(language: &str, style: Style) -> Option<Self> {
        let language = language.trim();
        if style == Style::Plain || language.is_empty() {
            return None;
        }
        let syntax = SYNTAXES.find_syntax_by_token(language)?;
        Some(Self { parser: ParseState::new(syntax), scopes: ScopeStack::new(), lines_left: LINES_MAX })
    }

    /// Returns the next line in colour. It must be safe and without its newline.
    pub fn line(&mut self, line: &str, style: Style) -> String {
        if line.len() > LINE_BYTES_MAX || self.lines_left == 0 {
            return line.to_owned();
        }
        self.lines_left -= 1;
        let whole = format!("{line}\n");
        let Ok(changes) = self.parser.parse_line(&whole, &SYNTAXES) else { return line.to_owned() };
        let mut out = String::with_capacity(line.len() * 2);
        // Neighbours that look alike are painted together.
        let (mut start, mut look) = (0, self.hue());
        for (at, change) in changes {
            let at = at.min(line.len());
            if self.scopes.apply(&change).is_err() {
                break;
            }
            let next = self.hue();
            if next != look && at > start {
                out.push_str(&colored(&line[start..at], look, style));
                start = at;
            }
            if at == start {
                look = next;
            }
        }
        out.push_str(&colored(&line[start..], look, style));
        out
    }

    /// The innermost scope that has a look of its own decides.
    fn hue(&self) -> Option<Hue> {
        let look = |scope: &Scope| HUES.iter().find(|(known, _)| known.is_prefix_of(*scope));
        self.scopes.as_slice().iter().rev().find_map(look).and_then(|(_, hue)| *hue)
    }
}

fn colored(text: &str, look: Option<Hue>, style: Style) -> String {
    match look {
        Some(hue) if !text.trim().is_empty() => style.hue(hue, text),
        Some(_) | None => text.to_owned(),
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("lines_left", &self.lines_left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_coloured_and_its_text_stays() {
        let mut code = Code::begin("rust", Style::Color).unwrap();
        assert_eq!(
            code.line("let x = 1; // why", Style::Color),
            "\u{1b}[35mlet\u{1b}[39m x = \u{1b}[33m1\u{1b}[39m; \u{1b}[2m// why\u{1b}[22m"
        );
        for language in ["py", "ts", "toml", "sh", "diff", "json", "dockerfile"] {
            assert!(Code::begin(language, Style::Color).is_some(), "{language}");
        }
    }

    #[test]
    fn what_is_not_known_or_not_wanted_is_left_alone() {
        assert!(Code::begin("klingon", Style::Color).is_none());
        assert!(Code::begin("rust", Style::Plain).is_none());
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        assert_eq!(Code::begin("rust", Style::Color).unwrap().line(&long, Style::Color), long);
    }
}
