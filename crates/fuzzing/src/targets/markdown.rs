//! Text of models on a terminal: sanitizing, wrapping, and streamed Markdown. The output cannot control the terminal or
//! reorder its text, does not depend on the chunks in which the text arrives, and stays within the width of the screen.

use terminal::{
    Audience, CursorMode, MarkdownRenderer, Screen, Style, pad, reveal_unsafe, sanitize, sanitize_line,
    shorten, width, wrap,
};

use super::{FuzzTarget, RepeatedInput};

/// The width in which a word is broken even if less remains, because its line begins with a deep indentation.
const WORD_COLUMNS_MIN: usize = 8;

/// Characters that reorder text or hide it.
const UNSAFE_CHARACTERS: [char; 14] = [
    '\u{202a}',
    '\u{202b}',
    '\u{202c}',
    '\u{202d}',
    '\u{202e}',
    '\u{2066}',
    '\u{2067}',
    '\u{2068}',
    '\u{2069}',
    '\u{2028}',
    '\u{2029}',
    '\u{feff}',
    '\u{e0001}',
    '\u{e0041}',
];

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "markdown",
    check,
    parse,
    dictionary: &[
        "# ",
        "## T\n",
        "- ",
        "  - ",
        "1. ",
        "10) ",
        "> ",
        "> > ",
        "- [ ] ",
        "- [x] ",
        "```\n",
        "```rust\n",
        "~~~\n",
        "    ",
        "|a|b|\n|-|-:|\n",
        "|1|**2**|\n",
        "|",
        "---\n",
        "===\n",
        "***\n",
        "**",
        "*",
        "__",
        "`",
        "~~",
        "[a](http://e.org)",
        "![a](b)",
        "[a]: http://e.org\n",
        "[a]",
        "<http://e.org>",
        "<b>",
        "<!-- ",
        "&#27;",
        "&#x202e;",
        "&amp;",
        "\\",
        "  \n",
        "\n\n",
        "\r\n",
        "\t",
        "\u{1b}[31m",
        "\u{1b}]0;t\u{7}",
        "\u{1b}]8;;http://e.org\u{1b}\\",
        "\u{1b}P",
        "\u{9b}2J",
        "\u{9c}",
        "\u{202e}",
        "\u{2028}",
        "\u{6f22}\u{5b57}",
        "\u{1f468}\u{200d}\u{1f469}",
        "e\u{301}",
        "word",
        "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww",
    ],
    repeated: &[
        RepeatedInput::of("a word and another\n"),
        RepeatedInput::of("a"),
        RepeatedInput::of("\u{1b}]x"),
        RepeatedInput::of("\u{1b}]x\u{7}"),
        RepeatedInput::of("\u{1b}["),
        RepeatedInput::of("- a\n"),
        RepeatedInput::of("- a\n\n"),
        RepeatedInput::of("> a\n"),
        RepeatedInput::of(">"),
        RepeatedInput::of("**a"),
        RepeatedInput::of("*a_"),
        RepeatedInput::of("["),
        RepeatedInput::of("[a](b"),
        RepeatedInput::of("![a]("),
        RepeatedInput::of("`"),
        RepeatedInput::of("<a"),
        RepeatedInput::nested(" *a", "b* "),
        RepeatedInput::nested("**a ", " b**"),
        RepeatedInput::nested("![", "](x)"),
        RepeatedInput::nested("> ", "a\n"),
        RepeatedInput::of("- "),
        RepeatedInput::of("&#27;"),
        RepeatedInput::of("[a]: b\n"),
        RepeatedInput::of("# a\n\n"),
        RepeatedInput::of("```\na\n```\n"),
        RepeatedInput::between("```\n", "a\n", ""),
        RepeatedInput::between("|a|b|\n|-|-|\n", "|1|2|\n", ""),
        RepeatedInput::of("\u{1f468}\u{200d}\u{1f469}"),
        RepeatedInput::of("e\u{301}"),
    ],
};

fn check(input: &[u8]) {
    let (selector, text) = input.split_first().unwrap_or((&0, &[]));
    let text = String::from_utf8_lossy(text);
    check_sanitize(&text);
    check_wrap(&text, 8 + usize::from(*selector) % 100);
    let columns = 40 + usize::from(*selector) % 80;
    check_markdown(&text, columns);
}

fn parse(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let screen = screen_of(Style::Color, 80);
    drop(sanitize_line(&text));
    drop(wrap(&sanitize(&text), 40, "", ""));
    drop(render(&screen, [&*text]));
}

/// Returns whether a character may be on the screen.
fn is_safe(c: char) -> bool {
    (c == '\n' || !c.is_control()) && !UNSAFE_CHARACTERS.contains(&c)
}

/// Checks that sanitized text is safe, that sanitizing it again changes nothing, and that safe text stays as it is.
fn check_sanitize(text: &str) {
    let safe = sanitize(text);
    assert!(safe.chars().all(is_safe), "{text:?}: {safe:?}");
    assert_eq!(sanitize(&safe), safe, "{text:?}");
    let revealed = reveal_unsafe(text);
    assert!(revealed.chars().all(is_safe), "{text:?}: {revealed:?}");
    if text.chars().all(is_safe) {
        assert_eq!((&*safe, &*revealed), (text, text));
    }
    let line = sanitize_line(text);
    assert!(!line.contains('\n') && line.chars().all(is_safe), "{text:?}: {line:?}");
}

/// Checks that no wrapped, shortened or padded line is too wide, and that wrapping loses no text.
fn check_wrap(text: &str, columns: usize) {
    let line = sanitize_line(text);
    let wrapped = wrap(&line, columns, "- ", "  ");
    for part in wrapped.lines() {
        assert!(width(part) <= columns.max(WORD_COLUMNS_MIN + 2), "{columns}: {part:?} of {line:?}");
    }
    let words = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let bare = wrapped.strip_prefix("- ").unwrap_or(&wrapped);
    assert_eq!(words(bare), words(&line), "{columns}");
    let short = shorten(&line, columns);
    assert!(width(&short) <= columns, "{columns}: {short:?}");
    assert_eq!(width(&pad(&short, columns)), columns, "{short:?}");
}

/// Checks that Markdown is rendered safely, within the width, and in any chunks alike.
fn check_markdown(text: &str, columns: usize) {
    for style in [Style::Plain, Style::Color] {
        let screen = screen_of(style, columns);
        let whole = render(&screen, [text]);
        let letters: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(render(&screen, letters.iter().map(String::as_str)), whole, "{text:?}");
        assert!(remove_styles(&whole, style).chars().all(is_safe), "{text:?}: {whole:?}");
    }
    check_widths(text, &render(&screen_of(Style::Plain, columns), [text]), columns);
}

/// Checks the widths of rendered lines. Code, tables of too many columns and definitions of links are printed as they are in the
/// source, and the prefixes of deeply nested blocks leave no room.
fn check_widths(text: &str, rendered: &str, columns: usize) {
    let source = sanitize(text);
    for line in rendered.lines() {
        let is_code = line.contains(['\u{2502}', '\u{2577}', '\u{2575}']);
        let content = line
            .trim_start_matches([' ', '\u{2022}', '\u{2610}', '\u{2611}', '.', ')'])
            .trim_start_matches(|c: char| c.is_ascii_digit());
        let prefix = width(line) - width(content);
        let is_source = source.contains(content.trim());
        assert!(
            width(line) <= columns.max(prefix + WORD_COLUMNS_MIN) || is_code || is_source,
            "{columns}: {line:?} of {text:?}"
        );
    }
}

/// Returns the text without the escape sequences of the style.
fn remove_styles(text: &str, style: Style) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Color => {
            let mut parts = text.split("\u{1b}[");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |plain, part| {
                let end = part.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(part.len());
                assert!(part[end..].starts_with('m'), "only styles are set: {part:?}");
                plain + &part[end + 1..]
            })
        }
    }
}

/// Renders a document that arrives in chunks. Asks for a preview after each chunk, as the screen does.
fn render<'t>(screen: &Screen, chunks: impl IntoIterator<Item = &'t str>) -> String {
    let mut renderer = MarkdownRenderer::new(screen);
    let mut rendered = String::new();
    for chunk in chunks {
        rendered.push_str(&renderer.push(chunk));
    }
    drop(renderer.preview());
    rendered.push_str(&renderer.finish());
    rendered
}

/// Returns a screen of this style and width.
fn screen_of(style: Style, columns: usize) -> Screen {
    Screen { style, columns, audience: Audience::Program, cursor: CursorMode::Fixed }
}
