//! Emphasis within one line of Markdown: code spans, bold, slanted and struck text, links. Blocks are not its business.

use crate::terminal::text::style::Style;

/// Longer lines are shown as they are: nobody writes them, and every mark in them is looked for to their end.
const LINE_BYTES_MAX: usize = 20_000;

/// Returns one line with its spans emphasised and their marks left out.
pub(crate) fn inline(text: &str, style: Style) -> String {
    if text.len() > LINE_BYTES_MAX {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '_', '~', '[', '\\']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match span(from, out.chars().next_back()) {
            Some((span, after)) => {
                out.push_str(&render(&span, style));
                rest = after;
            }
            None => {
                out.push_str(&from[..1]);
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns one line as it is, with its code spans coloured: where what is shown must be what is stored.
pub(crate) fn literal(text: &str, style: Style) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('`') {
        let Some((inner, after)) = from.split_once('`').filter(|(inner, _)| !inner.is_empty()) else { break };
        out.push_str(before);
        out.push_str(&style.code(format!("`{inner}`")));
        rest = after;
    }
    out.push_str(rest);
    out
}

enum Span<'a> {
    Code(&'a str),
    Bold(&'a str),
    Italic(&'a str),
    Struck(&'a str),
    Link { text: &'a str, target: &'a str },
    Escaped(&'a str),
}

fn render(span: &Span<'_>, style: Style) -> String {
    match span {
        Span::Code(inner) => style.code(inner),
        Span::Bold(inner) => style.bold(inline(inner, style)),
        Span::Italic(inner) => style.italic(inline(inner, style)),
        Span::Struck(inner) => style.dim(inline(inner, style)),
        Span::Link { text, target } if text == target => style.code(target),
        Span::Link { text, target } => {
            format!("{} {}", inline(text, style), style.dim(format!("({target})")))
        }
        Span::Escaped(mark) => (*mark).to_owned(),
    }
}

/// Returns the span that begins `text`, and what follows it. After a letter `before` it, an underscore begins nothing.
fn span(text: &str, before: Option<char>) -> Option<(Span<'_>, &str)> {
    match text.as_bytes().first()? {
        b'`' => {
            let mark = &text[..text.len() - text.trim_start_matches('`').len()];
            let (inner, after) = text[mark.len()..].split_once(mark)?;
            Some((Span::Code(inner.trim_matches(' ')), after)).filter(|_| !inner.is_empty())
        }
        b'[' => link(text),
        b'\\' => {
            let rest = &text[1..];
            let is_mark = rest.starts_with(|c: char| c.is_ascii_punctuation());
            is_mark.then(|| (Span::Escaped(&rest[..1]), &rest[1..]))
        }
        _ => emphasis(text, before),
    }
}

fn link(text: &str) -> Option<(Span<'_>, &str)> {
    let (label, rest) = text[1..].split_once("](")?;
    let (target, after) = rest.split_once(')')?;
    let fits = !label.is_empty() && !label.contains('[') && !target.is_empty() && !target.contains(' ');
    fits.then_some((Span::Link { text: label, target }, after))
}

fn emphasis(text: &str, before: Option<char>) -> Option<(Span<'_>, &str)> {
    let opens = before.is_none_or(|c| !c.is_alphanumeric());
    for mark in ["**", "__", "~~", "*", "_"] {
        let Some(body) = text.strip_prefix(mark).filter(|_| opens || !mark.starts_with('_')) else {
            continue;
        };
        let Some(end) = body.find(mark).filter(|end| *end > 0) else { continue };
        let (inner, after) = (&body[..end], &body[end + mark.len()..]);
        let tight = !inner.starts_with(' ') && !inner.ends_with(' ');
        let closed = !mark.starts_with('_') || after.chars().next().is_none_or(|c| !c.is_alphanumeric());
        if tight && closed {
            let span = match mark {
                "**" | "__" => Span::Bold(inner),
                "~~" => Span::Struck(inner),
                _ => Span::Italic(inner),
            };
            return Some((span, after));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_emphasis_are_not_shown() {
        let check = |text: &str, expected: &str| assert_eq!(inline(text, Style::Plain), expected);
        check("a **bold** and *thin* `co_de`", "a bold and thin co_de");
        check("see [the page](https://example.org/a_b) now", "see the page (https://example.org/a_b) now");
        check("[x](x)", "x");
        check("[not a link] (x) [](x) [a](b c)", "[not a link] (x) [](x) [a](b c)");
        check("~~gone~~ \\*kept\\* a\\b", "gone *kept* a\\b");
        check("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4");
        check("an **unclosed mark", "an **unclosed mark");
        check("~/home ~ 5", "~/home ~ 5");
        check("```", "```");
    }

    #[test]
    fn m1_what_is_shown_literally_keeps_every_mark() {
        for text in
            ["ponylang__ponyc__0.1 `a_b` **x** \\* [l](t)", "```", "`open", "a `` b", "__init__.py ~~x~~"]
        {
            assert_eq!(literal(text, Style::Plain), text);
        }
        assert_eq!(literal("a `b` c", Style::Color), "a \u{1b}[36m`b`\u{1b}[39m c");
    }

    #[test]
    fn spans_nest() {
        assert_eq!(inline("**a `b`**", Style::Color), "\u{1b}[1ma \u{1b}[36mb\u{1b}[39m\u{1b}[22m");
    }
}
