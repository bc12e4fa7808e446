//! Numbers that sentences state for something, such as 8080 for a port, and whether a later sentence changes one of them: "The
//! server listens on port 9090 now."

/// Lowercase words that say that something is different from before.
const CHANGE_WORDS: &[&str] = &[
    "now",
    "instead",
    "change",
    "changed",
    "changes",
    "switch",
    "switched",
    "move",
    "moved",
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
    "update",
    "updated",
    "correction",
    "rather",
    "may",
    "no",
    "not",
    "sorry",
    "actually",
];
/// Lowercase words between the name of something and its number.
const LINKS: &[&str] = &[
    "of", "to", "is", "be", "at", "on", "the", "a", "an", "with", "must", "should", "was", "are", "number",
    "set", "only", "about", "default", "defaults", "and", "equals", "than", "more", "less", "most", "least",
    "up", "maximum", "minimum", "max", "min",
];
/// Lowercase words before a number that name nothing that it could belong to.
const NO_SUBJECTS: &[&str] =
    &["never", "always", "remember", "use", "go", "keep", "may", "it", "we", "you", "i"];
/// Lowercase words before a number that no longer applies.
const FORMER_LINKS: &[&str] = &["from", "not"];
/// Units of numbers, in the singular.
const UNITS: &[&str] = &[
    "second",
    "sec",
    "s",
    "ms",
    "millisecond",
    "minute",
    "min",
    "hour",
    "h",
    "day",
    "week",
    "percent",
    "%",
    "byte",
    "kb",
    "mb",
    "gb",
    "kib",
    "mib",
    "gib",
    "attempt",
    "worker",
    "thread",
    "connection",
    "row",
    "line",
    "token",
    "character",
    "space",
    "column",
    "item",
    "message",
    "replica",
];
/// Maximum words between the name of something and its number.
const LINKS_MAX: usize = 4;

/// A number that a sentence states.
#[derive(Debug, PartialEq, Eq)]
struct StatedValue {
    /// The lowercase noun that the number belongs to; empty if there is none.
    subject: String,
    /// The digits.
    number: String,
    /// The word that follows, such as a unit, in the singular; empty if there is none.
    unit: String,
    /// True if the sentence says that the number applied before.
    is_former: bool,
}

impl StatedValue {
    /// Returns whether both are values of the same thing.
    fn is_of_same_thing(&self, other: &Self) -> bool {
        let is_same_unit = self.unit == other.unit;
        match (self.subject.is_empty(), other.subject.is_empty()) {
            (false, false) => {
                self.subject == other.subject
                    && (is_same_unit || self.unit.is_empty() || other.unit.is_empty())
            }
            // "No, 25 seconds" names nothing, so it is about whatever was given in seconds.
            (true, _) => is_same_unit && UNITS.contains(&self.unit.as_str()),
            (false, true) => false,
        }
    }
}

/// Returns whether the later sentence gives a number that the earlier one states another value: it says that something has
/// changed, and does not say that the earlier number still applies.
pub fn changes_stated_value(earlier: &str, later: &str) -> bool {
    let has_digit = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    if !has_digit(earlier) || !has_digit(later) {
        return false;
    }
    let words = lowercase_words(later);
    if !words.iter().any(|word| CHANGE_WORDS.contains(&word.as_str())) {
        return false;
    }
    let (before, after) = (stated_values(&lowercase_words(earlier)), stated_values(&words));
    before.iter().filter(|value| !value.is_former).any(|old| {
        let same: Vec<&StatedValue> = after.iter().filter(|new| new.is_of_same_thing(old)).collect();
        let is_kept = same.iter().any(|new| new.number == old.number && !new.is_former);
        !is_kept && same.iter().any(|new| new.number != old.number && !new.is_former)
    })
}

/// Returns the words of a sentence in lowercase; a number is a word of its own, and so is the unit that it ends with.
fn lowercase_words(sentence: &str) -> Vec<String> {
    let is_separator = |c: char| c.is_whitespace() || "()[]{}\"`'*,;:=!?“”’".contains(c);
    let mut words = Vec::new();
    for word in sentence.to_lowercase().split(is_separator) {
        let word = word.trim_matches(['.', '-']);
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(word.len());
        let (number, rest) = word.split_at(digits);
        if !number.is_empty() {
            words.push(number.to_owned());
        }
        if !rest.is_empty() {
            words.push(rest.to_owned());
        }
    }
    words
}

/// Returns the numbers that the words of a sentence state for something.
fn stated_values(words: &[String]) -> Vec<StatedValue> {
    let is_number = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
    let mut values = Vec::new();
    for (index, number) in words.iter().enumerate().filter(|(_, word)| is_number(word)) {
        let before = words[..index].iter().rev();
        let links = before.clone().take(LINKS_MAX).take_while(|word| LINKS.contains(&word.as_str())).count();
        let subject = words[..index].iter().rev().nth(links);
        let subject = subject.filter(|word| !is_number(word) && word.chars().all(char::is_alphabetic));
        let is_former = before.clone().next().is_some_and(|word| FORMER_LINKS.contains(&word.as_str()));
        let subject = match is_former {
            // "the port from 8080 to 9090"
            true => words[..index].iter().rev().nth(1).filter(|word| !is_number(word)),
            false => subject.filter(|word| {
                let nameless = [CHANGE_WORDS, NO_SUBJECTS, UNITS];
                !nameless.iter().any(|words| words.contains(&word.as_str()))
            }),
        };
        let is_noun = |word: &&String| {
            let word = word.as_str();
            (word == "%" || word.chars().all(char::is_alphabetic))
                && !LINKS.contains(&word)
                && !CHANGE_WORDS.contains(&word)
        };
        let unit = words.get(index + 1).filter(is_noun).map(|word| word.as_str());
        let unit = unit.map(|word| word.strip_suffix('s').filter(|word| !word.is_empty()).unwrap_or(word));
        let unit = unit.unwrap_or_default();
        values.push(StatedValue {
            subject: subject.cloned().unwrap_or_default(),
            number: number.clone(),
            unit: unit.to_owned(),
            is_former,
        });
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
            ("Use 4 workers.", "Use 8 workers instead.", true),
            ("Remember: never more than 60 s.", "I was wrong, you may go up to 120 s.", true),
            ("Never sleep more than 5 s.", "No, it took 12 s.", false),
            ("Retry 3 times.", "No, the run used 7 workers.", false),
            ("The server listens on port 8080.", "The metrics listen on port 9090.", false),
            ("The API is on port 8080.", "Port 8080 serves the API, and port 9090 now the metrics.", false),
            ("The server listens on port 8080.", "The server now uses 4 workers.", false),
            ("Always use a timeout of 10 seconds.", "The timeout is now configurable.", false),
            ("Keep lines below 100 characters.", "No, 3 tests fail.", false),
            ("Use Rust 1.95.", "Now read line 12.", false),
            ("I found 3 errors in the parser.", "I now found 5 files in the cache.", false),
        ] {
            assert_eq!(changes_stated_value(earlier, later), expected, "{earlier} / {later}");
        }
    }
}
