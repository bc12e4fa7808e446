//! `execute` with real commands: output, limits, environment and process groups.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::ToolStatus;
use protocol::message::joined_text;
use runtime::{CallSubject, Frame, FrameSender, SubscriptionItem};
use serde_json::json;

use crate::bench::ToolFixture;

async fn run(bench: &ToolFixture, command: &str) -> (ToolStatus, String) {
    bench.call("execute", json!({"command": command})).await
}

async fn assert_success(bench: &ToolFixture, command: &str, expected: &str) {
    assert_eq!(run(bench, command).await, (ToolStatus::Success, expected.to_owned()), "{command}");
}

async fn assert_error(bench: &ToolFixture, command: &str, expected: &str) {
    assert_eq!(run(bench, command).await, (ToolStatus::Error, expected.to_owned()), "{command}");
}

/// Waits at most ten seconds for a process to end, and returns whether it did. The signal may arrive after the call has
/// returned.
fn has_ended(pid: &Path) -> bool {
    let pid = fs::read_to_string(pid).unwrap();
    let state = format!("/proc/{}/stat", pid.trim());
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        match fs::read_to_string(&state) {
            Ok(state) if !state.contains(") Z ") && !state.contains(") X ") => std::thread::yield_now(),
            Ok(_) | Err(_) => return true,
        }
    }
    false
}

async fn wait_for_file(path: &Path) {
    while !path.exists() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn output_and_status_reach_the_model() {
    let bench = ToolFixture::new().await;
    assert_success(&bench, "echo one; echo two >&2; echo three", "one\ntwo\nthree").await;
    assert_success(&bench, "x=$(ls src | head -1); echo \"$x\"", "a.rs").await;
    assert_success(&bench, "cat", "(no output)").await;
    assert_success(&bench, "cat src/deep/b.rs", "fn b() {}").await;
    assert_error(&bench, "echo a; exit 3", "a\n[exit status 3]").await;
    assert_error(&bench, "kill -9 $$", "(no output)\n[ended by a signal]").await;
    bench.assert_error("execute", json!({"command": " "}), "the command is empty").await;
    bench.assert_error("execute", json!({"command": "a\0b"}), "zero byte").await;
    bench.assert_error("execute", json!({"argv": ["ls"]}), "bad arguments: unknown field `argv`").await;
}

#[tokio::test]
async fn escapes_progress_bars_and_invalid_bytes_become_plain_text() {
    let bench = ToolFixture::new().await;
    assert_success(&bench, r"printf '\033[1;31mred\033[0m\tx\n'; true", "red\tx").await;
    assert_success(&bench, r"printf '10%%\r50%%\r100%%\ndone\r\n'; true", "100%\ndone").await;
    assert_success(&bench, r"printf 'caf\351\n'; true", "caf\u{fffd}").await;
    assert_success(&bench, r"printf '\303'; printf '\251\n'", "é").await;
}

#[tokio::test]
async fn k4_commands_get_no_keys_and_no_terminal() {
    let bench = ToolFixture::new().await;
    // The test process has no real keys. The test checks that the variables are not set.
    assert_success(
        &bench,
        "echo \"${ANTHROPIC_API_KEY-none} ${OPENAI_API_KEY-none} ${GEMINI_API_KEY-none} ${SEGUE_TEST_SECRET-none}\"",
        "none none none none",
    )
    .await;
    assert_success(
        &bench,
        "echo $NO_COLOR $PAGER $GIT_PAGER $CI; test -t 0 || echo no",
        "1 cat cat true\nno",
    )
    .await;
    assert_success(&bench, "pwd -P; true $HOME", bench.workspace().canonicalize().unwrap().to_str().unwrap())
        .await;
}

#[tokio::test]
async fn a_long_output_is_truncated_and_stored_whole() {
    let bench = ToolFixture::new().await;
    let output = bench.commit_output("execute", json!({"command": "seq 1 20000; true $HOME"})).await;
    let text = joined_text(&output.content);
    assert!(
        text.len() < 31_000 && text.starts_with("1\n2\n") && text.ends_with("19999\n20000"),
        "{}",
        text.len()
    );
    let (_, pointer) = text.split_once("read_file ").unwrap();
    let name = pointer.split(' ').next().unwrap();
    assert!(name.starts_with("artifact:") && name.len() == 25, "{name}");
    bench
        .assert_success(
            "read_file",
            json!({"path": name, "offset": 10_000, "limit": 2}),
            " 10000\t10000\n 10001\t10001\n[there is more; continue with offset 10002]\n",
        )
        .await;
    bench.assert_error("read_file", json!({"path": "artifact:00000000"}), "nothing is stored").await;
}

#[tokio::test]
async fn a_huge_output_is_bounded_and_its_end_is_stored() {
    let bench = ToolFixture::new().await;
    let command = "head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 1000; echo; echo end";
    let output = bench.commit_output("execute", json!({"command": command})).await;
    let text = joined_text(&output.content);
    assert!(output.status == ToolStatus::Success && text.len() < 31_000 && text.ends_with("x\nend"));
    let journal::Write::PutArtifact(artifact) = &output.update.writes[0] else { unreachable!() };
    assert!(artifact.bytes.len() < 17 << 20);
    let stored = String::from_utf8_lossy(&artifact.bytes);
    assert!(stored.contains(" bytes were not stored]\n") && stored.ends_with("x\nend\n"));
}

#[tokio::test]
async fn output_is_streamed_while_the_command_runs() {
    let mut bench = ToolFixture::new().await;
    let (frames, mut stream) = FrameSender::channel();
    bench.context.frames = frames;
    let call = run(&bench, "echo ready; until [ -e go ]; do :; done; echo done");
    let watch = async {
        let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await else { unreachable!() };
        let Frame::ToolOutput { call_id, text } = &*frame else { unreachable!("{frame:?}") };
        assert_eq!((call_id.as_str(), text.as_str()), ("c1", "ready\n"));
        fs::write(bench.workspace().join("go"), "").unwrap();
    };
    let ((status, text), ()) = tokio::join!(call, watch);
    assert_eq!((status, text.as_str()), (ToolStatus::Success, "ready\ndone"));
}

#[tokio::test]
async fn a_background_process_does_not_delay_the_call() {
    let bench = ToolFixture::new().await;
    assert_success(&bench, "tail -f src/a.rs > /dev/null & echo $! > pid; echo started", "started").await;
    let pid = fs::read_to_string(bench.workspace().join("pid")).unwrap();
    Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(has_ended(&bench.workspace().join("pid")));
}

#[tokio::test]
async fn a_command_that_times_out_is_stopped_with_its_children() {
    let bench = ToolFixture::new().await;
    let args = json!({"command": "tail -f src/deep/b.rs & echo $! > pid; wait", "timeout_seconds": 1});
    let (status, text) = bench.call("execute", args).await;
    assert_eq!((status, text.as_str()), (ToolStatus::Error, "fn b() {}\n[stopped after 1 s]"));
    assert!(has_ended(&bench.workspace().join("pid")));
}

#[tokio::test]
async fn i5_cancellation_stops_all_processes_even_if_they_ignore_sigterm() {
    let bench = ToolFixture::new().await;
    let stop = async {
        wait_for_file(&bench.workspace().join("ready")).await;
        bench.context.cancel.cancel();
    };
    let command = "trap '' TERM; tail -f src/deep/b.rs & echo $! > pid; echo > ready; wait; wait";
    let ((status, text), ()) = tokio::join!(run(&bench, command), stop);
    assert!(status == ToolStatus::Error && text.ends_with("[cancelled]"), "{text}");
    assert!(has_ended(&bench.workspace().join("pid")));
}

#[tokio::test]
async fn dropping_a_call_kills_its_processes() {
    let bench = Arc::new(ToolFixture::new().await);
    let call = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { run(&bench, "tail -f src/a.rs & echo $! > pid; echo > ready; wait").await }
    });
    wait_for_file(&bench.workspace().join("ready")).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert!(has_ended(&bench.workspace().join("pid")));
}

#[tokio::test]
async fn a_review_names_the_paths_of_a_read_only_line() {
    let bench = ToolFixture::new().await;
    let subjects = async |command: &str| bench.review("execute", json!({"command": command})).await.subjects;
    let command = |line: &str| CallSubject::Command(line.to_owned());
    assert_eq!(
        subjects("cat src/a.rs").await,
        [command("cat src/a.rs"), CallSubject::Path("src/a.rs".into())]
    );
    assert_eq!(subjects("pwd | wc -l").await, [command("pwd | wc -l"), CallSubject::Path("".into())]);
    assert_eq!(subjects("cat src/a.rs > b").await, [command("cat src/a.rs > b")]);
    assert_eq!(subjects("cat ../secret").await, [command("cat ../secret")]);
    assert_eq!(subjects(" ").await, []);
}

/// Creates a git repository with one committed file. Returns `None` without git.
fn repository(folder: &Path) -> Option<()> {
    fs::write(folder.join("a.txt"), "one\n").ok()?;
    for words in [
        &["init", "-q"][..],
        &["add", "a.txt"],
        &["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "first"],
    ] {
        let status = Command::new("git").current_dir(folder).args(words).status();
        status.ok().filter(std::process::ExitStatus::success)?;
    }
    Some(())
}

#[tokio::test]
async fn k6_a_repository_cannot_make_git_start_programs_in_a_read_only_line() {
    let bench = ToolFixture::new().await;
    let work = bench.workspace();
    let Some(()) = repository(&work) else {
        println!("skipped: no git on this machine");
        return;
    };
    let trap = format!("touch {}", work.join("sprung").display());
    let config = format!(
        "\n[core]\n\tfsmonitor = {trap}\n\tpager = {trap}\n[diff]\n\texternal = {trap}\n[diff \"x\"]\n\ttextconv = {trap}\n\
         \tcommand = {trap}\n[filter \"x\"]\n\tclean = {trap}\n\tprocess = {trap}\n\trequired = true\n[gpg]\n\tprogram = {trap}\n\
         [log]\n\tshowSignature = true\n[alias]\n\tstatus = !{trap}\n"
    );
    let path = work.join(".git/config");
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, before + &config).unwrap();
    fs::write(work.join(".gitattributes"), "* filter=x diff=x\n").unwrap();
    fs::write(work.join("a.txt"), "two\n").unwrap();
    for command in [
        "git status --short",
        "git diff",
        "git log -p '--format=%G? %s' | head -5",
        "git show",
        "git blame a.txt && git branch --list new",
    ] {
        let (status, text) = run(&bench, command).await;
        assert_eq!(status, ToolStatus::Success, "{command}: {text}");
        assert!(!work.join("sprung").exists(), "{command}");
    }
    let (_, diff) = run(&bench, "git diff").await;
    assert!(diff.contains("-one\n+two"), "{diff}");
    assert_success(&bench, "git branch --list new", "(no output)").await;
}
