//! Table tests of terminal output and the resulting SVG elements.

use super::*;
use crate::pictures::palette::Scheme;
use crate::pictures::screen::testing::draw;

/// Checks the elements of the cells in the light palette after a program has written `bytes`.
#[track_caller]
fn check(bytes: &str, expected: &[&str]) {
    let screen = draw(&format!("{bytes}\x1b[?25l"));
    let svg = render(&screen, "segue", Scheme::Light.palette());
    let (_, cells) = svg.split_once("<g ").unwrap();
    let lines: Vec<&str> = cells.lines().skip(1).filter(|line| !line.starts_with("</")).collect();
    let shorten = |line: &str| line.replace(r#" lengthAdjust="spacingAndGlyphs""#, "");
    assert_eq!(lines.into_iter().map(shorten).collect::<Vec<_>>(), expected, "{bytes:?}");
}

#[test]
fn text_is_fitted_to_its_cells() {
    check("ab", &[r#"<text x="18" y="66" textLength="16.8">ab</text>"#]);
    check("\r\n  a b  ", &[r#"<text x="34.8" y="85" textLength="25.2">a b</text>"#]);
    check("", &[]);
    check("a  b", &[r#"<text x="18" y="66" textLength="33.6">a  b</text>"#]);
}

#[test]
fn colours_are_those_of_the_palette() {
    check("\x1b[31ma", &[r##"<text x="18" y="66" textLength="8.4" fill="#b3261e">a</text>"##]);
    check("\x1b[94ma", &[r##"<text x="18" y="66" textLength="8.4" fill="#3558d4">a</text>"##]);
    check("\x1b[38;5;67ma", &[r##"<text x="18" y="66" textLength="8.4" fill="#5f87af">a</text>"##]);
    check("\x1b[38;2;1;2;3ma", &[r##"<text x="18" y="66" textLength="8.4" fill="#010203">a</text>"##]);
    check("\x1b[2ma", &[r##"<text x="18" y="66" textLength="8.4" fill="#59606e">a</text>"##]);
    check("\x1b[2;31ma", &[r##"<text x="18" y="66" textLength="8.4" fill="#c65c56">a</text>"##]);
}

#[test]
fn a_background_is_drawn_behind_spaces_too() {
    check(
        "\x1b[44m a ",
        &[
            r##"<rect x="18" y="52" width="25.2" height="19" fill="#2747b8"/>"##,
            r#"<text x="18" y="66" textLength="25.2"> a </text>"#,
        ],
    );
    check(
        "\x1b[7ma",
        &[
            r##"<rect x="18" y="52" width="8.4" height="19" fill="#1b1f27"/>"##,
            r##"<text x="18" y="66" textLength="8.4" fill="#ffffff">a</text>"##,
        ],
    );
}

#[test]
fn weight_slant_and_underline_are_attributes() {
    check("\x1b[1ma", &[r#"<text x="18" y="66" textLength="8.4" font-weight="700">a</text>"#]);
    check("\x1b[3ma", &[r#"<text x="18" y="66" textLength="8.4" font-style="italic">a</text>"#]);
    check("\x1b[4ma ", &[r#"<text x="18" y="66" textLength="16.8" text-decoration="underline">a </text>"#]);
}

#[test]
fn a_change_of_style_begins_another_element() {
    check(
        "a \x1b[1mb\x1b[0m c",
        &[
            r#"<text x="18" y="66" textLength="8.4">a</text>"#,
            r#"<text x="34.8" y="66" textLength="8.4" font-weight="700">b</text>"#,
            r#"<text x="51.6" y="66" textLength="8.4">c</text>"#,
        ],
    );
}

#[test]
fn a_wide_character_has_two_cells_and_does_not_shift_others() {
    check(
        "a世b",
        &[
            r#"<text x="18" y="66" textLength="8.4">a</text>"#,
            r#"<text x="26.4" y="66" textLength="16.8">世</text>"#,
            r#"<text x="43.2" y="66" textLength="8.4">b</text>"#,
        ],
    );
    check("e\u{301}", &["<text x=\"18\" y=\"66\" textLength=\"8.4\">e\u{301}</text>"]);
}

#[test]
fn a_line_of_one_character_is_one_element() {
    check(
        "───→",
        &[
            r#"<text x="18" y="66" textLength="25.2">───</text>"#,
            r#"<text x="43.2" y="66" textLength="8.4">→</text>"#,
        ],
    );
}

#[test]
fn text_never_becomes_markup() {
    check("<b>&\"", &[r#"<text x="18" y="66" textLength="42">&lt;b&gt;&amp;"</text>"#]);
    let svg = render(&draw("a"), "<script>&\u{7}", Scheme::Dark.palette());
    assert!(svg.contains("<title>&lt;script&gt;&amp;</title>"), "{svg}");
}

#[test]
fn the_window_is_as_large_as_its_cells() {
    let svg = render(&draw("a\r\nb\x1b[?25l"), "segue help", Scheme::Dark.palette());
    assert!(
        svg.starts_with(
            r#"<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="204" height="108" "#
        ),
        "{svg}"
    );
    assert!(svg.contains(r##"fill="#14171c""##) && svg.contains(">segue help</text>"), "{svg}");
    assert!(svg.ends_with("</g>\n</svg>\n"), "{svg}");
}

#[test]
fn the_cursor_is_drawn_where_it_is_visible() {
    let cursor = r##"<rect x="26.4" y="52" width="2" height="19" fill="#1b1f27"/>"##;
    let palette = Scheme::Light.palette();
    assert!(render(&draw("a"), "segue", palette).contains(cursor));
    assert!(!render(&draw("a\x1b[?25l"), "segue", palette).contains(cursor));
}
