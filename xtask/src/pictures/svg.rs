//! Rendering of a terminal's screen as an SVG file: a window with a title bar, and the cells as real text. Rendering is
//! a pure function of cells, title and colours.
//!
//! The fonts of the reader's system are unknown, so `textLength` fits each run of text to its cells. A run ends where
//! the style changes, and at characters that may come from a fallback font, so that a glyph of another width does not
//! shift its neighbours.

use std::fmt::Write as _;

use vt100::Color;

use super::palette::{Palette, Rgb};
use super::screen::{Cell, CellStyle, CursorPosition, Intensity, ScreenContent};

/// The font size. All lengths in this file are in pixels.
const FONT_SIZE: f64 = 14.0;
/// The width of a cell. In most monospaced fonts it is 0.6 of the font size.
const CELL_WIDTH: f64 = 8.4;
/// The height of a cell, which is the distance of two baselines.
const CELL_HEIGHT: f64 = 19.0;
/// The distance from the top of a cell to its baseline.
const BASELINE: f64 = 14.0;
/// The distance between the window's edge and the cells.
const PADDING: f64 = 18.0;
/// The height of the title bar.
const TITLE_BAR_HEIGHT: f64 = 34.0;
/// The radius of the window's corners.
const CORNER_RADIUS: f64 = 9.0;
/// The radius of the three round buttons in the title bar.
const BUTTON_RADIUS: f64 = 5.5;
/// The distance between the centres of two buttons.
const BUTTON_DISTANCE: f64 = 19.0;
/// Half of the border's width, which keeps the border inside the picture.
const INSET: f64 = 0.5;
/// Monospaced fonts of common systems, in order of preference.
const FONTS: &str = "ui-monospace, 'SF Mono', Menlo, 'Cascadia Mono', Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace";

/// Returns an SVG file that shows a screen in a window with a title.
pub fn render(screen: &ScreenContent, title: &str, palette: &Palette) -> String {
    let width = f64::from(screen.columns) * CELL_WIDTH + 2.0 * PADDING;
    let height = TITLE_BAR_HEIGHT + screen.rows.len() as f64 * CELL_HEIGHT + 2.0 * PADDING;
    let mut picture = Drawing { out: String::new(), palette };
    picture.open_document(title, width, height);
    picture.draw_window(title, width, height);
    for (index, row) in screen.rows.iter().enumerate() {
        picture.draw_row(row, TITLE_BAR_HEIGHT + PADDING + index as f64 * CELL_HEIGHT);
    }
    if let Some(cursor) = screen.cursor {
        picture.draw_cursor(cursor);
    }
    picture.out.push_str("</g>\n</svg>\n");
    picture.out
}

/// An SVG file under construction.
struct Drawing<'a> {
    out: String,
    palette: &'a Palette,
}

/// Adjacent cells of a row that become one text element.
struct TextRun {
    /// The column of its left edge, counted from 0.
    column: u16,
    /// The number of columns.
    width: u16,
    text: String,
    style: CellStyle,
    font: FontOrigin,
}

/// The font that the glyphs of a run come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FontOrigin {
    /// The monospaced font, which contains all of ASCII.
    Monospaced,
    /// Possibly a fallback font, whose glyphs may have another width.
    Fallback,
}

impl Drawing<'_> {
    /// Adds a line to the file.
    fn push_element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.out, "{element}");
    }

    /// Writes the opening tag, the title for screen readers and the style sheet.
    fn open_document(&mut self, title: &str, width: f64, height: f64) {
        let (width, height) = (Length(width), Length(height));
        self.push_element(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">"#
        ));
        self.push_element(format_args!("<title>{}</title>", XmlText(title)));
        // Browsers ignore an inherited `xml:space` and collapse spaces; other renderers do not know `white-space`.
        self.push_element(format_args!("<style>text {{ white-space: pre }}</style>"));
    }

    /// Draws the window and its title bar, and opens the group of the cells.
    fn draw_window(&mut self, title: &str, width: f64, height: f64) {
        let Palette { background, border, title_bar, dim_text, .. } = *self.palette;
        let (middle, bar, font_size) =
            (Length(width / 2.0), Length(TITLE_BAR_HEIGHT), Length(FONT_SIZE - 1.0));
        let (inner_width, inner_height) = (Length(width - 2.0 * INSET), Length(height - 2.0 * INSET));
        let (right, curve) = (Length(width - 2.0 * INSET - 2.0 * CORNER_RADIUS), Length(CORNER_RADIUS));
        let side = Length(TITLE_BAR_HEIGHT - INSET - CORNER_RADIUS);
        self.push_element(format_args!(
            r#"<rect x="{INSET}" y="{INSET}" width="{inner_width}" height="{inner_height}" rx="{curve}" fill="{background}"/>"#
        ));
        self.push_element(format_args!(
            r#"<path d="M{INSET} {bar}v-{side}a{curve} {curve} 0 0 1 {curve} -{curve}h{right}a{curve} {curve} 0 0 1 {curve} {curve}v{side}z" fill="{title_bar}"/>"#
        ));
        self.push_element(format_args!(r#"<path d="M{INSET} {bar}h{inner_width}" stroke="{border}"/>"#));
        self.push_element(format_args!(
            r#"<rect x="{INSET}" y="{INSET}" width="{inner_width}" height="{inner_height}" rx="{curve}" fill="none" stroke="{border}"/>"#
        ));
        for button in 0..3 {
            let x = Length(PADDING + f64::from(button) * BUTTON_DISTANCE);
            let y = Length(TITLE_BAR_HEIGHT / 2.0);
            self.push_element(format_args!(
                r#"<circle cx="{x}" cy="{y}" r="{BUTTON_RADIUS}" fill="{border}"/>"#
            ));
        }
        let y = Length(TITLE_BAR_HEIGHT / 2.0 + 4.5);
        self.push_element(format_args!(
            r#"<text x="{middle}" y="{y}" text-anchor="middle" font-family="system-ui, sans-serif" font-size="{font_size}" fill="{dim_text}">{}</text>"#,
            XmlText(title)
        ));
        self.push_element(format_args!(
            r#"<g font-family="{FONTS}" font-size="{FONT_SIZE}" fill="{}">"#,
            self.palette.text
        ));
    }

    /// Draws a row with its upper edge at `top`.
    fn draw_row(&mut self, cells: &[Cell], top: f64) {
        for run in group_runs(cells) {
            self.draw_background(&run, top);
            self.draw_text(&run, top);
        }
    }

    /// Draws the background of a run, unless it is that of the window.
    fn draw_background(&mut self, run: &TextRun, top: f64) {
        let Some(colour) = background_colour(run.style, self.palette) else { return };
        let (x, width) = (x_of(run.column), Length(f64::from(run.width) * CELL_WIDTH));
        let (y, height) = (Length(top), Length(CELL_HEIGHT));
        self.push_element(format_args!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"/>"#
        ));
    }

    /// Draws the text of a run. Blank runs without an underline are skipped.
    fn draw_text(&mut self, run: &TextRun, top: f64) {
        if run.text.trim().is_empty() && !run.style.underline {
            return;
        }
        let (x, y) = (x_of(run.column), Length(top + BASELINE));
        let length = Length(f64::from(run.width) * CELL_WIDTH);
        let attributes = attributes(run.style, self.palette);
        self.push_element(format_args!(
            r#"<text x="{x}" y="{y}" textLength="{length}" lengthAdjust="spacingAndGlyphs"{attributes}>{}</text>"#,
            XmlText(&run.text)
        ));
    }

    /// Draws the cursor as a bar at the left edge of its cell.
    fn draw_cursor(&mut self, cursor: CursorPosition) {
        let x = x_of(cursor.column);
        let y = Length(TITLE_BAR_HEIGHT + PADDING + cursor.row as f64 * CELL_HEIGHT);
        let (height, colour) = (Length(CELL_HEIGHT), self.palette.text);
        self.push_element(format_args!(
            r#"<rect x="{x}" y="{y}" width="2" height="{height}" fill="{colour}"/>"#
        ));
    }
}

/// Groups the cells of a row into runs. Spaces that draw nothing are dropped at both ends of a run.
fn group_runs(cells: &[Cell]) -> Vec<TextRun> {
    let mut runs: Vec<TextRun> = Vec::new();
    for cell in cells {
        match runs.last_mut().filter(|run| run.accepts(cell)) {
            Some(run) => {
                run.text.push_str(&cell.text);
                run.width += cell.width;
            }
            None => runs.push(TextRun {
                column: cell.column,
                width: cell.width,
                text: cell.text.clone(),
                style: cell.style,
                font: FontOrigin::for_text(&cell.text),
            }),
        }
    }
    runs.into_iter().map(TextRun::trim_spaces).filter(|run| !run.text.is_empty()).collect()
}

impl FontOrigin {
    /// Returns the font for the text of one cell.
    fn for_text(text: &str) -> Self {
        if text.is_ascii() { Self::Monospaced } else { Self::Fallback }
    }
}

impl TextRun {
    /// Returns whether the next cell of the row belongs to this run. Characters of a fallback font share a run only if
    /// they are equal, as in a line of dashes, because `textLength` distributes equal glyphs evenly.
    fn accepts(&self, cell: &Cell) -> bool {
        let fits = match FontOrigin::for_text(&cell.text) {
            FontOrigin::Monospaced => true,
            FontOrigin::Fallback => self.text.ends_with(&cell.text),
        };
        self.style == cell.style && self.font == FontOrigin::for_text(&cell.text) && fits
    }

    /// Returns the run without the spaces at its ends, unless their background or underline is visible.
    fn trim_spaces(mut self) -> Self {
        let draws_spaces =
            self.style.underline || self.style.inverse || self.style.background != Color::Default;
        if draws_spaces {
            return self;
        }
        let text = self.text.trim_start_matches(' ');
        let leading = u16::try_from(self.text.len() - text.len()).unwrap_or(self.width);
        let text = text.trim_end_matches(' ').to_owned();
        let trailing = u16::try_from(self.text.len() - text.len()).unwrap_or(self.width) - leading;
        self.column += leading;
        self.width = self.width.saturating_sub(leading + trailing);
        self.text = text;
        self
    }
}

/// Returns the SVG attributes of a style, each with a leading space. The default text colour needs none.
fn attributes(style: CellStyle, palette: &Palette) -> String {
    let mut attributes = String::new();
    let colour = text_colour(style, palette);
    if colour != palette.text {
        // Writing to a String does not fail.
        let _ = write!(attributes, r#" fill="{colour}""#);
    }
    if style.intensity == Intensity::Bold {
        attributes.push_str(r#" font-weight="700""#);
    }
    if style.italic {
        attributes.push_str(r#" font-style="italic""#);
    }
    if style.underline {
        attributes.push_str(r#" text-decoration="underline""#);
    }
    attributes
}

/// Returns the text colour of a style.
fn text_colour(style: CellStyle, palette: &Palette) -> Rgb {
    let named = if style.inverse { style.background } else { style.foreground };
    let colour = match (named, style.inverse) {
        (Color::Default, true) => palette.background,
        (Color::Default, false) if style.intensity == Intensity::Dim => return palette.dim_text,
        (Color::Default, false) => palette.text,
        (Color::Idx(index), _) => palette.indexed_colour(index),
        (Color::Rgb(red, green, blue), _) => Rgb(red, green, blue),
    };
    if style.intensity == Intensity::Dim { palette.dim(colour) } else { colour }
}

/// Returns the background colour of a style, or `None` for the background of the window.
fn background_colour(style: CellStyle, palette: &Palette) -> Option<Rgb> {
    let named = if style.inverse { style.foreground } else { style.background };
    match named {
        Color::Default => style.inverse.then_some(palette.text),
        Color::Idx(index) => Some(palette.indexed_colour(index)),
        Color::Rgb(red, green, blue) => Some(Rgb(red, green, blue)),
    }
}

/// Returns the x coordinate of the left edge of a column.
fn x_of(column: u16) -> Length {
    Length(PADDING + f64::from(column) * CELL_WIDTH)
}

/// A length that is written with at most one decimal place.
struct Length(f64);

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.1}", self.0);
        f.write_str(text.strip_suffix(".0").unwrap_or(&text))
    }
}

/// Text that is escaped for the content of an XML element. Control characters, which XML does not allow, are dropped.
struct XmlText<'a>(&'a str);

impl std::fmt::Display for XmlText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                control if control.is_control() => {}
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
