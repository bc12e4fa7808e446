//! The lines of an entry of facts that keeps the line breaks of its text, such as a request with code.
//!
//! The entry is one bullet. Its lines after the first are indented by [`CONTINUATION`], as Markdown does it, so that no line
//! of the text can be read as a heading or as another entry.

use memory::managed_block;
use model::tokens::truncate_graphemes;
use model::untrusted_text;

use super::{escape_block_start, escape_tags, normalize_line, strip_hidden};

/// The indentation of the lines of an entry after the first.
pub(crate) const CONTINUATION: &str = "  ";
/// The spaces for which a tab stands in the indentation of code.
const TAB: &str = "    ";

/// Returns `text` without characters that hide or reorder others, with its line breaks and the indentation of its lines.
///
/// Of several blank lines one is kept. Indentation that all lines have is removed. A code block that is not closed gets a
/// closing fence. A text of one line is normalized like every other line, by [`normalize_line`].
pub(crate) fn normalize_block(text: &str) -> String {
    let lines: Vec<String> =
        text.lines().map(|line| strip_hidden(&line.replace('\t', TAB)).trim_end().to_owned()).collect();
    let indentation = |line: &String| line.len() - line.trim_start().len();
    let common = lines.iter().filter(|line| !line.is_empty()).map(indentation).min().unwrap_or_default();
    let mut block = String::new();
    let mut is_after_blank = false;
    for line in lines.iter().map(|line| line.get(common..).unwrap_or_default()) {
        if line.is_empty() {
            is_after_blank = !block.is_empty();
            continue;
        }
        match (block.is_empty(), is_after_blank) {
            (true, _) => {}
            (false, true) => block.push_str("\n\n"),
            (false, false) => block.push('\n'),
        }
        match (block.is_empty(), fence(line.trim_start())) {
            // The first line follows the bullet.
            (true, Some(_)) => block.push_str(line.trim_start()),
            (true, None) => block.push_str(&normalize_line(line)),
            (false, _) => block.push_str(line),
        }
        is_after_blank = false;
    }
    if block.contains('\n') { close_fence(block) } else { normalize_line(&block) }
}

/// Returns the block cut to `graphemes_max` grapheme clusters of at most `chars_per_grapheme` characters on average, with an
/// ellipsis after the cut.
pub(super) fn shorten_block(text: &str, graphemes_max: usize, chars_per_grapheme: usize) -> String {
    let block = normalize_block(text);
    let head = truncate_graphemes(&block, graphemes_max);
    let chars_max = graphemes_max * chars_per_grapheme;
    let head = head.char_indices().nth(chars_max).map_or(head, |(end, _)| &head[..end]);
    match head.len() < block.len() {
        true => close_fence(format!("{}…", head.trim_end())),
        false => block,
    }
}

/// Returns the entry as the lines of a bullet, with everything escaped that could be read as a tag.
pub(super) fn render_block(entry: &str) -> String {
    let mut md = String::from("- ");
    for (index, line) in entry.lines().enumerate() {
        match index {
            0 if entry.contains('\n') && fence(line).is_some() => md.push_str(&escape_line_tags(line)),
            0 => md.push_str(&escape_block_start(&escape_tags(line))),
            _ if line.is_empty() => {}
            _ => {
                md.push_str(CONTINUATION);
                md.push_str(&escape_line_tags(line));
            }
        }
        md.push('\n');
    }
    if entry.is_empty() {
        md.push('\n');
    }
    md
}

/// Returns the statements of a package with the numbers of their first lines, counted from 1: each line, together with
/// the lines that continue it.
pub(crate) fn statements(markdown: &str) -> Vec<(usize, String)> {
    let mut statements: Vec<(usize, String)> = Vec::new();
    let mut blank = 0;
    for (number, line) in (1..).zip(markdown.lines()) {
        let open = statements.last_mut().filter(|(_, first)| first.starts_with("- "));
        match open {
            Some(_) if line.is_empty() => blank += 1,
            Some((_, statement)) if line.starts_with(CONTINUATION) => {
                statement.extend(std::iter::repeat_n('\n', blank + 1));
                statement.push_str(line);
                blank = 0;
            }
            _ => {
                statements.extend((number - blank..number).map(|number| (number, String::new())));
                blank = 0;
                statements.push((number, line.to_owned()));
            }
        }
    }
    let end = markdown.lines().count() + 1;
    statements.extend((end - blank..end).map(|number| (number, String::new())));
    statements
}

/// Returns the line with everything escaped that could be read as a tag. Its spaces and backticks stay.
fn escape_line_tags(line: &str) -> String {
    managed_block::escape_block_tags(&untrusted_text::neutralize(line))
}

/// Returns the block with its last code block closed, which would otherwise take what follows for code.
fn close_fence(mut block: String) -> String {
    let mut open: Option<String> = None;
    for line in block.lines() {
        let trimmed = line.trim();
        match (&open, fence(trimmed)) {
            (None, Some(signs)) => {
                let indentation = &line[..line.len() - line.trim_start().len()];
                open = Some(format!("{indentation}{signs}"));
            }
            (Some(opening), Some(closing)) if closing == trimmed && closing.starts_with(opening.trim()) => {
                open = None;
            }
            (None | Some(_), _) => {}
        }
    }
    if let Some(closing) = open {
        block.push('\n');
        block.push_str(&closing);
    }
    block
}

/// Returns the signs of the fence with which a line begins.
fn fence(line: &str) -> Option<&str> {
    let sign = ['`', '~'].into_iter().find(|sign| line.starts_with(*sign))?;
    let remaining = line.trim_start_matches(sign);
    let signs = &line[..line.len() - remaining.len()];
    (signs.len() >= 3 && !(sign == '`' && remaining.contains('`'))).then_some(signs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str =
        "Port this:\n\n\n```rust\nfn a() {\n\tif x < 1 {  }\n}\n```\n\n# Then\n- test it\n| a  | b |";

    #[test]
    fn line_breaks_indentation_and_code_blocks_stay() {
        let block = normalize_block(REQUEST);
        assert_eq!(
            block,
            "Port this:\n\n```rust\nfn a() {\n    if x < 1 {  }\n}\n```\n\n# Then\n- test it\n| a  | b |"
        );
        assert_eq!(normalize_block(&block), block);
        insta::assert_snapshot!(render_block(&block));
    }

    #[test]
    fn a_text_of_one_line_is_like_any_other_line() {
        assert_eq!(normalize_block("  a   ```b```\n\n"), "a `b`");
        assert_eq!(render_block("~~~ x"), "- \\~~~ x\n");
        assert_eq!(render_block(""), "- \n");
    }

    #[test]
    fn a_code_block_that_is_not_closed_does_not_take_what_follows() {
        for (text, expected) in [
            ("see\n```\ncode", "see\n```\ncode\n```"),
            ("see\r\n```python\r\ncode\r\n```", "see\n```python\ncode\n```"),
            ("````\ncode\n```", "````\ncode\n```\n````"),
            ("~~~\n~~~~\n", "~~~\n~~~~"),
            ("~~~\n```\n", "~~~\n```\n~~~"),
        ] {
            assert_eq!(normalize_block(text), expected, "{text}");
            assert_eq!(normalize_block(expected), expected, "{text}");
        }
        assert_eq!(shorten_block(REQUEST, 25, 4), "Port this:\n\n```rust\nfn a(…\n```");
        assert!(shorten_block(&"a\nb ".repeat(300), 100, 4).ends_with('…'));
    }

    #[test]
    fn a_statement_is_a_line_with_those_that_continue_it() {
        let md =
            format!("**T**\n\n### Last request\n{}\n- make\n\n", render_block(&normalize_block(REQUEST)));
        let statements = statements(&md);
        let found: Vec<(usize, &str)> = statements
            .iter()
            .map(|(number, text)| (*number, text.lines().next().unwrap_or_default()))
            .collect();
        assert_eq!(
            found,
            [
                (1, "**T**"),
                (2, ""),
                (3, "### Last request"),
                (4, "- Port this:"),
                (15, ""),
                (16, "- make"),
                (17, "")
            ]
        );
        let joined: Vec<String> = statements.into_iter().map(|(_, text)| text).collect();
        assert_eq!(joined.join("\n"), md.trim_end_matches('\n').to_owned() + "\n");
    }
}
