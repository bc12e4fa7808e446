//! The history of a thread that was condensed: pages, markers opened and closed, and what is written to a file.

use serde_json::json;

use super::{GOAL, condensing, long_thread};
use crate::sandbox::Sandbox;

fn condensed() -> Sandbox {
    let server = condensing();
    let sandbox = long_thread(Sandbox::new().with_model(&server), 12);
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "16"]).code, 0);
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "4"]).code, 0);
    sandbox
}

#[test]
fn c6_two_compactions_are_two_cards_in_order() {
    let sandbox = condensed();
    let told = sandbox.run(&["history", "last", "--limit", "500"]).stdout;
    let first = told.find("── 8 messages condensed · #1–#8 · ").unwrap();
    let second = told.find("── 12 messages condensed · #9–#20 · ").unwrap();
    assert!(told.starts_with("you #1 ") && first < second, "{told}");
    assert_eq!(told.matches(" messages condensed · ").count(), 2);
    assert!(!told.contains(GOAL), "they are closed: {told}");
}

#[test]
fn m10_a_marker_opens_to_its_summary_and_its_originals_across_pages() {
    let sandbox = condensed();
    let page = sandbox.json(&["history", "last", "--markers", "--json"]);
    let (first, second) = (page["entries"][0]["seq"].clone(), page["entries"][1]["seq"].clone());
    // A page that ends long before the markers.
    let told = sandbox.run(&["history", "last", "--expand", "--after", "6", "--limit", "4"]);
    let condensed_in = |seq: u64| {
        let line = told.stdout.lines().find(|line| line.contains(&format!(" #{seq} "))).unwrap();
        line.rsplit_once(" · condensed in #").map(|(_, marker)| marker.to_owned())
    };
    for (seq, marker) in [(7, &first), (8, &first), (9, &second), (10, &second)] {
        assert_eq!(condensed_in(seq), Some(marker.to_string()), "#{seq}: {told:?}");
    }
    assert!(
        told.stderr.contains("--expand --before 7") && told.stderr.contains("--expand --after 10"),
        "{told:?}"
    );
    let json = sandbox.json(&["history", "last", "--expand", "--after", "8", "--limit", "4", "--json"]);
    assert_eq!(json["markers"], json!([page["entries"][1]]), "only the marker they were condensed in");
    // The newest page: what was kept, and the markers opened.
    let told = sandbox.run(&["history", "last", "--expand", "--limit", "6"]);
    let originals = format!("Originals of marker #{second}: `segue history last --after 8 --before 21`");
    assert!(told.stderr.contains(&originals), "{told:?}");
    let told = told.stdout;
    assert_eq!(told.matches(GOAL).count(), 2, "{told}");
    assert!(!told.contains("condensed in #"), "what was kept is not condensed: {told}");
    assert!(told.lines().any(|line| line.starts_with("│ ") && line.contains(GOAL)), "{told}");
    // One that was taken back covers nothing.
    assert_eq!(sandbox.run(&["uncompact", "last"]).code, 0);
    let told = sandbox.run(&["history", "last", "--expand", "--after", "6", "--limit", "4"]).stdout;
    assert_eq!(told.matches(&format!("condensed in #{first}")).count(), 2, "{told}");
    assert!(!told.contains(&format!("condensed in #{second}")), "{told}");
}

#[test]
fn a10_pages_of_markers_meet() {
    let sandbox = condensed();
    let newest = sandbox.json(&["history", "last", "--markers", "--limit", "1", "--json"]);
    assert_eq!((&newest["has_more_before"], &newest["entries"][0]["first_seq"]), (&json!(true), &json!(9)));
    let before = newest["first_seq"].to_string();
    let older =
        sandbox.json(&["history", "last", "--markers", "--limit", "1", "--before", &before, "--json"]);
    assert_eq!((&older["has_more_before"], &older["entries"][0]["first_seq"]), (&json!(false), &json!(1)));
    let after = older["last_seq"].to_string();
    let again = sandbox.json(&["history", "last", "--markers", "--limit", "1", "--after", &after, "--json"]);
    assert_eq!(again["entries"], newest["entries"]);
}

#[test]
fn c6_an_export_holds_the_markers() {
    let sandbox = condensed();
    let markdown = sandbox.run(&["threads", "export", "last"]).stdout;
    assert!(
        markdown.contains("8 messages condensed") && markdown.contains("12 messages condensed"),
        "{markdown}"
    );
    assert!(markdown.contains("Answer 0: ") && markdown.contains(GOAL), "{markdown}");
    let json = sandbox.run(&["threads", "export", "last", "--format", "json"]).json();
    let markers: Vec<_> = json["history"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["type"] == "summary_marker")
        .collect();
    assert_eq!((markers.len(), &markers[1]["previous_seq"]), (2, &markers[0]["seq"]));
}

#[test]
fn b9_what_was_taken_back_is_shown_when_asked_for() {
    let sandbox = long_thread(Sandbox::new(), 4);
    assert_eq!(sandbox.run(&["threads", "rewind", "last", "4"]).code, 0);
    let count = |args: &[&str]| sandbox.json(args)["entries"].as_array().unwrap().len();
    assert_eq!(count(&["history", "last", "--json"]), 4);
    assert_eq!(count(&["history", "last", "--all", "--json"]), 8);
}

#[test]
fn m10_a_fork_has_the_markers_and_the_originals_too() {
    let sandbox = condensed();
    let markers = sandbox.json(&["history", "last", "--markers", "--json"])["entries"].clone();
    assert_eq!(sandbox.run(&["threads", "fork", "last"]).code, 0);
    assert_eq!(sandbox.threads().len(), 2);
    let copied = sandbox.json(&["history", "last", "--markers", "--json"])["entries"].clone();
    assert_eq!(copied, markers);
    let told = sandbox.run(&["history", "last", "--expand", "--after", "7", "--limit", "1"]).stdout;
    assert!(told.contains(&format!("condensed in #{}", markers[0]["seq"])), "{told}");
    assert!(told.contains("Answer 3: "), "{told}");
}
