//! Parses the dates that a question names. The journal's index raises the score of a message for each part of a
//! date that its own date matches, because the question is probably about messages of that time.
//!
//! Relative dates such as "yesterday" are not parsed, because the time of the question is not known here.

use journal::PartialDate;

/// The months in English.
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Month names that are also other words. They name a month only next to a number or after one of [`LEAD_WORDS`].
const AMBIGUOUS_MONTHS: [&str; 5] = ["march", "mar", "may", "dec", "sep"];
/// Words that can precede a month or a year.
const LEAD_WORDS: [&str; 17] = [
    "in", "on", "of", "since", "until", "till", "by", "during", "early", "mid", "late", "last", "from",
    "before", "after", "around", "between",
];
/// Length in characters of the short form of a month's name.
const MONTH_CHARS: usize = 3;
/// The one short form that is longer.
const SEPTEMBER: &str = "sept";

/// Returns the dates that `text` names: first the dates with a month, in order, then years alone. Parts of a date
/// that the text does not name are `None`.
///
/// Known forms are `2026-03-14`, `2026-03`, a month with or without a day and a year, and a year after a word such as
/// "in".
pub(crate) fn parse_dates(text: &str) -> Vec<PartialDate> {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let word = |index: Option<usize>| index.and_then(|index| words.get(index)).copied().unwrap_or_default();
    let mut dates = Vec::new();
    // Indexes of words that are the year of a date, so that they do not count again as a year alone.
    let mut used_years = Vec::new();
    for index in 0..words.len() {
        let (before, after) = (index.checked_sub(1), Some(index + 1));
        if let Some(date) = parse_iso_date(&words[index..]) {
            dates.push(date);
            used_years.push(index);
        } else if let Some(month) = parse_month(words[index], word(before), word(after)) {
            let second_after = Some(index + 2);
            let day = [before, after].into_iter().find_map(|index| parse_day(word(index)));
            let year_index = [after, second_after, before]
                .into_iter()
                .find(|index| parse_year(word(*index)).is_some())
                .flatten();
            used_years.extend(year_index);
            dates.push(PartialDate { year: parse_year(word(year_index)), month: Some(month), day });
        }
    }
    for index in 1..words.len() {
        if !used_years.contains(&index) && LEAD_WORDS.contains(&words[index - 1]) {
            dates.extend(parse_year(words[index]).map(|year| PartialDate {
                year: Some(year),
                month: None,
                day: None,
            }));
        }
    }
    dates
}

/// Returns the ISO date that the words begin with, such as `2026 03 14`, or `2026 03` without a day.
fn parse_iso_date(words: &[&str]) -> Option<PartialDate> {
    let [first, second, others @ ..] = words else { return None };
    let month = Some(*second)
        .filter(|second| second.len() == 2)?
        .parse()
        .ok()
        .filter(|month| (1..=12).contains(month))?;
    let day = others.first().filter(|day| day.len() == 2).and_then(|word| parse_day(word));
    Some(PartialDate { year: Some(parse_year(first)?), month: Some(month), day })
}

/// Returns the number of the month, 1 to 12, that `word` names. The words before and after it decide about ambiguous
/// names.
fn parse_month(word: &str, before: &str, after: &str) -> Option<i8> {
    let is_short = |name: &str| word.len() == MONTH_CHARS || word == SEPTEMBER && name.starts_with(SEPTEMBER);
    let is_form = |name: &str| name == word || is_short(name) && name.starts_with(word);
    let number = (1..).zip(MONTHS).find(|(_, name)| is_form(name))?.0;
    let is_certain = !AMBIGUOUS_MONTHS.contains(&word)
        || LEAD_WORDS.contains(&before)
        || is_number(before)
        || is_number(after);
    is_certain.then_some(number)
}

/// Returns whether the word can be a day or a year.
fn is_number(word: &str) -> bool {
    parse_day(word).is_some() || parse_year(word).is_some()
}

/// Parses a year of four digits, from 1970 to 2100.
fn parse_year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1970..=2100).contains(year))
}

/// Parses a day of a month, with or without an ordinal ending such as `th`.
fn parse_day(word: &str) -> Option<i8> {
    let digits =
        ["st", "nd", "rd", "th"].into_iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the dates of a text, written as `year-month-day` with `_` for a missing part.
    fn check(text: &str, expected: &[&str]) {
        let part = |part: Option<i16>| part.map_or("_".to_owned(), |part| part.to_string());
        let render = |date: &PartialDate| {
            format!(
                "{}-{}-{}",
                part(date.year),
                part(date.month.map(i16::from)),
                part(date.day.map(i16::from))
            )
        };
        assert_eq!(parse_dates(text).iter().map(render).collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn a_question_names_its_dates() {
        check("what did we decide about the port in March?", &["_-3-_"]);
        check("What happened on 8 May, 2023?", &["2023-5-8"]);
        check("on May 8th 2023 and in July", &["2023-5-8", "_-7-_"]);
        check("the outage of 2026-03-14", &["2026-3-14"]);
        check("log of 2026-03", &["2026-3-_"]);
        check("what did we do in 2022", &["2022-_-_"]);
        check("Sept 2024 release", &["2024-9-_"]);
    }

    #[test]
    fn a_word_that_only_looks_like_a_date_is_none() {
        check("may I restart the worker?", &[]);
        check("march on", &[]);
        check("the port 2022", &[]);
        check("dec ebx", &[]);
        check("", &[]);
        check("section 12 of chapter 31", &[]);
    }
}
