//! Code in colour, line by line as it arrives. The grammars are read when the first code is shown in colour, never
//! before: most commands show none. It decides nothing about layout.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use crate::text::style::{SyntaxColor, Style};

/// Longer lines are shown as they are: nobody reads them, and a grammar may take its time over them.
const LINE_BYTES_MAX: usize = 2_000;
/// Lines of one block that are coloured.
const LINES_MAX: usize = 5_000;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// The beginnings of scopes and what they look like; of several that fit, the first is taken.
static SCOPE_COLORS: LazyLock<Vec<(Scope, Option<SyntaxColor>)>> = LazyLock::new(|| {
    let known = [
        ("comment", Some(SyntaxColor::Comment)),
        ("punctuation.definition.comment", Some(SyntaxColor::Comment)),
        ("punctuation.section.interpolation", Some(SyntaxColor::Keyword)),
        ("constant.character.escape", Some(SyntaxColor::Type)),
        ("constant", Some(SyntaxColor::Number)),
        ("string", Some(SyntaxColor::StringLiteral)),
        ("keyword.operator", None),
        ("keyword", Some(SyntaxColor::Keyword)),
        ("storage", Some(SyntaxColor::Keyword)),
        ("entity.name.function", Some(SyntaxColor::Function)),
        ("support.function", Some(SyntaxColor::Function)),
        ("variable.function", Some(SyntaxColor::Function)),
        ("entity.name.tag", Some(SyntaxColor::Function)),
        ("entity.name", Some(SyntaxColor::Type)),
        ("support.type", Some(SyntaxColor::Type)),
        ("support.class", Some(SyntaxColor::Type)),
        ("entity.other.attribute-name", Some(SyntaxColor::Type)),
        ("markup.inserted", Some(SyntaxColor::StringLiteral)),
        ("markup.deleted", Some(SyntaxColor::Removed)),
        ("meta.diff.range", Some(SyntaxColor::Type)),
        ("meta.diff.header", Some(SyntaxColor::Comment)),
    ];
    known.into_iter().filter_map(|(name, hue)| Some((Scope::new(name).ok()?, hue))).collect()
});

/// A block of code under way.
pub struct CodeHighlighter {
    parser: ParseState,
    scopes: ScopeStack,
    lines_left: usize,
}

impl CodeHighlighter {
    /// Returns an empty block in that language; `None` for one that is not known, or where nothing is coloured.
    pub fn for_language(language: &str, style: Style) -> Option<Self> {
        let language = language.trim();
        if style == Style::Plain || language.is_empty() {
            return None;
        }
        let syntax = SYNTAXES.find_syntax_by_token(language)?;
        Some(Self { parser: ParseState::new(syntax), scopes: ScopeStack::new(), lines_left: LINES_MAX })
    }

    /// Returns the next line in colour. It must be safe and without its newline.
    pub fn highlight_line(&mut self, line: &str, style: Style) -> String {
        if line.len() > LINE_BYTES_MAX || self.lines_left == 0 {
            return line.to_owned();
        }
        self.lines_left -= 1;
        let whole = format!("{line}\n");
        let Ok(changes) = self.parser.parse_line(&whole, &SYNTAXES) else { return line.to_owned() };
        let mut out = String::with_capacity(line.len() * 2);
        // Neighbours that look alike are painted together.
        let (mut start, mut look) = (0, self.current_color());
        for (at, change) in changes {
            let at = at.min(line.len());
            if self.scopes.apply(&change).is_err() {
                break;
            }
            let next = self.current_color();
            if next != look && at > start {
                out.push_str(&paint_code(&line[start..at], look, style));
                start = at;
            }
            if at == start {
                look = next;
            }
        }
        out.push_str(&paint_code(&line[start..], look, style));
        out
    }

    /// The innermost scope that has a look of its own decides.
    fn current_color(&self) -> Option<SyntaxColor> {
        let look = |scope: &Scope| SCOPE_COLORS.iter().find(|(known, _)| known.is_prefix_of(*scope));
        self.scopes.as_slice().iter().rev().find_map(look).and_then(|(_, hue)| *hue)
    }
}

fn paint_code(text: &str, look: Option<SyntaxColor>, style: Style) -> String {
    match look {
        Some(hue) if !text.trim().is_empty() => style.highlight(hue, text),
        Some(_) | None => text.to_owned(),
    }
}

impl std::fmt::Debug for CodeHighlighter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("lines_left", &self.lines_left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_coloured_and_its_text_stays() {
        let mut code = CodeHighlighter::for_language("rust", Style::Color).unwrap();
        assert_eq!(
            code.highlight_line("let x = 1; // why", Style::Color),
            "\u{1b}[35mlet\u{1b}[39m x = \u{1b}[33m1\u{1b}[39m; \u{1b}[2m// why\u{1b}[22m"
        );
        for language in ["py", "ts", "toml", "sh", "diff", "json", "dockerfile"] {
            assert!(CodeHighlighter::for_language(language, Style::Color).is_some(), "{language}");
        }
    }

    #[test]
    fn what_is_not_known_or_not_wanted_is_left_alone() {
        assert!(CodeHighlighter::for_language("klingon", Style::Color).is_none());
        assert!(CodeHighlighter::for_language("rust", Style::Plain).is_none());
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        assert_eq!(CodeHighlighter::for_language("rust", Style::Color).unwrap().highlight_line(&long, Style::Color), long);
    }
}
