//! Names are found where they are, and missed where they are not.

use protocol::{ItemKind, SummaryItem};

use super::Grounding;
use crate::transcript::items;

const THREAD: &str = r#"
U: Fix src/parser.rs, see https://x.test/issues/7 and #214.
A: parse_all took 1200ms before 3f2a9bc1.
C: 1 Bash {"command": "cargo test --workspace"}
T: 1 ok 250 rows
"#;

fn is_verified(text: &str) -> bool {
    let mut body =
        vec![SummaryItem { kind: ItemKind::Progress, text: text.into(), refs: Vec::new(), verified: true }];
    let mut grounding = Grounding::of(&body);
    items(THREAD).iter().for_each(|item| grounding.see(item));
    grounding.mark(&mut body);
    body[0].verified
}

#[test]
fn m6_a_planted_name_is_always_flagged() {
    for (text, verified) in [
        ("Nothing is named here.", true),
        ("parser.rs was fixed in `parse_all`, 1200ms.", true),
        ("Ran `cargo test --workspace` on 250 rows for #214.", true),
        ("Commit 3f2a9bc1 closes https://x.test/issues/7.", true),
        ("lexer.rs was fixed.", false),
        ("See https://x.test/issues/8.", false),
        ("It took 1300ms.", false),
        ("Commit 3f2a9bc2.", false),
        ("Closes #215.", false),
        ("Call parse_none.", false),
        ("Run `cargo bench`.", false),
        ("Released v4.5.6.", false),
        ("999 rows.", false),
    ] {
        assert_eq!(is_verified(text), verified, "{text}");
    }
}

#[test]
fn looking_stops_when_everything_is_found() {
    let body = [SummaryItem {
        kind: ItemKind::Progress,
        text: "src/parser.rs".into(),
        refs: Vec::new(),
        verified: true,
    }];
    let mut grounding = Grounding::of(&body);
    assert!(!grounding.is_done());
    grounding.see(&items(THREAD)[0]);
    assert!(grounding.is_done());
}
