//! The page as a person meets it: Debian's Chromium, the real binary, the scripted model. The suites are in `web/tests`, one
//! for each part of the page; `cargo xtask test` installs what they need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::StagedServer;
use crate::sandbox::binary_path;

impl StagedServer {
    /// Runs a suite; what it prints is the failure's message.
    fn assert_suite_passes_in_browser(&self, name: &str) {
        let mut command = Command::new("node");
        command.arg(suites_folder().join(name)).args([
            self.serving.url(),
            &self.serving.owner_token(),
            self.model.url(),
        ]);
        // The suites may be the person at the terminal, too.
        command.env_clear().envs(self.sandbox.environment()).env("SEGUE", binary_path());
        command.current_dir(self.sandbox.work_folder()).stdin(Stdio::null());
        command.envs(std::env::vars().filter(|(variable, _)| variable == "SHOTS"));
        let ended = command.output().unwrap_or_else(|error| {
            panic!("{command:?}: {error}; `cargo xtask test` installs what it needs")
        });
        let told = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(ended.status.success(), "{}", told.concat());
    }
}

fn suites_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/tests")
}

#[test]
fn threads_are_listed_found_named_and_brought_back() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("threads.mjs");
}

#[test]
fn i7_a_conversation_is_the_same_live_reloaded_and_reconnected() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("thread.mjs");
}

#[test]
fn c5_markers_and_d6_feedback_are_shown_at_their_place() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("markers.mjs");
}

#[test]
fn m8_a_handoff_is_reviewed_and_decided_on_the_page() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("handoffs.mjs");
}

#[test]
fn what_was_said_and_done_is_found_again() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("looking.mjs");
}

#[test]
fn k7_hostile_content_is_inert() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("hostile.mjs");
}

#[test]
fn every_place_is_accessible_and_nothing_moves() {
    StagedServer::start(&suites_folder()).assert_suite_passes_in_browser("access.mjs");
}
