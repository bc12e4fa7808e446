//! The web page in the headless shell of Debian's Chromium, with the real binary and the scripted model. The suites are in
//! `web/tests`, one for each part of the page; `cargo xtask test` installs their dependencies.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::StagedServer;
use crate::sandbox::binary_path;

impl StagedServer {
    /// Runs a suite and fails with its output if the suite fails.
    fn assert_suite_passes_in_browser(&self, name: &str) {
        let mut command = Command::new("node");
        command.arg(suites_folder().join(name)).args([
            self.serving.url(),
            &self.serving.owner_token(),
            self.model.url(),
        ]);
        // Suites may also run commands as the local user.
        command.env_clear().envs(self.sandbox.environment()).env("SEGUE", binary_path());
        command.current_dir(self.sandbox.work_folder()).stdin(Stdio::null());
        command.envs(std::env::vars().filter(|(variable, _)| variable == "SHOTS"));
        let output = command.output().unwrap_or_else(|error| {
            panic!("{command:?}: {error}; `cargo xtask test` installs what it needs")
        });
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{}", texts.concat());
    }
}

fn suites_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/tests")
}

#[test]
fn threads_are_listed_searched_renamed_and_restored() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("threads.mjs");
}

#[test]
fn i7_a_conversation_is_the_same_live_reloaded_and_reconnected() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("thread.mjs");
}

#[test]
fn c5_d6_markers_and_feedback_are_shown_at_their_position() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("markers.mjs");
}

#[test]
fn m8_a_handoff_is_reviewed_and_decided_on_the_page() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("handoffs.mjs");
}

#[test]
fn a_first_handoff_takes_at_most_five_actions() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("first.mjs");
}

#[test]
fn an_item_of_a_review_scrolls_to_its_source_and_back() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("review.mjs");
}

#[test]
fn messages_and_tool_calls_are_found_by_search() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("looking.mjs");
}

#[test]
fn k7_hostile_content_is_inert() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("hostile.mjs");
}

#[test]
fn every_page_is_accessible_and_its_layout_is_stable() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("access.mjs");
}
