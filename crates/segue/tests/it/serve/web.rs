//! The page as a person meets it: Debian's Chromium, the real binary, the scripted model. The suites are in `web/tests`, one
//! for each part of the page; `cargo xtask test` installs what they need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Staged;
use crate::sandbox::binary;

impl Staged {
    /// Runs a suite; what it prints is the failure's message.
    fn passes_suite(&self, name: &str) {
        let mut command = Command::new("node");
        command.arg(suites().join(name)).args([self.serving.url(), &self.serving.key(), self.model.url()]);
        // The suites may be the person at the terminal, too.
        command.env_clear().envs(self.sandbox.environment()).env("SEGUE", binary());
        command.current_dir(self.sandbox.work()).stdin(Stdio::null());
        command.envs(std::env::vars().filter(|(variable, _)| variable == "SHOTS"));
        let ended = command.output().unwrap_or_else(|error| {
            panic!("{command:?}: {error}; `cargo xtask test` installs what it needs")
        });
        let told = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(ended.status.success(), "{}", told.concat());
    }
}

fn suites() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/tests")
}

#[test]
fn threads_are_listed_found_named_and_brought_back() {
    Staged::playing(&suites()).passes_suite("threads.mjs");
}

#[test]
fn i7_a_conversation_is_the_same_live_reloaded_and_reconnected() {
    Staged::playing(&suites()).passes_suite("thread.mjs");
}

#[test]
fn c5_markers_and_d6_feedback_are_shown_at_their_place() {
    Staged::playing(&suites()).passes_suite("markers.mjs");
}

#[test]
fn m8_a_handoff_is_reviewed_and_decided_on_the_page() {
    Staged::playing(&suites()).passes_suite("handoffs.mjs");
}

#[test]
fn what_was_said_and_done_is_found_again() {
    Staged::playing(&suites()).passes_suite("looking.mjs");
}

#[test]
fn k7_hostile_content_is_inert() {
    Staged::playing(&suites()).passes_suite("hostile.mjs");
}

#[test]
fn every_place_is_accessible_and_nothing_moves() {
    Staged::playing(&suites()).passes_suite("access.mjs");
}
