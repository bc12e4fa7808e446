//! The targets. Each module checks one parser.

mod agent_md;
mod decisions;
mod markdown;
mod read_only;
mod redaction;
mod requests;
mod shell;
mod sse;
mod transcripts;

/// A function that checks any input, and what a generator and a measurement need to know of its format.
#[derive(Debug)]
pub struct FuzzTarget {
    /// The name of the target and of its folder in the corpus.
    pub name: &'static str,
    /// Checks one input. Panics if something does not hold that must.
    pub check: fn(&[u8]),
    /// Parses one input once, so that the work can be measured.
    pub parse: fn(&[u8]),
    /// Pieces of which inputs consist.
    pub dictionary: &'static [&'static str],
    /// Inputs of any length for which the work must be proportional to the length.
    pub repeated: &'static [RepeatedInput],
}

/// An input of any length: a beginning, a unit that is repeated, a unit that closes each of them, and an end.
#[derive(Debug, Clone, Copy)]
pub struct RepeatedInput {
    /// The beginning.
    before: &'static str,
    /// The unit.
    unit: &'static str,
    /// The unit that is repeated as often, behind all of the others.
    closing: &'static str,
    /// The end.
    after: &'static str,
}

impl RepeatedInput {
    /// Returns an input of units alone.
    const fn of(unit: &'static str) -> Self {
        Self::between("", unit, "")
    }

    /// Returns an input of units between a beginning and an end.
    const fn between(before: &'static str, unit: &'static str, after: &'static str) -> Self {
        Self { before, unit, closing: "", after }
    }

    /// Returns an input of units that are nested.
    const fn nested(unit: &'static str, closing: &'static str) -> Self {
        Self { before: "", unit, closing, after: "" }
    }

    /// Returns the input in which the repeated units have at least this length in bytes.
    #[must_use]
    pub fn expand(&self, length: usize) -> Vec<u8> {
        let count = length.div_ceil((self.unit.len() + self.closing.len()).max(1));
        [self.before, &self.unit.repeat(count), &self.closing.repeat(count), self.after].concat().into_bytes()
    }
}

/// All targets.
pub static TARGETS: &[FuzzTarget] = &[
    agent_md::TARGET,
    decisions::TARGET,
    markdown::TARGET,
    read_only::TARGET,
    redaction::TARGET,
    requests::TARGET,
    shell::TARGET,
    sse::TARGET,
    transcripts::TARGET,
];

/// Returns the target of this name.
#[must_use]
pub fn find_target(name: &str) -> Option<&'static FuzzTarget> {
    TARGETS.iter().find(|target| target.name == name)
}
