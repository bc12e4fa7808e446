//! The light and the dark colours of terminal pictures. They are taken from the page's `tokens.css` where it has a
//! matching value, so that terminal and page look alike. Text has a contrast of at least 4.5 to the background.

use std::fmt;

/// The colour scheme of a picture. Every picture exists in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

impl Scheme {
    /// Both schemes.
    pub const ALL: [Self; 2] = [Self::Light, Self::Dark];

    /// Returns the scheme's name in file names. Browsers use the same names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Returns the colours of the scheme.
    pub const fn palette(self) -> &'static Palette {
        match self {
            Self::Light => &LIGHT,
            Self::Dark => &DARK,
        }
    }
}

/// An opaque colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// The colours of a terminal and its window.
#[derive(Debug)]
pub struct Palette {
    /// The background of the terminal.
    pub background: Rgb,
    /// The default text colour.
    pub text: Rgb,
    /// The default text colour of dim text.
    pub dim_text: Rgb,
    /// The background of the window's title bar.
    pub title_bar: Rgb,
    /// The border of the window, the line below its title bar, and its buttons.
    pub border: Rgb,
    /// The sixteen ANSI colours: black, red, green, yellow, blue, magenta, cyan and white, then the bright versions.
    pub ansi: [Rgb; 16],
}

impl Palette {
    /// Returns a colour of the 256-colour palette: an ANSI colour, a colour of the 6×6×6 cube, or a grey.
    pub fn indexed_colour(&self, index: u8) -> Rgb {
        match index {
            0..=15 => self.ansi[usize::from(index)],
            16..=231 => {
                let channel = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
                let cube = index - 16;
                Rgb(channel(cube / 36), channel(cube / 6 % 6), channel(cube % 6))
            }
            232..=255 => {
                let grey = 8 + 10 * (index - 232);
                Rgb(grey, grey, grey)
            }
        }
    }

    /// Returns the dim version of a colour: three parts of the colour mixed with one part of the background.
    pub fn dim(&self, colour: Rgb) -> Rgb {
        let mix = |from: u8, to: u8| {
            let mixed = (u16::from(from) * 3 + u16::from(to)) / 4;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        let Rgb(red, green, blue) = self.background;
        Rgb(mix(colour.0, red), mix(colour.1, green), mix(colour.2, blue))
    }
}

/// The colours of [`Scheme::Light`].
const LIGHT: Palette = Palette {
    background: Rgb(0xff, 0xff, 0xff),
    text: Rgb(0x1b, 0x1f, 0x27),
    dim_text: Rgb(0x59, 0x60, 0x6e),
    title_bar: Rgb(0xf6, 0xf7, 0xf9),
    border: Rgb(0xd3, 0xd8, 0xe1),
    ansi: [
        Rgb(0x1b, 0x1f, 0x27),
        Rgb(0xb3, 0x26, 0x1e),
        Rgb(0x17, 0x69, 0x3a),
        Rgb(0x85, 0x53, 0x00),
        Rgb(0x27, 0x47, 0xb8),
        Rgb(0xa3, 0x17, 0x4f),
        Rgb(0x0b, 0x66, 0x77),
        Rgb(0x59, 0x60, 0x6e),
        Rgb(0x59, 0x60, 0x6e),
        Rgb(0xb3, 0x26, 0x1e),
        Rgb(0x17, 0x69, 0x3a),
        Rgb(0x85, 0x53, 0x00),
        Rgb(0x35, 0x58, 0xd4),
        Rgb(0x5b, 0x34, 0xb8),
        Rgb(0x0b, 0x66, 0x77),
        Rgb(0x1b, 0x1f, 0x27),
    ],
};

/// The colours of [`Scheme::Dark`].
const DARK: Palette = Palette {
    background: Rgb(0x14, 0x17, 0x1c),
    text: Rgb(0xe6, 0xe9, 0xee),
    dim_text: Rgb(0xa3, 0xab, 0xb9),
    title_bar: Rgb(0x1c, 0x20, 0x27),
    border: Rgb(0x3a, 0x42, 0x4f),
    ansi: [
        Rgb(0x6d, 0x76, 0x86),
        Rgb(0xff, 0x8a, 0x80),
        Rgb(0x6f, 0xcf, 0x95),
        Rgb(0xe6, 0xb4, 0x50),
        Rgb(0x8e, 0xbb, 0xff),
        Rgb(0xff, 0x8f, 0xb4),
        Rgb(0x6f, 0xd0, 0xdc),
        Rgb(0xc9, 0xcf, 0xd9),
        Rgb(0xa3, 0xab, 0xb9),
        Rgb(0xff, 0x8a, 0x80),
        Rgb(0x8f, 0xd6, 0xa5),
        Rgb(0xf0, 0xb3, 0x6b),
        Rgb(0xa8, 0xbc, 0xff),
        Rgb(0xc3, 0xa6, 0xff),
        Rgb(0x6f, 0xd0, 0xdc),
        Rgb(0xe6, 0xe9, 0xee),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The minimum contrast of normal text in the Web Content Accessibility Guidelines, level AA.
    const CONTRAST_MIN: f64 = 4.5;

    fn luminance(colour: Rgb) -> f64 {
        let linear = |channel: u8| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
    }

    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_is_legible_in_both_schemes() {
        for scheme in Scheme::ALL {
            let palette = scheme.palette();
            let named = palette.ansi.iter().enumerate().filter(|(index, _)| *index != 0);
            let all = named.map(|(_, colour)| *colour).chain([palette.text, palette.dim_text]);
            for colour in all {
                let contrast = contrast(colour, palette.background);
                assert!(contrast >= CONTRAST_MIN, "{scheme:?} {colour}: {contrast:.2}");
            }
            assert!(contrast(palette.dim_text, palette.title_bar) >= CONTRAST_MIN);
        }
    }

    #[test]
    fn indexed_colours_are_those_of_xterm() {
        let check =
            |index, expected: &str| assert_eq!(LIGHT.indexed_colour(index).to_string(), expected, "{index}");
        check(1, "#b3261e");
        check(16, "#000000");
        check(67, "#5f87af");
        check(231, "#ffffff");
        check(232, "#080808");
        check(255, "#eeeeee");
    }

    #[test]
    fn a_dim_colour_is_nearer_to_the_background() {
        assert_eq!(LIGHT.dim(Rgb(0, 0, 0)), Rgb(0x3f, 0x3f, 0x3f));
        assert_eq!(DARK.dim(DARK.background), DARK.background);
    }
}
