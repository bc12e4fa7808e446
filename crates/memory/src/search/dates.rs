//! The dates that a question names: what was said then is likelier to be meant. Which time is now is not known here, so
//! that "yesterday" names nothing.

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
/// Names of months that are other words too, and name one only beside a number or one of [`LEADS`].
const AMBIGUOUS_MONTHS: [&str; 5] = ["march", "mar", "may", "dec", "sep"];
/// Stand before a month or a year.
const LEAD_WORDS: [&str; 17] = [
    "in", "on", "of", "since", "until", "till", "by", "during", "early", "mid", "late", "last", "from",
    "before", "after", "around", "between",
];
/// The length of the short form of a month's name, …
const MONTH_CHARS: usize = 3;
/// … and the one that is longer.
const SEPTEMBER: &str = "sept";

/// Returns the dates that `text` names, in order.
pub(super) fn parse_dates(text: &str) -> Vec<PartialDate> {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let word = |at: Option<usize>| at.and_then(|at| words.get(at)).copied().unwrap_or_default();
    let mut dates = Vec::new();
    let mut years_used = Vec::new();
    for at in 0..words.len() {
        let (before, after) = (at.checked_sub(1), Some(at + 1));
        if let Some(date) = parse_iso_date(&words[at..]) {
            dates.push(date);
            years_used.push(at);
        } else if let Some(month) = parse_month(words[at], word(before), word(after)) {
            let second = Some(at + 2);
            let day = [before, after].into_iter().find_map(|at| parse_day(word(at)));
            let year_at =
                [after, second, before].into_iter().find(|at| parse_year(word(*at)).is_some()).flatten();
            years_used.extend(year_at);
            dates.push(PartialDate { year: parse_year(word(year_at)), month: Some(month), day });
        }
    }
    for at in 1..words.len() {
        if !years_used.contains(&at) && LEAD_WORDS.contains(&words[at - 1]) {
            dates.extend(parse_year(words[at]).map(|year| PartialDate {
                year: Some(year),
                month: None,
                day: None,
            }));
        }
    }
    dates
}

/// Returns the date that the words begin with, such as `2026 03 14`.
fn parse_iso_date(words: &[&str]) -> Option<PartialDate> {
    let [first, second, rest @ ..] = words else { return None };
    let month = Some(*second)
        .filter(|second| second.len() == 2)?
        .parse()
        .ok()
        .filter(|month| (1..=12).contains(month))?;
    let day = rest.first().filter(|day| day.len() == 2).and_then(|word| parse_day(word));
    Some(PartialDate { year: Some(parse_year(first)?), month: Some(month), day })
}

/// Returns the month that a word names between those two.
fn parse_month(word: &str, before: &str, after: &str) -> Option<i8> {
    let is_short = |name: &str| word.len() == MONTH_CHARS || word == SEPTEMBER && name.starts_with(SEPTEMBER);
    let is_form = |name: &str| name == word || is_short(name) && name.starts_with(word);
    let number = (1..).zip(MONTHS).find(|(_, name)| is_form(name))?.0;
    let is_sure = !AMBIGUOUS_MONTHS.contains(&word)
        || LEAD_WORDS.contains(&before)
        || is_number(before)
        || is_number(after);
    is_sure.then_some(number)
}

fn is_number(word: &str) -> bool {
    parse_day(word).is_some() || parse_year(word).is_some()
}

fn parse_year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1970..=2100).contains(year))
}

fn parse_day(word: &str) -> Option<i8> {
    let digits =
        ["st", "nd", "rd", "th"].into_iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dates as `year-month-day`, with a dash for what is not named.
    fn check(text: &str, expected: &[&str]) {
        let part = |part: Option<i16>| part.map_or("_".to_owned(), |part| part.to_string());
        let told = |date: &PartialDate| {
            format!(
                "{}-{}-{}",
                part(date.year),
                part(date.month.map(i16::from)),
                part(date.day.map(i16::from))
            )
        };
        assert_eq!(parse_dates(text).iter().map(told).collect::<Vec<_>>(), expected, "{text:?}");
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
