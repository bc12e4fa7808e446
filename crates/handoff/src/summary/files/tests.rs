//! Tests of the inspected files: their state, the limits, and that nothing outside the folder is inspected.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use protocol::{
    AssistantId, CarriedFacts, CarriedFiles, Coverage, HandoffId, HandoffSummary, ReferencedFile,
    SummaryItem, SummaryItemKind, ThreadId,
};

use super::referenced_files;
use crate::limits::{REFERENCED_BYTES_MAX, REFERENCED_FILES_MAX};

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn summary(texts: &[&str], modified: &[&str]) -> HandoffSummary {
    let body = texts.iter().map(|text| SummaryItem {
        kind: SummaryItemKind::Progress,
        text: (*text).to_owned(),
        refs: Vec::new(),
        verified: true,
        unfound: Vec::new(),
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    });
    let carried = CarriedFacts {
        files: CarriedFiles {
            changed: modified.iter().map(|path| (*path).to_owned()).collect(),
            ..CarriedFiles::default()
        },
        ..CarriedFacts::default()
    };
    HandoffSummary {
        schema_version: 1,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: "T".to_owned(),
        tldr: "L".to_owned(),
        body: body.collect(),
        model: "extractive".to_owned(),
        model_run_id: None,
        run_id: None,
        notes: protocol::ReviewNotes::default(),
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carried,
    }
}

#[test]
fn invented_files_and_those_of_another_folder_are_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("top.md"), "top").unwrap();
    let paths = |files: Vec<ReferencedFile>| files.into_iter().map(|file| file.path).collect::<Vec<_>>();
    let mut invented = summary(&["See top.md and src/late.rs", "Wrote src/invented.rs."], &[]);
    invented.body[1].unfound = vec!["src/invented.rs".to_owned()];
    assert_eq!(paths(referenced_files(&invented, folder.path())), ["top.md", "src/late.rs"]);
    let elsewhere = summary(&["Changed src/a.rs, src/b.rs and src/c.rs."], &[]);
    assert_eq!(paths(referenced_files(&elsewhere, folder.path())), Vec::<String>::new());
}

/// Returns the inspected files, each as `path exists hash`.
fn describe_files(workspace: &Path, texts: &[&str], modified: &[&str]) -> String {
    let describe = |file: &ReferencedFile| {
        let hash = file.sha256.as_deref().map_or("-", |hash| if hash == EMPTY { "empty" } else { "hash" });
        format!("{} {} {hash}", file.path, file.exists)
    };
    referenced_files(&summary(texts, modified), workspace).iter().map(describe).collect::<Vec<_>>().join(", ")
}

#[test]
fn m14_files_are_listed_with_their_existence_and_their_hash() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::write(root.join("src/a.rs"), "").unwrap();
    fs::write(root.join("src/deep/b.rs"), "b").unwrap();
    fs::write(root.join("top.md"), "top").unwrap();
    let absolute = root.join("src/a.rs").display().to_string();
    for (texts, modified, expected) in [
        (
            &["Fixed src/a.rs:12 and `src/deep/b.rs`."][..],
            &[][..],
            "src/a.rs true empty, src/deep/b.rs true hash",
        ),
        (&["Changed in src: deep/b.rs"], &["src/deep/b.rs"], "src/deep/b.rs true hash"),
        (&["See top.md and gone.md, src/gone.rs"], &[], "top.md true hash, src/gone.rs false -"),
        (
            &["See ./src//a.rs and src/a.rs#L3"],
            &["src/a.rs", "src/late.rs"],
            "src/a.rs true empty, src/late.rs false -",
        ),
        (
            &["In src/deep/../deep/b.rs and and/or", "https://x.test/src/a.rs"],
            &[],
            "src/deep/../deep/b.rs true hash",
        ),
        (&[absolute.as_str()], &[], &format!("{absolute} true empty")),
        (&["nothing"], &[], ""),
    ] {
        assert_eq!(describe_files(root, texts, modified), expected, "{texts:?}");
    }
}

#[test]
fn nothing_outside_the_folder_is_inspected() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    let root = folder.path().join("work");
    fs::create_dir(&root).unwrap();
    fs::write(folder.path().join("near.txt"), "near").unwrap();
    fs::write(root.join("in.txt"), "in").unwrap();
    let outside_file = outside.path().join("secret.txt").display().to_string();
    let near = folder.path().join("work/../near.txt").display().to_string();
    let paths = ["../near.txt", "a/../../near.txt", "~/near.txt", "/etc/passwd", &outside_file, &near];
    assert_eq!(describe_files(&root, &[], &paths), "");
    assert_eq!(describe_files(&root, &["src/../in.txt"], &[]), "src/../in.txt true hash");
    assert_eq!(describe_files(&folder.path().join("no-such-folder"), &["a/b.txt"], &[]), "");
}

#[cfg(unix)]
#[test]
fn no_link_leads_out_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "secret").unwrap();
    fs::write(folder.path().join("real.txt"), "").unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
    link(outside.path(), "out");
    link(&outside.path().join("secret.txt"), "out.txt");
    link(&outside.path().join("gone.txt"), "dangling.txt");
    link(&folder.path().join("real.txt"), "inner.txt");
    let paths = ["out/secret.txt", "out.txt", "dangling.txt", "inner.txt"];
    assert_eq!(describe_files(folder.path(), &[], &paths), "inner.txt true empty");
}

#[test]
fn the_number_and_the_size_of_files_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let large = fs::File::create(folder.path().join("large.bin")).unwrap();
    large.set_len(REFERENCED_BYTES_MAX + 1).unwrap();
    assert_eq!(describe_files(folder.path(), &[], &["large.bin"]), "large.bin true -");
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/f0.rs"), "").unwrap();
    let many: Vec<String> = (0..REFERENCED_FILES_MAX + 20).map(|index| format!("src/f{index}.rs")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(referenced_files(&summary(&[], &many), folder.path()).len(), REFERENCED_FILES_MAX);
}
