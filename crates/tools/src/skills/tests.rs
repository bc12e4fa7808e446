//! Skills on disk: discovery, precedence, notices, and the tool `load_skill`.

use std::fs::{create_dir_all, write};
use std::path::PathBuf;

use journal::SqliteStore;
use protocol::{Message, RunId, ThreadId};
use runtime::{Channels, FrameSender, RepeatSafety, ToolContext};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;

/// A folder with a workspace `work` and a home folder `home`, and the skills in both.
struct SkillFixture {
    folder: tempfile::TempDir,
    skills: Arc<Skills>,
}

impl SkillFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        create_dir_all(folder.path().join("work")).unwrap();
        let skills = Skills::new(&folder.path().join("home/skills"), &folder.path().join("work"));
        Self { folder, skills: Arc::new(skills) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn skill(&self, folder: &str, name: &str, description: &str) {
        create_dir_all(self.path(folder)).unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n\n# {name}\nDo it.\n");
        write(self.path(folder).join("SKILL.md"), text).unwrap();
    }

    fn names(&self) -> Vec<String> {
        self.skills
            .catalog()
            .skills
            .iter()
            .map(|skill| format!("{}: {}", skill.name, skill.description))
            .collect()
    }

    fn context(&self) -> ToolContext {
        ToolContext {
            thread_id: ThreadId::generate(),
            run_id: RunId::generate(),
            call_id: "c".to_owned(),
            workspace: self.path("work"),
            cancel: CancellationToken::new(),
            store: Arc::new(SqliteStore::in_memory().unwrap()),
            frames: FrameSender::default(),
            channels: Arc::new(Channels::new()),
            answers: Vec::new(),
        }
    }

    async fn load(&self, args: Value) -> String {
        let context = self.context();
        let tool = self.skills.tool();
        assert_eq!(tool.repeat_safety(), RepeatSafety::Safe);
        let output = tool.call(&args, &context).await;
        let message = protocol::ToolMessage {
            id: None,
            call_id: String::new(),
            name: None,
            content: output.content,
            status: output.status,
        };
        Message::Tool(message).text()
    }
}

#[test]
fn the_more_specific_skill_is_used_and_the_hidden_one_is_reported() {
    let fixture = SkillFixture::new();
    assert!(fixture.names().is_empty());
    fixture.skill("home/skills/a", "a", "from home");
    fixture.skill("home/skills/b", "b", "from home");
    fixture.skill("work/.segue/skills/a", "a", "from segue");
    fixture.skill("work/.agents/skills/a", "a", "from agents");
    fixture.skill("work/.claude/skills/c", "c", "from claude");
    assert_eq!(fixture.names(), ["a: from agents", "b: from home", "c: from claude"]);
    let notices = &fixture.skills.catalog().notices;
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(
        notices[0].contains("the skill `a` is hidden by") && notices[1].contains(".segue"),
        "{notices:?}"
    );
}

#[test]
fn an_invalid_skill_is_reported_and_the_others_work() {
    let fixture = SkillFixture::new();
    fixture.skill("home/skills/good", "good", "works");
    fixture.skill("home/skills/bad", "Bad Name", "d");
    fixture.skill("home/skills/twin", "good", "again");
    create_dir_all(fixture.path("home/skills/empty")).unwrap();
    create_dir_all(fixture.path("home/skills/odd/SKILL.md")).unwrap();
    write(fixture.path("home/skills/file"), "x").unwrap();
    create_dir_all(fixture.path("home/skills/binary")).unwrap();
    write(fixture.path("home/skills/binary/SKILL.md"), b"\xff\x00\xfe").unwrap();
    assert_eq!(fixture.names(), ["good: works"]);
    let notices = fixture.skills.catalog().notices.join("\n");
    assert_eq!(notices.lines().count(), 3, "{notices}");
    assert!(notices.contains("its name \"Bad Name\"") && notices.contains("is named `good`"), "{notices}");
}

#[test]
fn new_and_changed_skills_are_loaded_and_others_are_cached() {
    let fixture = SkillFixture::new();
    fixture.skill("home/skills/a", "a", "first");
    let first = fixture.skills.catalog();
    assert!(Arc::ptr_eq(&first, &fixture.skills.catalog()));
    fixture.skill("work/.claude/skills/b", "b", "new");
    assert_eq!(fixture.names(), ["a: first", "b: new"]);
    fixture.skill("home/skills/a", "a", "second");
    let file = std::fs::File::options().write(true).open(fixture.path("home/skills/a/SKILL.md")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(fixture.names(), ["a: second", "b: new"]);
    // Another file of the same size and time takes its place.
    fixture.skill("home/skills/other", "a", "fourth");
    let other = fixture.path("home/skills/other/SKILL.md");
    let file = std::fs::File::options().write(true).open(&other).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    std::fs::rename(&other, fixture.path("home/skills/a/SKILL.md")).unwrap();
    assert_eq!(fixture.names(), ["a: fourth", "b: new"]);
    std::fs::remove_dir_all(fixture.path("home")).unwrap();
    assert_eq!(fixture.names(), ["b: new"]);
}

#[cfg(unix)]
#[test]
fn a_skill_in_a_folder_that_was_missing_is_found_at_the_next_use() {
    use std::time::Duration;
    let fixture = SkillFixture::new();
    create_dir_all(fixture.path("home")).unwrap();
    for folder in ["home", "work"] {
        // The next change is a new version even within the resolution of the file system.
        let folder = std::fs::File::open(fixture.path(folder)).unwrap();
        folder.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    let later = SystemTime::now() + Duration::from_secs(3_600);
    let names = || -> Vec<String> {
        fixture.skills.catalog_at(later).skills.iter().map(|skill| skill.name.clone()).collect()
    };
    assert!(names().is_empty());
    let is_known = |fixture: &SkillFixture| fixture.skills.missing.lock().iter().all(Option::is_some);
    assert!(is_known(&fixture), "no folder is looked for again");
    assert!(names().is_empty() && is_known(&fixture));
    fixture.skill("work/.agents/skills/a", "a", "new");
    assert_eq!(names(), ["a"]);
    fixture.skill("home/skills/b", "b", "new");
    assert_eq!(names(), ["a", "b"]);
    std::fs::remove_dir_all(fixture.path("work/.agents")).unwrap();
    assert_eq!(names(), ["b"]);
}

#[tokio::test]
async fn a_skill_is_loaded_with_its_files() {
    let fixture = SkillFixture::new();
    fixture.skill("work/.claude/skills/pdf", "pdf", "reads");
    create_dir_all(fixture.path("work/.claude/skills/pdf/scripts")).unwrap();
    write(fixture.path("work/.claude/skills/pdf/scripts/run.py"), "print(1)\n").unwrap();
    write(fixture.path("work/.claude/skills/pdf/.hidden"), "").unwrap();
    write(fixture.path("work/.claude/skills/pdf/logo.png"), b"\x89\x00").unwrap();
    assert_eq!(
        fixture.load(json!({"name": "pdf"})).await,
        "# pdf\nDo it.\n\n[the skill's folder: .claude/skills/pdf]\n[its files, for load_skill:]\nlogo.png\n\
         scripts/run.py\n"
    );
    assert_eq!(fixture.load(json!({"name": "pdf", "file": "scripts/run.py"})).await, "print(1)\n");
    assert_eq!(
        fixture.load(json!({"name": "pdf", "file": "logo.png"})).await,
        "\"logo.png\" is a binary file of 2 bytes"
    );
    assert_eq!(fixture.load(json!({"name": "pdf", "file": "scripts"})).await, "\"scripts\" is no file");
    assert_eq!(fixture.load(json!({"name": "doc"})).await, "there is no skill \"doc\"; there are: pdf");
    assert!(fixture.load(json!({"name": "pdf", "path": "x"})).await.starts_with("bad arguments"));
}

#[cfg(unix)]
#[tokio::test]
async fn k6_nothing_outside_a_skills_folder_is_loaded() {
    use std::os::unix::fs::symlink;
    let fixture = SkillFixture::new();
    write(fixture.path("secret"), "s").unwrap();
    fixture.skill("outside", "outside", "a link leads here");
    fixture.skill("work/.claude/skills/a", "a", "d");
    symlink(fixture.path("secret"), fixture.path("work/.claude/skills/a/link")).unwrap();
    symlink(fixture.path("outside"), fixture.path("work/.claude/skills/outside")).unwrap();
    let absolute = fixture.path("secret");
    for file in ["../../../../secret", "link", absolute.to_str().unwrap()] {
        let text = fixture.load(json!({"name": "a", "file": file})).await;
        assert!(text.ends_with("is outside the skill's folder"), "{text}");
    }
    assert_eq!(fixture.names(), ["a: d"]);
    assert!(fixture.skills.catalog().notices[0].ends_with("it lies outside the workspace"));
    // The home folder is the user's own.
    create_dir_all(fixture.path("home/skills")).unwrap();
    symlink(fixture.path("outside"), fixture.path("home/skills/outside")).unwrap();
    assert_eq!(fixture.names(), ["a: d", "outside: a link leads here"]);
}

#[tokio::test]
async fn a_long_file_is_shown_in_part() {
    let fixture = SkillFixture::new();
    fixture.skill("home/skills/a", "a", "d");
    write(fixture.path("home/skills/a/long.txt"), "line\n".repeat(1_000_000)).unwrap();
    let text = fixture.load(json!({"name": "a", "file": "long.txt"})).await;
    assert!(text.len() < 64 * 1024 && text.contains("bytes left out]"), "{}", text.len());
    assert!(text.ends_with("[the file has 5000000 bytes; the rest was not read]"));
}

#[cfg(unix)]
#[tokio::test]
async fn k6_a_skill_that_contains_the_workspace_is_refused_and_read_rules_apply_to_skill_files() {
    use std::os::unix::fs::symlink;

    use crate::permission::{PermissionRules, PermissionVerdict, decide_call};
    let fixture = SkillFixture::new();
    fixture.skill("work", "evil", "all of it");
    fixture.skill("work/sub", "sub", "a part of it");
    write(fixture.path("work/sub/.env"), "S=hush").unwrap();
    write(fixture.path("work/sub/notes.md"), "n").unwrap();
    create_dir_all(fixture.path("work/.claude/skills")).unwrap();
    create_dir_all(fixture.path("home/skills")).unwrap();
    symlink("../..", fixture.path("work/.claude/skills/evil")).unwrap();
    symlink("../../sub", fixture.path("work/.claude/skills/sub")).unwrap();
    symlink(fixture.path("work"), fixture.path("home/skills/evil")).unwrap();
    assert_eq!(fixture.names(), ["sub: a part of it"]);
    assert!(fixture.skills.catalog().notices[0].ends_with("its folder holds the whole workspace"));
    fixture.skill("home/skills/mine", "mine", "of the user");

    let tool = fixture.skills.tool();
    let rules = |deny: &str| {
        let permissions = crate::permission::Permissions {
            deny: deny.split_whitespace().map(|rule| rule.parse().unwrap()).collect(),
            ..Default::default()
        };
        PermissionRules { permissions, trusted: vec!["load_skill".to_owned()], ..PermissionRules::default() }
    };
    for (args, deny, expected) in [
        (json!({"name": "sub", "file": ".env"}), "", "ask"),
        (json!({"name": "sub", "file": "../sub/.env"}), "", "ask"),
        (json!({"name": "sub"}), "", "allow"),
        (json!({"name": "sub", "file": "notes.md"}), "", "allow"),
        (json!({"name": "sub", "file": "notes.md"}), "read_file(sub/**)", "deny"),
        (json!({"name": "sub", "file": "notes.md"}), "load_skill", "deny"),
        (json!({"name": "mine"}), "", "allow"),
    ] {
        let review = tool.review(&args, &fixture.context()).await;
        let verdict = match decide_call(&rules(deny), "load_skill", &review) {
            PermissionVerdict::Allow { .. } => "allow",
            PermissionVerdict::Ask { .. } => "ask",
            PermissionVerdict::Deny { .. } => "deny",
        };
        assert_eq!(verdict, expected, "{args} {deny}");
    }
}
