//! `ls`, `read_file`, `glob` and `grep` over a small workspace.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use protocol::ToolStatus;
use protocol::message::joined_text;
use runtime::{Tool, ToolContext};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Bench {
    folder: tempfile::TempDir,
    tools: Vec<Arc<dyn Tool>>,
    cancel: CancellationToken,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir_all(work.join("src/deep")).unwrap();
        fs::create_dir_all(work.join("target")).unwrap();
        fs::write(folder.path().join("secret"), "needle").unwrap();
        fs::write(work.join(".gitignore"), "target/\n").unwrap();
        fs::write(work.join("src/a.rs"), "fn a() {}\r\n// needle\nlast").unwrap();
        fs::write(work.join("src/deep/b.rs"), "fn b() {}\n").unwrap();
        fs::write(work.join("target/out.rs"), "needle").unwrap();
        fs::write(work.join("blob"), b"needle\0needle").unwrap();
        Self { folder, tools: tools::read_only(), cancel: CancellationToken::new() }
    }

    fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    async fn call(&self, name: &str, args: Value) -> (ToolStatus, String) {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let context = ToolContext { workspace: self.work(), cancel: self.cancel.clone() };
        let output = tool.call(&args, &context).await;
        (output.status, joined_text(&output.content))
    }

    async fn good(&self, name: &str, args: Value, expected: &str) {
        assert_eq!(self.call(name, args).await, (ToolStatus::Success, expected.to_owned()));
    }

    async fn bad(&self, name: &str, args: Value, expected: &str) {
        let (status, text) = self.call(name, args).await;
        assert!(status == ToolStatus::Error && text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn every_tool_describes_an_object_of_arguments() {
    let names: Vec<String> = tools::read_only().iter().map(|tool| tool.spec().name).collect();
    assert_eq!(names, ["ls", "read_file", "glob", "grep", "execute"]);
    for tool in tools::read_only() {
        assert_eq!(tool.spec().parameters["type"], "object");
    }
}

#[tokio::test]
async fn ls_lists_one_folder() {
    let bench = Bench::new();
    bench.good("ls", json!({}), ".gitignore (8)\nblob (13)\nsrc/\ntarget/").await;
    bench.good("ls", Value::Null, ".gitignore (8)\nblob (13)\nsrc/\ntarget/").await;
    bench.good("ls", json!({"path": "src"}), "a.rs (25)\ndeep/").await;
    bench.bad("ls", json!({"path": ".."}), "outside the workspace").await;
    bench.bad("ls", json!({"path": "src/a.rs"}), "cannot be listed").await;
    bench.bad("ls", json!({"path": 1}), "bad arguments: invalid type").await;
}

#[tokio::test]
async fn read_file_shows_numbered_lines() {
    let bench = Bench::new();
    bench
        .good(
            "read_file",
            json!({"path": "src/a.rs"}),
            "     1\tfn a() {}\n     2\t// needle\n     3\tlast\n",
        )
        .await;
    bench
        .good(
            "read_file",
            json!({"path": "src/a.rs", "from_line": 2, "lines": 1}),
            "     2\t// needle\n[the file goes on; continue with from_line 3]\n",
        )
        .await;
    bench.bad("read_file", json!({"path": "src/a.rs", "from_line": 9}), "has only 3 lines").await;
    bench.bad("read_file", json!({}), "missing field `path`").await;
    bench.bad("read_file", json!({"path": "src"}), "is a folder").await;
    bench.bad("read_file", json!({"path": "nope"}), "ls or glob").await;
    bench.bad("read_file", json!({"path": "../secret"}), "outside the workspace").await;
    bench.bad("read_file", json!({"path": "blob"}), "binary file of 13 bytes").await;
}

#[tokio::test]
async fn read_file_is_bounded_whatever_the_file() {
    let bench = Bench::new();
    fs::File::create(bench.work().join("sparse")).unwrap().set_len(1 << 30).unwrap();
    bench.bad("read_file", json!({"path": "sparse"}), "binary file of 1073741824 bytes").await;
    fs::write(bench.work().join("long"), "x".repeat(5_000_000)).unwrap();
    let (_, text) = bench.call("read_file", json!({"path": "long"})).await;
    assert!(text.len() < 1_100 && text.ends_with("x […]\n"));
    fs::write(bench.work().join("many"), "line\n".repeat(100_000)).unwrap();
    let (_, text) = bench.call("read_file", json!({"path": "many"})).await;
    assert!(text.len() < 60_000 && text.ends_with("[the file goes on; continue with from_line 2001]\n"));
}

#[tokio::test]
async fn glob_and_grep_see_what_is_not_ignored() {
    let bench = Bench::new();
    bench.good("glob", json!({"pattern": "*.rs"}), "src/a.rs\nsrc/deep/b.rs").await;
    bench.good("glob", json!({"pattern": "src/*.rs"}), "src/a.rs").await;
    bench.good("glob", json!({"pattern": "*.rs", "path": "src/deep"}), "src/deep/b.rs").await;
    bench.good("glob", json!({"pattern": "*.py"}), "no file matches").await;
    bench.bad("glob", json!({"pattern": "../*"}), "leads outside").await;
    bench.bad("glob", json!({"pattern": "{"}), "bad pattern").await;
    bench.good("grep", json!({"pattern": "needle"}), "src/a.rs:2:// needle").await;
    bench
        .good(
            "grep",
            json!({"pattern": "FN", "ignore_case": true, "glob": "b.*"}),
            "src/deep/b.rs:1:fn b() {}",
        )
        .await;
    bench.good("grep", json!({"pattern": "\\}$", "path": "src/a.rs"}), "src/a.rs:1:fn a() {}").await;
    bench.good("grep", json!({"pattern": "absent"}), "no line matches").await;
    bench.bad("grep", json!({"pattern": "("}), "bad pattern").await;
    bench.bad("grep", json!({"pattern": "x", "path": "/etc"}), "outside the workspace").await;
}

#[cfg(unix)]
#[tokio::test]
async fn k6_links_out_of_the_workspace_are_not_followed() {
    let bench = Bench::new();
    std::os::unix::fs::symlink(Path::new("../secret"), bench.work().join("link")).unwrap();
    std::os::unix::fs::symlink(bench.folder.path(), bench.work().join("up")).unwrap();
    bench.bad("read_file", json!({"path": "link"}), "outside the workspace").await;
    bench.bad("read_file", json!({"path": "up/secret"}), "outside the workspace").await;
    bench.bad("ls", json!({"path": "up"}), "outside the workspace").await;
    bench.good("grep", json!({"pattern": "needle"}), "src/a.rs:2:// needle").await;
    bench.good("glob", json!({"pattern": "**/secret"}), "no file matches").await;
}

#[tokio::test]
async fn i5_a_cancelled_search_stops() {
    let bench = Bench::new();
    bench.cancel.cancel();
    bench.bad("grep", json!({"pattern": "needle"}), "cancelled").await;
    bench.bad("glob", json!({"pattern": "*"}), "cancelled").await;
}
