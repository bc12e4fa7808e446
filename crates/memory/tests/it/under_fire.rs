//! Several processes and one file. The processes are this test binary, told by its environment what to play.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use jiff::Timestamp;
use memory::AgentFile;
use memory::block;

/// Handoffs a process plays.
const HANDOFFS: usize = 1_000;
/// Lines the editor appends.
const LINES: usize = 2_000;
/// What a process plays, and where.
const ROLE: &str = "SEGUE_TEST_ROLE";
const FOLDER: &str = "SEGUE_TEST_FOLDER";

#[test]
fn m13_two_processes_and_an_editor_lose_nothing() {
    if let (Ok(role), Some(folder)) = (env::var(ROLE), env::var_os(FOLDER)) {
        return play(&role, &PathBuf::from(folder).join("agent.md"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.md");
    fs::write(&path, "# Notes\n").unwrap();
    let started = Instant::now();
    let children: Vec<Child> = ["one", "two", "editor"].map(|role| spawn(role, folder.path())).into();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    println!("{} handoffs and {LINES} lines in {:?}", 2 * HANDOFFS, started.elapsed());
    let text = fs::read(&path).unwrap();
    assert_eq!(block::problems(&text), []);
    assert_eq!(String::from_utf8_lossy(&text).matches(block::OPEN).count(), 1);
    let outside = String::from_utf8(block::without(&text)).unwrap();
    let mut lines: Vec<&str> = outside.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..LINES).map(|number| format!("line {number}")).collect();
    expected.push("# Notes".to_owned());
    expected.sort_unstable();
    let lost: Vec<&String> = expected.iter().filter(|line| !lines.contains(&line.as_str())).collect();
    assert_eq!((lost, lines.len()), (Vec::new(), expected.len()));
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["agent.md", "agent.md.lock"]);
}

fn spawn(role: &str, folder: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "under_fire::m13_two_processes_and_an_editor_lose_nothing"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .spawn()
        .unwrap()
}

fn play(role: &str, path: &Path) {
    if role == "editor" {
        for number in 0..LINES {
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(format!("line {number}\n").as_bytes()).unwrap();
            // The pace of someone who waits for the disk.
            file.sync_data().unwrap();
        }
        return;
    }
    let file = AgentFile::new(path);
    for number in 0..HANDOFFS {
        let summary = format!("{role} {number}\n</current_thread_summary>");
        file.write_block(&summary, Timestamp::UNIX_EPOCH).unwrap();
        if number % 10 == 0 {
            file.clear_block(&summary, Timestamp::UNIX_EPOCH).unwrap();
        }
    }
}
