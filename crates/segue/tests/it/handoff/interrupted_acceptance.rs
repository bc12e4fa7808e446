//! Acceptances whose process is killed between the decision and the write of agent.md.

use std::fs;

use crate::handoff::leave_pending_handoff;
use crate::sandbox::TestSandbox;

#[test]
fn g9_the_next_command_completes_an_acceptance_that_was_killed_before_agent_md_was_written() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap().to_owned();
    let folder = sandbox.home().join("agents/agent");
    fs::create_dir_all(&folder).unwrap();
    // The process waits for the lock of agent.md, so it is killed after the decision and before the write.
    let lock = fs::File::create(folder.join("agent.md.lock")).unwrap();
    lock.lock().unwrap();
    let mut command = sandbox.command(&["handoff", "--decide", &id, "--apply", "--json"]).spawn().unwrap();
    while sandbox.threads().len() < 2 {
        std::thread::yield_now();
    }
    command.kill().unwrap();
    command.wait().unwrap();
    drop(lock);
    let block = || sandbox.read_agent_md().unwrap_or_default();
    assert!(!block().contains("backoff"), "{}", block());

    let shown = sandbox.run(&["handoff", "--show", &id, "--json"]);
    assert_eq!(shown.json()["handoff"]["status"], "seeded", "{shown:?}");
    let proposal = shown.json()["proposals"][0]["summary_md"].as_str().unwrap().to_owned();
    assert!(block().contains(proposal.trim()), "{}", block());
    assert_eq!(sandbox.threads().len(), 2);
}
