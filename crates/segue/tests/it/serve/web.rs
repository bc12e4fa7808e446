//! The page as a person meets it: Debian's Chromium, the real binary, the scripted model. The suites are in `web/tests`, one
//! for each part of the page; `cargo xtask test` installs what they need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scripted::{Script, Server};

use crate::sandbox::{Sandbox, binary};
use crate::serving::Serving;

/// A served page with the model that the suites expect.
struct World {
    model: Server,
    serving: Serving,
    sandbox: Sandbox,
}

impl World {
    fn new() -> Self {
        let script = std::fs::read_to_string(suites().join("model.json")).unwrap();
        let model = Server::start(serde_json::from_str::<Script>(&script).unwrap()).unwrap();
        let sandbox = Sandbox::new().with_model(&model);
        Self { serving: Serving::start(&sandbox), model, sandbox }
    }

    /// Runs a suite; what it prints is the failure's message.
    fn passes(&self, name: &str) {
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
    World::new().passes("threads.mjs");
}

#[test]
fn i7_a_conversation_is_the_same_live_reloaded_and_reconnected() {
    World::new().passes("thread.mjs");
}

#[test]
fn c5_markers_and_d6_feedback_are_shown_at_their_place() {
    World::new().passes("markers.mjs");
}

#[test]
fn m8_a_handoff_is_reviewed_and_decided_on_the_page() {
    World::new().passes("handoffs.mjs");
}

#[test]
fn what_was_said_and_done_is_found_again() {
    World::new().passes("looking.mjs");
}

#[test]
fn k7_hostile_content_is_inert() {
    World::new().passes("hostile.mjs");
}

#[test]
fn every_place_is_accessible_and_nothing_moves() {
    World::new().passes("access.mjs");
}
