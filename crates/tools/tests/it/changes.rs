//! `write_file` and `edit_file`: changes, refusals, and containment in the workspace.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use protocol::ToolStatus;
use runtime::{CallSubject, ReviewDetail};
use serde_json::{Value, json};

use crate::bench::ToolFixture;

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_string": old, "new_string": new})
}

async fn read(bench: &ToolFixture, path: &str) {
    assert_eq!(bench.call("read_file", json!({"path": path})).await.0, ToolStatus::Success, "{path}");
}

#[tokio::test]
async fn an_edit_changes_only_its_text_and_keeps_the_mode() {
    let bench = ToolFixture::new().await;
    let path = bench.workspace().join("src/a.rs");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    read(&bench, "src/a.rs").await;
    bench
        .assert_success(
            "edit_file",
            edit("src/a.rs", "needle", "thread"),
            "changed src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@\n fn a() {}\r\n-// needle\n+// thread\n \
             last\n\\ No newline at end of file\n",
        )
        .await;
    assert_eq!(fs::read(&path).unwrap(), b"fn a() {}\r\n// thread\nlast");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o751);
    // The agent knows the content that it has written itself.
    let edits = json!({"path": "src/a.rs", "edits": [
        {"old_string": "fn a()", "new_string": "fn b()"}, {"old_string": "last", "new_string": "end"}
    ]});
    assert_eq!(bench.call("edit_file", edits).await.0, ToolStatus::Success);
    assert_eq!(fs::read(&path).unwrap(), b"fn b() {}\r\n// thread\nend");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "no temporary file is left");
}

#[tokio::test]
async fn several_edits_are_applied_all_or_none() {
    let bench = ToolFixture::new().await;
    read(&bench, "src/deep/b.rs").await;
    let edits = json!({"path": "src/deep/b.rs", "edits": [
        {"old_string": "fn b", "new_string": "fn c"}, {"old_string": "missing", "new_string": "x"}
    ]});
    bench.assert_error("edit_file", edits, "edit 2: old_string does not occur").await;
    assert_eq!(fs::read_to_string(bench.workspace().join("src/deep/b.rs")).unwrap(), "fn b() {}\n");
    bench.assert_error("edit_file", json!({"path": "src/deep/b.rs"}), "give 1 to 200 edits").await;
    bench
        .assert_error("edit_file", json!({"path": "src/deep/b.rs", "old_string": "b"}), "belong together")
        .await;
    bench.assert_error("edit_file", edit("src/deep/none.rs", "a", "b"), "write_file makes a new file").await;
}

#[tokio::test]
async fn a_file_whose_content_is_unknown_is_not_changed() {
    let bench = ToolFixture::new().await;
    bench.assert_error("edit_file", edit("src/a.rs", "needle", "x"), "you have not read it").await;
    bench
        .assert_error(
            "write_file",
            json!({"path": "src/a.rs", "content": "x"}),
            "read it with read_file first",
        )
        .await;
    read(&bench, "src/a.rs").await;
    fs::write(bench.workspace().join("src/a.rs"), "// needle, by someone else").unwrap();
    bench.assert_error("edit_file", edit("src/a.rs", "needle", "x"), "has changed since you read it").await;
    bench.assert_error("write_file", json!({"path": "src/a.rs", "content": "x"}), "Read it again").await;
    assert_eq!(fs::read_to_string(bench.workspace().join("src/a.rs")).unwrap(), "// needle, by someone else");
    read(&bench, "src/a.rs").await;
    assert_eq!(bench.call("edit_file", edit("src/a.rs", "needle", "x")).await.0, ToolStatus::Success);
    // Another thread's agent has not read it.
    let mut other = ToolFixture::new().await;
    other.tools = bench.tools.clone();
    other.context.workspace = bench.workspace();
    other.assert_error("edit_file", edit("src/a.rs", "x", "y"), "you have not read it").await;
}

#[tokio::test]
async fn a_new_file_is_created_with_its_folders() {
    let bench = ToolFixture::new().await;
    bench
        .assert_success(
            "write_file",
            json!({"path": "new/er/a.txt", "content": "one\ntwo\n"}),
            "created new/er/a.txt (2 lines)",
        )
        .await;
    assert_eq!(fs::read_to_string(bench.workspace().join("new/er/a.txt")).unwrap(), "one\ntwo\n");
    let rewritten = json!({"path": "new/er/a.txt", "content": "one\n2"});
    assert_eq!(bench.call("write_file", rewritten).await.0, ToolStatus::Success);
    assert_eq!(
        fs::read_to_string(bench.workspace().join("new/er/a.txt")).unwrap(),
        "one\n2\n",
        "the line break at the end is kept"
    );
    bench
        .assert_error(
            "write_file",
            json!({"path": "new/er/a.txt", "content": "one\n2\n"}),
            "holds exactly that already",
        )
        .await;
    bench.assert_error("write_file", json!({"path": "src", "content": ""}), "is a folder").await;
    bench.assert_error("write_file", json!({"path": "src/", "content": ""}), "is a folder").await;
    bench.assert_error("write_file", json!({"path": ".", "content": ""}), "is a folder").await;
    bench.assert_error("write_file", json!({"path": "src/a.rs/b", "content": ""}), "cannot be").await;
    bench.assert_error("write_file", json!({"path": "", "content": ""}), "is not a valid path").await;
}

#[tokio::test]
async fn k6_nothing_outside_the_workspace_is_written() {
    let bench = ToolFixture::new().await;
    let work = bench.workspace();
    symlink(bench.folder.path(), work.join("up")).unwrap();
    symlink("../secret", work.join("link")).unwrap();
    symlink("../made", work.join("dangling")).unwrap();
    for path in ["../secret", "up/secret", "up/new", "link", "src/../../new", "up/new/er", "/etc/new"] {
        bench
            .assert_error("write_file", json!({"path": path, "content": "x"}), "outside the workspace")
            .await;
        bench.assert_error("edit_file", edit(path, "needle", "x"), "outside the workspace").await;
        assert_eq!(bench.review("write_file", json!({"path": path, "content": "x"})).await.subjects, []);
    }
    bench.assert_error("write_file", json!({"path": "dangling", "content": "x"}), "leads nowhere").await;
    assert_eq!(fs::read_to_string(bench.folder.path().join("secret")).unwrap(), "needle");
    assert_eq!(fs::read_dir(bench.folder.path()).unwrap().count(), 3);
}

#[tokio::test]
async fn k6_a_link_inside_the_workspace_is_followed_and_stays() {
    let bench = ToolFixture::new().await;
    symlink("src/deep/b.rs", bench.workspace().join("inner")).unwrap();
    read(&bench, "inner").await;
    assert_eq!(bench.call("edit_file", edit("inner", "fn b", "fn c")).await.0, ToolStatus::Success);
    assert_eq!(fs::read_to_string(bench.workspace().join("src/deep/b.rs")).unwrap(), "fn c() {}\n");
    assert!(bench.workspace().join("inner").is_symlink());
}

#[tokio::test]
async fn f4_protected_files_are_not_written() {
    let bench = ToolFixture::new().await;
    fs::create_dir(bench.workspace().join("protected")).unwrap();
    fs::write(bench.workspace().join("protected/agent.md"), "mine").unwrap();
    read(&bench, "protected/agent.md").await;
    bench.assert_error("edit_file", edit("protected/agent.md", "mine", "x"), "belongs to Segue itself").await;
    bench
        .assert_error("write_file", json!({"path": "protected/new", "content": "x"}), "no tool changes it")
        .await;
}

#[tokio::test]
async fn a_read_only_or_foreign_file_is_refused_and_left_alone() {
    let bench = ToolFixture::new().await;
    let path = bench.workspace().join("src/deep/b.rs");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    read(&bench, "src/deep/b.rs").await;
    bench.assert_error("edit_file", edit("src/deep/b.rs", "fn b", "fn c"), "the file is read-only").await;
    fs::write(bench.workspace().join("latin"), b"caf\xe9\n").unwrap();
    read(&bench, "latin").await;
    bench.assert_error("edit_file", edit("latin", "caf", "x"), "is not UTF-8").await;
    fs::File::create(bench.workspace().join("large")).unwrap().set_len(11 << 20).unwrap();
    bench.assert_error("edit_file", edit("large", "a", "b"), "too many to change here").await;
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
}

#[tokio::test]
async fn a_review_shows_the_change_without_making_it() {
    let bench = ToolFixture::new().await;
    read(&bench, "src/deep/b.rs").await;
    let review = bench.review("edit_file", edit("./src/deep/../deep/b.rs", "fn b", "fn c")).await;
    assert_eq!(review.subjects, [CallSubject::Path("src/deep/b.rs".into())]);
    let diff = "--- a/src/deep/b.rs\n+++ b/src/deep/b.rs\n@@ -1 +1 @@\n-fn b() {}\n+fn c() {}\n";
    assert_eq!(review.detail, ReviewDetail::Diff(diff.to_owned()));
    let review = bench.review("write_file", json!({"path": "new/a", "content": "x\n"})).await;
    assert_eq!(
        review.detail,
        ReviewDetail::Diff("--- /dev/null\n+++ b/new/a\n@@ -0,0 +1 @@\n+x\n".to_owned())
    );
    assert!(!bench.workspace().join("new").exists());
    for refused in [edit("src/a.rs", "needle", "x"), edit("src/deep/b.rs", "none", "x"), json!({})] {
        assert_eq!(bench.review("edit_file", refused).await.subjects, [], "it would have no effect");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_edits_of_one_file_are_all_applied() {
    let bench = ToolFixture::new().await;
    let lines: String = (0..24).map(|number| format!("<{number}>\n")).collect();
    fs::write(bench.workspace().join("list"), &lines).unwrap();
    read(&bench, "list").await;
    let calls = (0..24)
        .map(|number| bench.call("edit_file", edit("list", &format!("<{number}>"), &format!("[{number}]"))));
    for (status, text) in futures::future::join_all(calls).await {
        assert_eq!(status, ToolStatus::Success, "{text}");
    }
    let expected = lines.replace('<', "[").replace('>', "]");
    assert_eq!(fs::read_to_string(bench.workspace().join("list")).unwrap(), expected);
}

#[tokio::test]
async fn a_change_refused_in_review_is_refused_when_it_is_made() {
    let bench = ToolFixture::new().await;
    let change = edit("src/deep/b.rs", "fn b", "fn c");
    assert_eq!(bench.review("edit_file", change.clone()).await.subjects, []);
    // Another call of the same answer reads the file between the review and the call.
    read(&bench, "src/deep/b.rs").await;
    bench.assert_error("edit_file", change.clone(), "you have not read it").await;
    assert_eq!(bench.call("edit_file", change).await.0, ToolStatus::Success, "the next call is another one");
    // The path names another file than during the review.
    let change = json!({"path": "link", "content": "x"});
    assert_eq!(bench.review("write_file", change.clone()).await.subjects, [CallSubject::Path("link".into())]);
    symlink("src/new", bench.workspace().join("link")).unwrap();
    fs::write(bench.workspace().join("src/new"), "").unwrap();
    read(&bench, "link").await;
    bench.assert_error("write_file", change, "leads to another file").await;
}
