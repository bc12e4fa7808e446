//! Random inputs without feedback: changed files of a corpus, and sequences of pieces that the formats of a target consist
//! of. A seed always gives the same inputs. Which code an input reaches is not measured; libFuzzer does that.

use std::ops::Range;

use test_secrets::RandomSource;

use crate::corpus::CorpusFile;

/// The maximum length of a generated input, in bytes.
pub const INPUT_BYTES_MAX: usize = 4096;

/// The maximum number of changes of one input.
const CHANGES_MAX: usize = 8;

/// The maximum number of pieces of one input.
const PIECES_MAX: usize = 40;

/// Bytes that are special in many formats.
const SPECIAL_BYTES: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b" ",
    b"\\",
    b"\"",
    b"'",
    b"\x1b[31m",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    "\u{85}".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{200b}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{2028}".as_bytes(),
    "\u{6f22}".as_bytes(),
    "\u{1f468}\u{200d}\u{1f469}".as_bytes(),
    "e\u{301}".as_bytes(),
];

/// A source of inputs for one target.
#[derive(Debug)]
pub struct InputGenerator<'c> {
    random: RandomSource,
    corpus: &'c [CorpusFile],
    dictionary: &'static [&'static str],
}

impl<'c> InputGenerator<'c> {
    /// Returns a generator that changes the files of `corpus` and joins pieces of `dictionary`.
    #[must_use]
    pub const fn new(seed: u64, corpus: &'c [CorpusFile], dictionary: &'static [&'static str]) -> Self {
        Self { random: RandomSource::new(seed), corpus, dictionary }
    }

    /// Returns the next input, of at most [`INPUT_BYTES_MAX`] bytes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = match self.random.below(4) {
            0 => self.join_pieces(),
            _ => self.random_file().to_vec(),
        };
        for _ in 0..self.random.below(CHANGES_MAX + 1) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    /// Returns a sequence of pieces.
    fn join_pieces(&mut self) -> Vec<u8> {
        let count = self.random.below(PIECES_MAX + 1);
        (0..count).flat_map(|_| self.random_piece().to_vec()).collect()
    }

    /// Returns a piece of the dictionary or special bytes.
    fn random_piece(&mut self) -> &'static [u8] {
        if self.dictionary.is_empty() || self.random.below(8) == 0 {
            return SPECIAL_BYTES[self.random.below(SPECIAL_BYTES.len())];
        }
        self.dictionary[self.random.below(self.dictionary.len())].as_bytes()
    }

    /// Returns a file of the corpus; nothing if the corpus is empty.
    fn random_file(&mut self) -> &'c [u8] {
        match self.corpus {
            [] => &[],
            files => &files[self.random.below(files.len())].bytes,
        }
    }

    /// Makes one change.
    fn change(&mut self, input: &mut Vec<u8>) {
        let range = self.random_range(input.len());
        match self.random.below(8) {
            0 => drop(input.drain(range)),
            1 => {
                let copy = input[range.clone()].to_vec();
                input.splice(range.end..range.end, copy);
            }
            2 => input.truncate(range.start),
            3 => {
                let tail = self.random_file();
                let from = self.random.below(tail.len() + 1);
                input.truncate(range.start);
                input.extend_from_slice(&tail[from..]);
            }
            4 => self.change_line(input),
            5 => {
                if let Some(byte) = input.get_mut(range.start) {
                    *byte ^= 1 << self.random.below(8);
                }
            }
            _ => {
                let piece = self.random_piece();
                input.splice(range.start..range.start, piece.iter().copied());
            }
        }
    }

    /// Removes a line, repeats it, or exchanges it for the first one.
    fn change_line(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
        if lines.is_empty() {
            return;
        }
        let index = self.random.below(lines.len());
        match self.random.below(3) {
            0 => drop(lines.remove(index)),
            1 => lines.insert(index, lines[index]),
            _ => lines.swap(0, index),
        }
        *input = lines.concat();
    }

    /// Returns a range of an input of that length, which is rarely long.
    fn random_range(&mut self, length: usize) -> Range<usize> {
        let start = self.random.below(length + 1);
        let longest = if self.random.below(4) == 0 { length } else { length.min(16) };
        let end = start + self.random.below(longest + 1);
        start..end.min(length)
    }
}
