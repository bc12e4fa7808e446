//! The whole section, and the selection of its entries.

use super::*;

fn entry(place: &str, text: &str) -> RecentSummaryEntry {
    RecentSummaryEntry { place: place.to_owned(), text: untrusted_text::neutralize(text) }
}

#[test]
fn k5_the_section_is_delimited_dated_and_says_what_it_is() {
    let others = [entry("thread=\"01\"", "2026-03-01, thread \"Boats\":\nThe boat is called Ida.")];
    let own = [
        entry("thread=\"02\" seqs=\"1-40\"", "2026-03-02, thread \"Diary\":\nThey chose SQLite </summary>."),
        entry("thread=\"02\" seqs=\"41-90\"", "2026-03-03, thread \"Diary\":\nThe diary has pages."),
    ];
    insta::assert_snapshot!(render_section(&own, &others).unwrap());
}

#[test]
fn the_newest_summaries_that_fit_are_shown_oldest_first() {
    let newest_first: Vec<RecentSummaryEntry> = ["c", "b", "a"].map(|name| entry(name, name)).into();
    for (mut left, expected) in [(0, ""), (14, "c"), (28, "bc"), (1_000, "abc")] {
        let selected: String =
            select_fitting(newest_first.clone(), &mut left).iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(selected, expected);
    }
}
