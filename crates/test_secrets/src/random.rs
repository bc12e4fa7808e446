//! Random values from a seed, and templates of them.

/// Lower-case letters.
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
/// Upper-case letters.
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// Decimal digits.
const DIGITS: &str = "0123456789";

/// A deterministic source of random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct RandomSource(u64);

impl RandomSource {
    /// Returns a source for that seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next_number() % end as u64).unwrap_or(0)
    }

    /// Returns one of the choices.
    pub fn choose<'t, T: ?Sized>(&mut self, choices: &[&'t T]) -> &'t T {
        choices[self.below(choices.len())]
    }

    /// Returns `length` characters of an alphabet.
    pub fn characters(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }

    /// Fills a template. `{x12}` stands for 12 random characters of the class `x`:
    ///
    /// `a` lower case and digits, `A` letters and digits, `u` upper case and digits, `h` hexadecimal, `H` upper-case
    /// hexadecimal, `d` digits, `w` letters, digits, `_` and `-`, `b` Base64, `l` letters, `x` Base32, `U` a UUID, `p` a
    /// password that a person could choose, `q` the alphabet of Bech32, `s` letters, digits and symbols. `{b12-18}` has a random length.
    #[must_use]
    pub fn fill_template(&mut self, template: &str) -> String {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('{') {
            let (field, after) = behind.split_once('}').unwrap_or((behind, ""));
            text.push_str(before);
            text.push_str(&self.fill_field(field));
            rest = after;
        }
        text + rest
    }

    /// Returns the characters of a field of a template.
    fn fill_field(&mut self, field: &str) -> String {
        let (class, length) = field.split_at(1);
        let length = match length.split_once('-') {
            Some((from, to)) => {
                let (from, to): (usize, usize) = (from.parse().unwrap_or(1), to.parse().unwrap_or(1));
                from + self.below(to - from + 1)
            }
            None => length.parse().unwrap_or(1),
        };
        let alphabet = match class {
            "a" => format!("{LOWER}{DIGITS}"),
            "u" => format!("{UPPER}{DIGITS}"),
            "h" => format!("{DIGITS}abcdef"),
            "H" => format!("{DIGITS}ABCDEF"),
            "d" => DIGITS.to_owned(),
            "w" => format!("{LOWER}{UPPER}{DIGITS}_-"),
            "b" => format!("{LOWER}{UPPER}{DIGITS}+/"),
            "l" => format!("{LOWER}{UPPER}"),
            "x" => format!("{UPPER}234567"),
            "q" => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L".to_owned(),
            "s" => format!("{LOWER}{UPPER}{DIGITS}!#%^*_-+="),
            "U" => return self.uuid(),
            "p" => return self.password(),
            _ => format!("{LOWER}{UPPER}{DIGITS}"),
        };
        self.characters(&alphabet, length)
    }

    /// Returns a UUID in lower case.
    #[must_use]
    pub fn uuid(&mut self) -> String {
        self.fill_template("{h8}-{h4}-4{h3}-a{h3}-{h12}")
    }

    /// Returns a password that a person could choose: words with a number or a symbol, or random characters.
    #[must_use]
    pub fn password(&mut self) -> String {
        const WORDS: [&str; 12] = [
            "hunter",
            "Sommer",
            "dragon",
            "Tr0ub4dor",
            "correct",
            "monkey",
            "Winter",
            "letmein",
            "blue",
            "Kaffee",
            "summit",
            "orbit",
        ];
        let word = self.choose(&WORDS);
        let number = self.below(9_000) + 1_000;
        match self.below(5) {
            0 => format!("{word}{number}"),
            1 => format!("{word}{number}!"),
            2 => format!("{word}#{number}"),
            3 => self.characters("abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789", 14) + "7",
            _ => format!("{word}{number}{}", self.choose(&WORDS)),
        }
    }
}
