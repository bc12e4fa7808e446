//! Path resolution: paths inside and outside the workspace in all their spellings.

use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

fn workspace() -> (tempfile::TempDir, Workspace) {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("work");
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::create_dir_all(outer.path().join("other")).unwrap();
    fs::write(outer.path().join("secret"), "s").unwrap();
    fs::write(root.join("src/a.rs"), "a").unwrap();
    symlink(outer.path(), root.join("up")).unwrap();
    symlink("../../other", root.join("src/aside")).unwrap();
    symlink("src/a.rs", root.join("inner")).unwrap();
    symlink("src/deep", root.join("deep")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let workspace = Workspace::open(&root).unwrap();
    (outer, workspace)
}

#[test]
fn k6_no_path_leads_out_of_the_workspace() {
    let (_outer, workspace) = workspace();
    let inside = workspace.root().join("src/a.rs");
    for path in ["src/a.rs", "./src/../src/a.rs", "inner", "deep/../a.rs", inside.to_str().unwrap()] {
        assert_eq!(workspace.resolve_existing(path).unwrap(), inside, "{path}");
    }
    for path in
        ["../secret", "/etc/passwd", "up/secret", "up", "src/../../secret", "..", "/", "src/aside/new"]
    {
        assert!(workspace.resolve_existing(path).unwrap_err().contains("outside the workspace"), "{path}");
        assert!(workspace.resolve(path).unwrap_err().contains("outside the workspace"), "{path}");
    }
    assert!(workspace.resolve_existing("../missing").unwrap_err().contains("outside the workspace"));
    assert!(workspace.resolve_existing("missing").unwrap_err().contains("there is no"));
    assert!(workspace.resolve("dangling").unwrap_err().contains("leads nowhere"));
}

#[test]
fn k6_the_existing_part_of_a_missing_path_is_resolved() {
    let (_outer, workspace) = workspace();
    let relative = |path: &str| workspace.resolve(path).map(|target| target.relative().to_owned());
    assert_eq!(relative("new/er/file"), Ok(PathBuf::from("new/er/file")));
    assert_eq!(relative("deep/new"), Ok(PathBuf::from("src/deep/new")));
    assert_eq!(relative("new/../src/x"), Ok(PathBuf::from("src/x")));
    assert_eq!(relative("new/../deep/x"), Ok(PathBuf::from("src/deep/x")));
    assert_eq!(relative("."), Ok(PathBuf::new()));
    assert!(relative("new/../../x").is_err());
    assert!(relative("new/../up/x").is_err());
}

#[test]
fn k6_command_words_that_name_a_path_outside_are_refused() {
    let (_outer, workspace) = workspace();
    assert_eq!(workspace.resolve_word("inner"), Ok(Some(PathBuf::from("src/a.rs"))));
    for word in ["../secret", "/etc/passwd", "up/secret", "src/aside", "/", "../new", "/api/v1", "up/new"] {
        assert!(workspace.resolve_word(word).is_err(), "{word}");
    }
    for word in ["HEAD~1", "*.rs", "a\0b", "missing"] {
        assert_eq!(workspace.resolve_word(word), Ok(None), "{word}");
    }
}

proptest! {
    #[test]
    fn k6_every_resolved_path_is_inside_the_workspace(
        parts in prop::collection::vec(
            prop::sample::select(vec!["..", ".", "src", "up", "deep", "inner", "new", "aside", "a.rs", "", "/"]), 0..8,
        )
    ) {
        let (_outer, workspace) = workspace();
        if let Ok(target) = workspace.resolve(&parts.join("/")) {
            // The deepest existing folder is inside, even if the path contains links.
            let absolute = target.absolute();
            let real = absolute.ancestors().find_map(|path| path.canonicalize().ok()).unwrap();
            prop_assert!(real.starts_with(workspace.root()), "{absolute:?}");
            prop_assert!(target.relative().components().all(|part| matches!(part, Component::Normal(_))));
        }
    }
}
