//! `ls`, `read_file`, `glob` and `grep` over a small workspace.

use std::fs;
use std::path::Path;

use protocol::message::joined_text;
use protocol::{ContentBlock, ToolStatus};
use runtime::{CallSubject, RepeatSafety};
use serde_json::{Value, json};

use crate::bench::ToolFixture;

#[tokio::test]
async fn every_tool_has_an_object_schema_and_a_repeat_policy() {
    let tools = tools::builtin_tools(tools::ToolSettings::default());
    let names: Vec<String> = tools.iter().map(|tool| tool.spec().name).collect();
    assert_eq!(
        names,
        ["ls", "read_file", "glob", "grep", "write_file", "edit_file", "execute", "write_todos"]
    );
    for tool in tools {
        let spec = tool.spec();
        assert_eq!(spec.parameters["type"], "object");
        let changes = ["write_file", "edit_file", "execute"].contains(&spec.name.as_str());
        assert_eq!(
            tool.repeat_safety(),
            if changes { RepeatSafety::Unsafe } else { RepeatSafety::Safe },
            "{}",
            spec.name
        );
    }
}

#[tokio::test]
async fn ls_lists_one_folder() {
    let bench = ToolFixture::new().await;
    bench.assert_success("ls", json!({}), ".gitignore (8)\nblob (13)\nsrc/\ntarget/").await;
    bench.assert_success("ls", Value::Null, ".gitignore (8)\nblob (13)\nsrc/\ntarget/").await;
    bench.assert_success("ls", json!({"path": "src"}), "a.rs (25)\ndeep/").await;
    bench.assert_error("ls", json!({"path": ".."}), "outside the workspace").await;
    bench.assert_error("ls", json!({"path": "src/a.rs"}), "cannot be listed").await;
    bench.assert_error("ls", json!({"path": 1}), "bad arguments: invalid type").await;
}

#[tokio::test]
async fn read_file_shows_numbered_lines() {
    let bench = ToolFixture::new().await;
    bench
        .assert_success(
            "read_file",
            json!({"path": "src/a.rs"}),
            "     1\tfn a() {}\n     2\t// needle\n     3\tlast\n",
        )
        .await;
    bench
        .assert_success(
            "read_file",
            json!({"path": "src/a.rs", "offset": 2, "limit": 1}),
            "     2\t// needle\n[there is more; continue with offset 3]\n",
        )
        .await;
    bench.assert_error("read_file", json!({"path": "src/a.rs", "offset": 9}), "has only 3 lines").await;
    bench.assert_error("read_file", json!({}), "missing field `path`").await;
    bench.assert_error("read_file", json!({"path": "src"}), "is a folder").await;
    bench.assert_error("read_file", json!({"path": "nope"}), "ls or glob").await;
    bench.assert_error("read_file", json!({"path": "../secret"}), "outside the workspace").await;
    bench.assert_error("read_file", json!({"path": "blob"}), "binary file of 13 bytes").await;
}

#[tokio::test]
async fn read_file_output_is_bounded_for_every_file() {
    let bench = ToolFixture::new().await;
    fs::File::create(bench.workspace().join("sparse")).unwrap().set_len(1 << 30).unwrap();
    bench.assert_error("read_file", json!({"path": "sparse"}), "binary file of 1073741824 bytes").await;
    fs::write(bench.workspace().join("long"), "x".repeat(5_000_000)).unwrap();
    let (_, text) = bench.call("read_file", json!({"path": "long"})).await;
    assert!(text.len() < 1_100 && text.ends_with("x […]\n"));
    fs::write(bench.workspace().join("many"), "line\n".repeat(100_000)).unwrap();
    let (_, text) = bench.call("read_file", json!({"path": "many"})).await;
    assert!(text.len() < 60_000 && text.ends_with("[there is more; continue with offset 2001]\n"));
}

#[tokio::test]
async fn glob_and_grep_leave_out_ignored_files() {
    let bench = ToolFixture::new().await;
    bench.assert_success("glob", json!({"pattern": "*.rs"}), "src/a.rs\nsrc/deep/b.rs").await;
    bench.assert_success("glob", json!({"pattern": "src/*.rs"}), "src/a.rs").await;
    bench.assert_success("glob", json!({"pattern": "*.rs", "path": "src/deep"}), "src/deep/b.rs").await;
    bench.assert_success("glob", json!({"pattern": "*.py"}), "no file matches").await;
    bench.assert_error("glob", json!({"pattern": "../*"}), "leads outside").await;
    bench.assert_error("glob", json!({"pattern": "{"}), "bad pattern").await;
    bench.assert_success("grep", json!({"pattern": "needle"}), "src/a.rs:2:// needle").await;
    bench
        .assert_success(
            "grep",
            json!({"pattern": "FN", "ignore_case": true, "glob": "b.*"}),
            "src/deep/b.rs:1:fn b() {}",
        )
        .await;
    bench
        .assert_success("grep", json!({"pattern": "\\}$", "path": "src/a.rs"}), "src/a.rs:1:fn a() {}")
        .await;
    bench.assert_success("grep", json!({"pattern": "absent"}), "no line matches").await;
    bench.assert_error("grep", json!({"pattern": "("}), "bad pattern").await;
    bench.assert_error("grep", json!({"pattern": "x", "path": "/etc"}), "outside the workspace").await;
}

#[cfg(unix)]
#[tokio::test]
async fn k6_links_out_of_the_workspace_are_not_followed() {
    let bench = ToolFixture::new().await;
    std::os::unix::fs::symlink(Path::new("../secret"), bench.workspace().join("link")).unwrap();
    std::os::unix::fs::symlink(bench.folder.path(), bench.workspace().join("up")).unwrap();
    bench.assert_error("read_file", json!({"path": "link"}), "outside the workspace").await;
    bench.assert_error("read_file", json!({"path": "up/secret"}), "outside the workspace").await;
    bench.assert_error("ls", json!({"path": "up"}), "outside the workspace").await;
    bench.assert_success("grep", json!({"pattern": "needle"}), "src/a.rs:2:// needle").await;
    bench.assert_success("glob", json!({"pattern": "**/secret"}), "no file matches").await;
}

#[tokio::test]
async fn i5_a_cancelled_search_stops() {
    let bench = ToolFixture::new().await;
    bench.context.cancel.cancel();
    bench.assert_error("grep", json!({"pattern": "needle"}), "cancelled").await;
    bench.assert_error("glob", json!({"pattern": "*"}), "cancelled").await;
}

#[tokio::test]
async fn grep_shows_lines_around_a_match_or_only_files_or_counts() {
    let bench = ToolFixture::new().await;
    fs::write(bench.workspace().join("poem"), "one\ntwo\nthree needle\nfour\nfive\nsix\nseven needle\n")
        .unwrap();
    let poem = |more: Value| {
        let mut args = json!({"pattern": "needle", "path": "poem"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    bench
        .assert_success(
            "grep",
            poem(json!({"context": 1})),
            "poem-2-two\npoem:3:three needle\npoem-4-four\n--\npoem-6-six\npoem:7:seven needle",
        )
        .await;
    bench
        .assert_success(
            "grep",
            poem(json!({"context": 2})),
            "poem-1-one\npoem-2-two\npoem:3:three needle\npoem-4-four\npoem-5-five\npoem-6-six\npoem:7:seven needle",
        )
        .await;
    bench.assert_success("grep", json!({"pattern": "needle", "output": "files"}), "poem\nsrc/a.rs").await;
    bench
        .assert_success("grep", json!({"pattern": "needle", "output": "counts"}), "poem:2\nsrc/a.rs:1")
        .await;
    bench.assert_error("grep", json!({"pattern": "x", "output": "all"}), "unknown variant `all`").await;
    fs::write(bench.workspace().join("many"), "needle\n".repeat(1_000)).unwrap();
    let (_, text) = bench.call("grep", json!({"pattern": "needle", "path": "many"})).await;
    assert!(
        text.lines().count() == 201
            && text.ends_with("[there may be more; narrow the pattern, path or glob]")
    );
}

#[tokio::test]
async fn k4_searches_leave_out_secret_files_unless_they_are_named() {
    let bench = ToolFixture::new().await;
    fs::write(bench.workspace().join(".env"), "KEY=needle").unwrap();
    bench.assert_success("grep", json!({"pattern": "needle"}), "src/a.rs:2:// needle").await;
    bench.assert_success("glob", json!({"pattern": ".env*"}), "no file matches").await;
    // A call that names the file is judged by the rules, which ask about it.
    bench.assert_success("grep", json!({"pattern": "needle", "path": ".env"}), ".env:1:KEY=needle").await;
}

#[tokio::test]
async fn b16_images_and_documents_are_returned_by_hash_with_their_bytes_as_an_artifact() {
    let bench = ToolFixture::new().await;
    let png = [b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 100]].concat();
    fs::write(bench.workspace().join("a.png"), &png).unwrap();
    let output = bench.commit_output("read_file", json!({"path": "a.png"})).await;
    assert_eq!(output.status, ToolStatus::Success);
    let [
        ContentBlock::Text { text },
        ContentBlock::Media { media_type, sha256: Some(sha256), bytes: Some(108) },
    ] = output.content.as_slice()
    else {
        unreachable!("{:?}", output.content)
    };
    assert_eq!((text.as_str(), media_type.as_str()), ("image/png, 108 bytes", "image/png"));
    let stored = bench.context.store.artifact(bench.context.thread_id, sha256).await.unwrap().unwrap();
    assert_eq!((stored.bytes, stored.media_type.as_str()), (png, "image/png"));
    let again = bench.output("read_file", json!({"path": format!("artifact:{sha256}")})).await;
    assert_eq!(again.content, output.content, "a stored file can be viewed again");
    fs::write(bench.workspace().join("b.pdf"), "%PDF-1.7\n").unwrap();
    let output = bench.output("read_file", json!({"path": "b.pdf"})).await;
    assert!(
        matches!(&output.content[1], ContentBlock::Media { media_type, .. } if media_type == "application/pdf")
    );
    fs::write(bench.workspace().join("c.jpg"), [[0xff, 0xd8, 0xff].as_slice(), &[0; 4_000_000]].concat())
        .unwrap();
    bench.assert_error("read_file", json!({"path": "c.jpg"}), "only up to 3750000 bytes can be viewed").await;
}

#[tokio::test]
async fn a_byte_order_mark_is_not_shown() {
    let bench = ToolFixture::new().await;
    fs::write(bench.workspace().join("bom"), "\u{feff}one\ntwo\n").unwrap();
    bench.assert_success("read_file", json!({"path": "bom"}), "     1\tone\n     2\ttwo\n").await;
}

#[tokio::test]
async fn reviews_name_the_real_path() {
    let bench = ToolFixture::new().await;
    std::os::unix::fs::symlink("src/a.rs", bench.workspace().join("inner")).unwrap();
    let subject = |path: &str| vec![CallSubject::Path(path.into())];
    assert_eq!(
        bench.review("read_file", json!({"path": "src/../inner"})).await.subjects,
        subject("src/a.rs")
    );
    assert_eq!(bench.review("ls", json!({})).await.subjects, subject(""));
    assert_eq!(bench.review("grep", json!({"pattern": "x", "path": "src"})).await.subjects, subject("src"));
    assert_eq!(bench.review("read_file", json!({"path": "../secret"})).await.subjects, []);
    assert_eq!(bench.review("read_file", json!({"path": "artifact:abcdef12"})).await.subjects, []);
}

#[tokio::test]
async fn the_task_list_is_state_and_replaced_as_a_whole() {
    let bench = ToolFixture::new().await;
    let todos = json!([
        {"content": "parse", "status": "completed"},
        {"content": "print", "status": "in_progress"},
        {"content": "ship", "status": "pending"}
    ]);
    let output = bench.output("write_todos", json!({"todos": todos})).await;
    assert_eq!(joined_text(&output.content), "[x] parse\n[~] print\n[ ] ship");
    assert_eq!(output.update.channels[tools::TODOS_CHANNEL.key()], todos);
    bench.assert_success("write_todos", json!({"todos": []}), "(the list is empty)").await;
    bench
        .assert_error(
            "write_todos",
            json!({"todos": [{"content": " ", "status": "pending"}]}),
            "has no content",
        )
        .await;
    bench
        .assert_error(
            "write_todos",
            json!({"todos": [{"content": "a", "status": "done"}]}),
            "unknown variant",
        )
        .await;
}

#[tokio::test]
async fn a_stored_text_can_be_read_to_its_end_for_any_media_type_and_line_length() {
    let bench = ToolFixture::new().await;
    let artifact = |media_type: &str, bytes: Vec<u8>| {
        journal::Artifact::new(bench.context.thread_id, media_type, bytes, jiff::Timestamp::UNIX_EPOCH)
    };
    let json = artifact("application/json", format!("[{}]", "1,".repeat(100_000)).into_bytes());
    let binary = artifact("application/octet-stream", vec![0; 9]);
    let writes = [&json, &binary].map(|artifact| journal::Write::PutArtifact(artifact.clone()));
    let transaction = journal::Transaction { fence: None, writes: writes.to_vec() };
    bench.context.store.commit(transaction).await.unwrap();
    let (mut read, mut offset) = (String::new(), 1);
    loop {
        let path = format!("artifact:{}", &json.sha256[..16]);
        let (status, text) = bench.call("read_file", json!({"path": path, "offset": offset})).await;
        assert_eq!(status, ToolStatus::Success, "{text}");
        for line in text.lines() {
            match line.split_once('\t') {
                Some((_, content)) => read.push_str(content),
                None => assert!(line.starts_with("[there is more; continue with offset "), "{line}"),
            }
        }
        let Some((_, next)) = text.rsplit_once("continue with offset ") else { break };
        offset = next.trim_end_matches("]\n").parse().unwrap();
    }
    assert_eq!(read.into_bytes(), json.bytes, "the whole text is shown");
    let path = format!("artifact:{}", binary.sha256);
    bench
        .assert_error("read_file", json!({"path": path}), "is application/octet-stream of 9 bytes, not text")
        .await;
}
