//! Several processes and one file. The processes are this test binary; an environment variable selects their role.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use memory::managed_block;
use memory::{AgentFile, EditMemoryTool};
use protocol::ToolStatus;
use runtime::Tool;
use serde_json::json;
use test_counts::count;
use test_model::ScriptedReply;

use crate::fixture::{AgentMdFixture, action_tool};
use crate::tool::tool_context;

/// Returns the number of handoffs of a process.
fn handoff_count() -> usize {
    count(100, 1_000)
}

/// Returns the number of lines that the editor appends.
fn line_count() -> usize {
    count(200, 2_000)
}

/// Returns the number of notes that an agent adds at the same time.
fn note_count() -> usize {
    count(30, 300)
}

/// Number of times that an agent is killed while it adds notes.
const KILLS: usize = 20;
/// Number of calls of a tool that tampers with the block.
const CALLS: usize = 60;
/// The environment variable with the role of a process.
const ROLE: &str = "SEGUE_TEST_ROLE";
const FOLDER: &str = "SEGUE_TEST_FOLDER";
/// The environment variable with the number of the first note that an agent adds.
const FIRST: &str = "SEGUE_TEST_FIRST";

#[test]
fn m13_two_processes_and_an_editor_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.md");
    fs::write(&path, "# Notes\n").unwrap();
    let started = Instant::now();
    let children: Vec<Child> = ["one", "two", "editor"].map(|role| spawn(role, folder.path())).into();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    println!("{} handoffs and {} lines in {:?}", 2 * handoff_count(), line_count(), started.elapsed());
    let text = fs::read(&path).unwrap();
    assert_eq!(managed_block::marker_problems(&text), []);
    assert_eq!(String::from_utf8_lossy(&text).matches(managed_block::OPEN_TAG).count(), 1);
    let outside = String::from_utf8(managed_block::remove_blocks(&text)).unwrap();
    let mut lines: Vec<&str> = outside.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..line_count()).map(|number| format!("line {number}")).collect();
    expected.push("# Notes".to_owned());
    expected.sort_unstable();
    let lost: Vec<&String> = expected.iter().filter(|line| !lines.contains(&line.as_str())).collect();
    assert_eq!((lost, lines.len()), (Vec::new(), expected.len()));
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["agent.md", "agent.md.lock"]);
}

#[test]
fn f4_concurrent_notes_editor_and_handoffs_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.md");
    fs::write(&path, "# Notes\n").unwrap();
    let children: Vec<Child> = ["notes", "few", "editor"].map(|role| spawn(role, folder.path())).into();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = fs::read(&path).unwrap();
    assert_eq!(managed_block::marker_problems(&text), []);
    assert_eq!(
        managed_block::block_content(&text).as_deref(),
        Some(format!("few {}\n&lt;/current_thread_summary&gt;", handoff_count() / 10 - 1).as_str())
    );
    let outside = String::from_utf8(managed_block::remove_blocks(&text)).unwrap();
    let mut lines: Vec<&str> = outside.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..line_count()).map(|number| format!("line {number}")).collect();
    expected.extend((0..note_count()).map(|number| format!("- note {number}, kept")));
    expected.push("# Notes".to_owned());
    expected.sort_unstable();
    let lost: Vec<&String> = expected.iter().filter(|line| !lines.contains(&line.as_str())).collect();
    assert_eq!((lost, lines.len()), (Vec::new(), expected.len()));
}

#[tokio::test]
async fn f4_guarded_calls_undo_no_handoff_of_another_process() {
    let calls = (0..CALLS)
        .flat_map(|_| [ScriptedReply::call("c1", "shell", json!({})), ScriptedReply::text("Done.")]);
    let world = AgentMdFixture::in_folder(tempfile::tempdir().unwrap(), calls, |path| {
        vec![action_tool("shell", path, overwrite_block)]
    });
    world.write("# Notes\n");
    AgentFile::new(world.path()).write_block("first", Timestamp::UNIX_EPOCH).unwrap();
    let mut process = spawn("one", world.folder.path());
    let thread_id = world.create_thread().await;
    for _ in 0..CALLS {
        world.run_turn(thread_id, "Go.").await;
        assert_eq!(managed_block::marker_problems(world.text().as_bytes()), []);
    }
    assert!(process.wait().unwrap().success());
    let text = world.text();
    assert_eq!(managed_block::marker_problems(text.as_bytes()), []);
    assert_eq!(
        managed_block::block_content(text.as_bytes()).as_deref(),
        Some(format!("one {}\n&lt;/current_thread_summary&gt;", handoff_count() - 1).as_str())
    );
    let outside = String::from_utf8(managed_block::remove_blocks(text.as_bytes())).unwrap();
    assert!(outside.starts_with("# Notes\n") && !outside.contains("one "), "{outside}");
}

/// Rewrites agent.md like a script: reads it, changes the block and the notes, and replaces the file.
fn overwrite_block(path: &PathBuf) {
    let text = fs::read_to_string(path).unwrap();
    let forged =
        text.replace(managed_block::OPEN_TAG, &format!("{}\nforged", managed_block::OPEN_TAG)) + "- noted\n";
    let temporary = path.with_file_name("forged");
    fs::write(&temporary, forged).unwrap();
    fs::rename(temporary, path).unwrap();
}

#[test]
fn f4_a_killed_agent_loses_no_confirmed_note() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.md");
    fs::write(&path, "# Notes\n").unwrap();
    let mut note_count = 0;
    for round in 0..KILLS {
        let mut child = command("notes", folder.path())
            .env(FIRST, note_count.to_string())
            .arg("--nocapture")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let confirmed: Vec<String> =
            output.filter(|line| line.starts_with("kept ")).take(1 + round % 4).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for number in confirmed.iter().map(|line| line.strip_prefix("kept ").unwrap()) {
            assert!(lines.contains(&format!("- note {number}, kept").as_str()), "{number}: {text}");
        }
        // The note that was in progress is in the file once or not at all, and never in part.
        note_count = lines.iter().filter(|line| line.starts_with("- note")).count();
        let last = lines.last().unwrap();
        if last.contains("open") {
            fs::write(&path, text.replace(", open", ", kept")).unwrap();
        }
        let expected: Vec<String> = (0..note_count).map(|number| format!("- note {number}, ")).collect();
        assert!(lines[1..].iter().zip(&expected).all(|(line, note)| line.starts_with(note)), "{text}");
        assert_eq!(lines.len(), note_count + 1, "{text}");
    }
    // The next writer removes the temporary files of killed processes.
    AgentFile::new(&path).write_block("S", Timestamp::UNIX_EPOCH).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["agent.md", "agent.md.lock"]);
}

/// The entry point of the child processes. Does nothing without the environment variables.
#[test]
fn process_that_plays_a_role() {
    let (Ok(role), Some(folder)) = (env::var(ROLE), env::var_os(FOLDER)) else { return };
    play_role(&role, &PathBuf::from(folder).join("agent.md"));
}

fn spawn(role: &str, folder: &Path) -> Child {
    command(role, folder).spawn().unwrap()
}

fn command(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "under_fire::process_that_plays_a_role"]).env(ROLE, role).env(FOLDER, folder);
    command
}

/// Adds notes like an agent: adds one, then changes it.
fn append_notes(path: &Path) {
    let tool = EditMemoryTool::new(Arc::new(AgentFile::new(path)));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let call = |args| {
        let output = runtime.block_on(tool.call(&args, &tool_context()));
        assert_eq!(output.status, ToolStatus::Success, "{output:?}");
    };
    let first = env::var(FIRST).map_or(0, |first| first.parse().unwrap());
    for number in first..first + note_count() {
        call(json!({"append": format!("- note {number}, open")}));
        call(json!({"edits": [
            {"old_string": format!("- note {number}, open"), "new_string": format!("- note {number}, kept")}
        ]}));
        println!("kept {number}");
    }
}

fn play_role(role: &str, path: &Path) {
    if role == "notes" {
        return append_notes(path);
    }
    if role == "editor" {
        for number in 0..line_count() {
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(format!("line {number}\n").as_bytes()).unwrap();
            // A pause as long as a write to disk takes.
            file.sync_data().unwrap();
        }
        return;
    }
    let file = AgentFile::new(path);
    let handoffs = if role == "few" { handoff_count() / 10 } else { handoff_count() };
    for number in 0..handoffs {
        let summary = format!("{role} {number}\n</current_thread_summary>");
        file.write_block(&summary, Timestamp::UNIX_EPOCH).unwrap();
        if number % 10 == 0 {
            file.clear_block(&summary, Timestamp::UNIX_EPOCH).unwrap();
        }
    }
}
