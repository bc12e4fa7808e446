//! Numbers that sentences state for something, such as 8080 for a port, and whether a later sentence changes one of them: "The
//! server listens on port 9090 now."

/// Lowercase words that say that something is different from before.
const CHANGE_WORDS: &[&str] = &[
    "now",
    "instead",
    "change",
    "changed",
    "switch",
    "switched",
    "raise",
    "raised",
    "increase",
    "increased",
    "bump",
    "bumped",
    "lower",
    "lowered",
    "reduce",
    "reduced",
    "set",
    "correction",
    "rather",
    "actually",
    "misspoke",
];
/// Lowercase words with which a sentence corrects the message before it, at its beginning.
const CORRECTIONS: &[&str] = &["no", "nope", "sorry"];
/// Lowercase nouns of which a thing has one value. Others, such as "step" or "version", number different things.
const VALUE_NOUNS: &[&str] = &[
    "port",
    "timeout",
    "limit",
    "delay",
    "interval",
    "retry",
    "attempt",
    "size",
    "ttl",
    "budget",
    "width",
    "height",
    "margin",
    "threshold",
    "rate",
    "pause",
    "period",
    "depth",
    "capacity",
    "quota",
    "maximum",
    "minimum",
    "max",
    "min",
    "concurrency",
    "parallelism",
    "precision",
    "tolerance",
    "backoff",
];
/// Lowercase words between the name of something and its number.
const LINKS: &[&str] = &[
    "of", "to", "is", "be", "at", "on", "the", "a", "an", "with", "must", "should", "was", "are", "number",
    "set", "only", "about", "default", "defaults", "equals", "than", "more", "less", "most", "least", "up",
];
/// Lowercase words before a number that no longer applies.
const FORMER_LINKS: &[&str] = &["from", "not"];
/// Units of numbers, in the singular.
const UNITS: &[&str] = &[
    "second", "sec", "s", "ms", "minute", "min", "hour", "h", "day", "percent", "%", "byte", "kb", "mb",
    "gb", "kib", "mib", "gib",
];
/// Maximum words between the name of something and its number.
const LINKS_MAX: usize = 4;
/// Maximum words of a correction that gives only a number and its unit, such as "No, 25 seconds".
const BARE_WORDS_MAX: usize = 4;

/// A number that a sentence states.
#[derive(Debug, PartialEq, Eq)]
struct StatedValue {
    /// The noun that the number belongs to; `None` if it is none of [`VALUE_NOUNS`].
    subject: Option<String>,
    /// The digits.
    number: String,
    /// The unit in the singular; empty if there is none.
    unit: String,
    /// True if the sentence says that the number applied before.
    is_former: bool,
}

/// A sentence that says that something has changed, with the numbers that it states.
#[derive(Debug)]
pub struct ValueChange {
    /// The numbers.
    values: Vec<StatedValue>,
    /// True for a correction that gives only a number and its unit. It names nothing, so it is about whatever was given in that
    /// unit.
    is_bare: bool,
}

impl ValueChange {
    /// Reads a sentence; `None` if it states no number or no change.
    pub fn read(sentence: &str) -> Option<Self> {
        if !sentence.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let words = lowercase_words(sentence);
        let first = words.iter().find(|word| !matches!(word.as_str(), "and" | "but" | "oh"));
        let is_correction = first.is_some_and(|word| CORRECTIONS.contains(&word.as_str()));
        let is_change = is_correction || words.iter().any(|word| CHANGE_WORDS.contains(&word.as_str()));
        let is_bare = is_correction && words.len() <= BARE_WORDS_MAX;
        is_change.then(|| Self { values: stated_values(&words), is_bare })
    }

    /// Returns whether the sentence gives a number that the earlier one states another value, and does not say that the earlier
    /// number still applies.
    pub fn changes(&self, earlier: &str) -> bool {
        if !earlier.bytes().any(|byte| byte.is_ascii_digit()) {
            return false;
        }
        let before = stated_values(&lowercase_words(earlier));
        before.iter().filter(|value| !value.is_former && value.subject.is_some()).any(|old| {
            let is_same = |new: &&StatedValue| {
                let is_unit_known = !old.unit.is_empty() && !new.unit.is_empty();
                let is_same_subject = new.subject == old.subject && (!is_unit_known || new.unit == old.unit);
                is_same_subject || self.is_bare && is_unit_known && new.unit == old.unit
            };
            let same: Vec<&StatedValue> = self.values.iter().filter(is_same).collect();
            let is_kept = same.iter().any(|new| new.number == old.number && !new.is_former);
            !is_kept && same.iter().any(|new| new.number != old.number && !new.is_former)
        })
    }
}

/// Returns the words of a sentence in lowercase; a number is a word of its own, and so is the unit that it ends with.
fn lowercase_words(sentence: &str) -> Vec<String> {
    let is_separator = |c: char| c.is_whitespace() || "()[]{}\"`'*,;:=!?“”’".contains(c);
    let mut words = Vec::new();
    for word in sentence.to_lowercase().split(is_separator) {
        let word = word.trim_matches(['.', '-']);
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(word.len());
        let (number, rest) = word.split_at(digits);
        words.extend([number, rest].into_iter().filter(|part| !part.is_empty()).map(str::to_owned));
    }
    words
}

/// Returns the numbers that the words of a sentence state for something.
fn stated_values(words: &[String]) -> Vec<StatedValue> {
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let singular = |word: &str| match word {
        "retries" => "retry".to_owned(),
        _ => word.strip_suffix('s').filter(|stem| stem.len() > 2).unwrap_or(word).to_owned(),
    };
    let mut values = Vec::new();
    for (index, number) in words.iter().enumerate().filter(|(_, word)| is_number(word)) {
        let mut before = words[..index].iter().rev().map(String::as_str);
        let is_former = before.clone().next().is_some_and(|word| FORMER_LINKS.contains(&word));
        // "the timeout from 10 s to 25 s": a number and its unit stand between the noun and the second number.
        let is_between = |word: &&str| {
            LINKS.contains(word) || FORMER_LINKS.contains(word) || UNITS.contains(word) || is_number(word)
        };
        let links = before.clone().take(LINKS_MAX + 2).take_while(is_between).count();
        let behind = words.get(index + 1).map(|word| singular(word)).unwrap_or_default();
        let unit = if UNITS.contains(&behind.as_str()) { behind.clone() } else { String::new() };
        // "9090, 8080 is taken": the second number belongs to nothing before it.
        let follows_number = before.clone().next().is_some_and(is_number);
        let known = |word: &str| VALUE_NOUNS.contains(&word).then(|| word.to_owned());
        let noun = before.nth(links).filter(|_| !follows_number).map(singular);
        let subject = noun.and_then(|word| known(&word)).or_else(|| known(&behind));
        values.push(StatedValue { subject, number: number.clone(), unit, is_former });
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_sentence_changes_the_value_of_the_same_thing() {
        for (earlier, later, expected) in [
            ("It must listen on port 8080.", "Change the port to 9090, 8080 is taken.", true),
            ("The server listens on port 8080.", "The server now listens on port 9090.", true),
            ("Always use a timeout of 10 seconds.", "And no, the timeout is 25 seconds.", true),
            ("Always use a timeout of 10 seconds.", "No, 25 seconds.", true),
            ("The timeout is 10s.", "I raised the timeout from 10s to 25s.", true),
            ("Use 3 retries.", "Use 5 retries instead.", true),
            ("The server listens on port 8080.", "The metrics listen on port 9090.", false),
            ("The API is on port 8080.", "Port 8080 serves the API, and port 9090 now the metrics.", false),
            ("The server listens on port 8080.", "The server now uses 4 workers.", false),
            ("Always use a timeout of 10 seconds.", "The timeout is now configurable.", false),
            ("Always use a timeout of 10 seconds.", "No, 25 seconds passed and it still hangs.", false),
            ("Keep lines below 100 characters.", "No, 3 tests fail.", false),
            ("Use Rust 1.95.", "Now read line 12.", false),
            ("Never touch migration 12.", "Now write migration 13.", false),
            ("Always use Node 20.", "Node 18 is not installed here.", false),
            ("Functions have at most 70 lines.", "Files have no more than 600 lines now.", false),
            ("Issue 24 is fixed.", "Issue 25 is not fixed now.", false),
            ("I found 3 errors in the parser.", "I now found 5 files in the cache.", false),
        ] {
            let change = ValueChange::read(later);
            assert_eq!(change.is_some_and(|change| change.changes(earlier)), expected, "{earlier} / {later}");
        }
    }
}
