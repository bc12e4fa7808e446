//! Syntax highlighting of code blocks, line by line as the code arrives. Grammars come from `syntect` and `two_face`.
//! They are loaded on first use, because most commands show no code.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use crate::text::style::{Style, SyntaxColor};

/// The longest line, in bytes, that is highlighted. Parsing a longer line may be slow, so it is printed plainly.
const LINE_BYTES_MAX: usize = 2_000;
/// The most highlighted lines per block. Later lines are printed plainly.
const LINES_MAX: usize = 5_000;

/// The grammars.
static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// Scope prefixes and their colours, in order of precedence: the first prefix that matches a scope is used. `None` is
/// plain text, which keeps a later, more general prefix from applying.
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
    known.into_iter().filter_map(|(name, color)| Some((Scope::new(name).ok()?, color))).collect()
});

/// The highlighter of one code block. It carries the parser's state from line to line.
pub struct CodeHighlighter {
    /// The state of the parser at the end of the last line.
    parser: ParseState,
    /// The scopes that are open at the end of the last line.
    scopes: ScopeStack,
    /// The number of lines that may still be highlighted.
    lines_left: usize,
}

impl CodeHighlighter {
    /// Returns a highlighter for a language, given by its name or a file extension; `None` if the language is unknown
    /// or the style has no colours.
    pub fn for_language(language: &str, style: Style) -> Option<Self> {
        let language = language.trim();
        if style == Style::Plain || language.is_empty() {
            return None;
        }
        let syntax = SYNTAXES.find_syntax_by_token(language)?;
        Some(Self { parser: ParseState::new(syntax), scopes: ScopeStack::new(), lines_left: LINES_MAX })
    }

    /// Returns the next line of the block with colours. `line` must be sanitized and have no newline. A line that
    /// cannot be parsed is returned unchanged.
    pub fn highlight_line(&mut self, line: &str, style: Style) -> String {
        if line.len() > LINE_BYTES_MAX || self.lines_left == 0 {
            return line.to_owned();
        }
        self.lines_left -= 1;
        let whole = format!("{line}\n");
        let Ok(changes) = self.parser.parse_line(&whole, &SYNTAXES) else { return line.to_owned() };
        let mut out = String::with_capacity(line.len() * 2);
        // Adjacent parts of the same colour are painted together.
        let (mut start, mut color) = (0, self.current_color());
        for (offset, change) in changes {
            let offset = offset.min(line.len());
            if self.scopes.apply(&change).is_err() {
                break;
            }
            let next = self.current_color();
            if next != color && offset > start {
                out.push_str(&paint_code(&line[start..offset], color, style));
                start = offset;
            }
            if offset == start {
                color = next;
            }
        }
        out.push_str(&paint_code(&line[start..], color, style));
        out
    }

    /// Returns the colour of the innermost scope that matches.
    fn current_color(&self) -> Option<SyntaxColor> {
        let entry = |scope: &Scope| SCOPE_COLORS.iter().find(|(known, _)| known.is_prefix_of(*scope));
        self.scopes.as_slice().iter().rev().find_map(entry).and_then(|(_, color)| *color)
    }
}

/// Returns the text in a colour. Blanks are not painted.
fn paint_code(text: &str, color: Option<SyntaxColor>, style: Style) -> String {
    match color {
        Some(color) if !text.trim().is_empty() => style.highlight(color, text),
        Some(_) | None => text.to_owned(),
    }
}

impl std::fmt::Debug for CodeHighlighter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeHighlighter").field("lines_left", &self.lines_left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_highlighted_and_its_text_is_kept() {
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
    fn unknown_languages_plain_styles_and_long_lines_are_not_highlighted() {
        assert!(CodeHighlighter::for_language("klingon", Style::Color).is_none());
        assert!(CodeHighlighter::for_language("rust", Style::Plain).is_none());
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        assert_eq!(
            CodeHighlighter::for_language("rust", Style::Color).unwrap().highlight_line(&long, Style::Color),
            long
        );
    }
}
