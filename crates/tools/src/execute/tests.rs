//! Commands that are really run, in a workspace of their own.

use std::fs;
use std::path::Path;
use std::process::Command as Plain;

use protocol::ToolStatus;
use protocol::message::joined_text;
use tokio_util::sync::CancellationToken;

use super::*;

fn context(workspace: &Path) -> ToolContext {
    ToolContext { workspace: workspace.to_path_buf(), cancel: CancellationToken::new() }
}

async fn call(tool: &Execute, argv: &[&str], context: &ToolContext) -> (ToolStatus, String) {
    let output = tool.call(&json!({"argv": argv}), context).await;
    (output.status, joined_text(&output.content))
}

/// Makes a repository with one committed file; `None` where git is missing.
fn repository(folder: &Path) -> Option<()> {
    fs::write(folder.join("a.txt"), "one\n").ok()?;
    for words in [
        &["init", "-q"][..],
        &["add", "a.txt"],
        &["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "first"],
    ] {
        Plain::new("git")
            .current_dir(folder)
            .args(words)
            .status()
            .ok()
            .filter(std::process::ExitStatus::success)?;
    }
    Some(())
}

#[tokio::test]
async fn output_status_and_refusals_reach_the_model() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one\ntwo\n").unwrap();
    let (tool, context) = (Execute::new(TIMEOUT), context(folder.path()));
    assert_eq!(call(&tool, &["cat", "a.txt"], &context).await, (ToolStatus::Success, "one\ntwo".to_owned()));
    assert_eq!(call(&tool, &["cat"], &context).await, (ToolStatus::Success, "(no output)".to_owned()));
    let (status, text) = call(&tool, &["cat", "missing"], &context).await;
    assert!(status == ToolStatus::Error && text.ends_with("[exit status 1]"), "{text}");
    let (status, text) = call(&tool, &["rm", "a.txt"], &context).await;
    assert!(status == ToolStatus::Error && text.contains("is not allowed"), "{text}");
    let output = tool.call(&json!({"command": "ls"}), &context).await;
    assert!(joined_text(&output.content).starts_with("bad arguments: unknown field `command`"));
}

#[tokio::test]
async fn k4_the_environment_holds_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let command = process::command(Path::new("/bin/true"), &workspace);
    for (name, _) in command.as_std().get_envs() {
        let name = name.to_string_lossy();
        assert!(
            ["PATH", "TERM"].contains(&name.as_ref()) || !name.contains("KEY") && !name.contains("TOKEN")
        );
    }
}

#[tokio::test]
async fn too_long_and_too_much_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    fs::File::create(folder.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
    let context = context(folder.path());
    let hasty = Execute::new(Duration::from_millis(1_500));
    let (status, text) = call(&hasty, &["tail", "-f", "a.txt"], &context).await;
    assert_eq!((status, text.as_str()), (ToolStatus::Error, "one\n[stopped after 1.5 s]"));
    let (status, text) = call(&Execute::new(TIMEOUT), &["cat", "sparse"], &context).await;
    assert!(status == ToolStatus::Error && text.ends_with("[stopped: too much output; narrow the command]"));
    assert!(text.len() < 2 * crate::OUTPUT_BYTES_MAX);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn i5_cancelling_ends_the_process_group() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one\n").unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let cancel = CancellationToken::new();
    // A shell, which the tool itself would refuse, that leaves a second process behind.
    let mut command = process::command(Path::new("/bin/sh"), &workspace);
    command.args(["-c", "tail -f a.txt & echo $! > pid; echo ready > done; wait"]);
    let running = tokio::spawn({
        let cancel = cancel.clone();
        async move { process::run(command, TIMEOUT, &cancel).await }
    });
    while !folder.path().join("done").exists() {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    let ran = running.await.unwrap().unwrap();
    assert_eq!(ran.ended, Ended::Cancelled);
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    // Gone, or dead and waiting for its new parent to notice; the signal is on its way when `run` returns.
    let is_dead = || match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(state) => state.contains(") Z ") || state.contains(") X "),
        Err(_) => true,
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !is_dead() && std::time::Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    assert!(is_dead(), "the process lives on");
}

#[tokio::test]
async fn k6_a_repository_cannot_make_git_start_programs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = repository(folder.path()) else {
        println!("skipped: no git on this machine");
        return;
    };
    let trap = format!("touch {}", folder.path().join("sprung").display());
    let config = format!(
        "\n[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n[diff]\n\texternal = {trap}\n[diff \"x\"]\n\ttextconv = {trap}\n\
         \tcommand = {trap}\n[filter \"x\"]\n\tclean = {trap}\n\tprocess = {trap}\n\trequired = true\n[gpg]\n\tprogram = {trap}\n\
         [log]\n\tshowSignature = true\n[alias]\n\tstatus = !{trap}\n"
    );
    let path = folder.path().join(".git/config");
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, before + &config).unwrap();
    fs::write(folder.path().join(".gitattributes"), "* filter=x diff=x\n").unwrap();
    fs::write(folder.path().join("a.txt"), "two\n").unwrap();
    let (tool, context) = (Execute::new(TIMEOUT), context(folder.path()));
    for argv in [
        &["git", "status", "--short"][..],
        &["git", "diff"],
        &["git", "log", "-p", "--format=%G? %s"],
        &["git", "show"],
        &["git", "blame", "a.txt"],
        &["git", "branch", "new"],
    ] {
        let (status, text) = call(&tool, argv, &context).await;
        assert_eq!(status, ToolStatus::Success, "{argv:?}: {text}");
        assert!(!folder.path().join("sprung").exists(), "{argv:?}");
    }
    let (_, diff) = call(&tool, &["git", "diff"], &context).await;
    assert!(diff.contains("-one\n+two"), "{diff}");
    assert_eq!(call(&tool, &["git", "branch", "--list", "new"], &context).await.1, "(no output)");
}
