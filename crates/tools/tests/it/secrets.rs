//! Files of secrets: no tool and no read-only line shows their content without approval, also if a repository has
//! committed them and its attributes ask git to show them.

use std::fs;
use std::path::Path;
use std::process::Command;

use protocol::message::joined_text;
use serde_json::json;
use tools::permission::{PermissionRules, PermissionVerdict, decide_call};

use crate::bench::ToolFixture;

/// A word in the content of every file of secrets.
const MARKER: &str = "hush-1f0c";
/// A word in the content of every ordinary file.
const ORDINARY: &str = "plain-7d2e";

/// Files that usually contain secrets.
const SECRET_FILES: &[&str] = &[
    ".env",
    ".env.local",
    "prod.env",
    ".envrc",
    ".dev.vars",
    "server.pem",
    "server.key",
    "AuthKey.p8",
    "store.p12",
    "store.pfx",
    "release.keystore",
    "release.jks",
    "putty.ppk",
    "vault.kdbx",
    "office.ovpn",
    "id_rsa",
    "id_rsa.bak",
    "id_ed25519_work",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "prod.tfvars",
    "prod.tfvars.json",
    "secrets.yml",
    "secrets.json",
    "secret.yaml",
    ".secrets",
    "credentials.json",
    "my-service-account.json",
    "client_secret_1.json",
    "application_default_credentials.json",
    "token.json",
    ".aws/credentials",
    ".aws/config",
    ".cargo/credentials.toml",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".kube/config",
    ".m2/settings.xml",
    ".ssh/work",
    ".gnupg/trustdb.gpg",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".htpasswd",
    ".vault-token",
    "wp-config.php",
    ".bash_history",
    "deep/er/.Env.Production",
    ".env~",
    ".env.bak~",
    ".pgpass.bak",
    ".npmrc.bak",
    "tls.key.old",
    "key.pem.txt",
    ".kube/config.bak",
    ".git-credentials.orig",
    ".id_rsa.swp",
    ".password",
    "passwords.txt",
    "Password.txt",
    "secret.txt",
    "vault_pass.txt",
    ".rclone.conf",
    ".token.json",
    "kubeconfig.yaml",
    "home/.gradle/gradle.properties",
    ".yarnrc.yml",
    ".composer/auth.json",
    ".claude.json",
    ".mcp.json",
    ".pip/pip.conf",
    ".nuget/NuGet.Config",
    ".snowflake/config.toml",
    "group_vars/all/vault.yml",
    "deploy/host_vars/vault.yaml",
    ".s3curl",
    ".fetchmailrc",
    ".muttrc",
    ".config/hub",
    ".circleci/cli.yml",
    "appsettings.Production.json",
    "gcp-key.json",
    "deploy_key",
    "private-key.txt",
    ".Renviron",
    ".viminfo",
    "etc/shadow",
];
/// Files with similar names that contain no secrets.
const ORDINARY_FILES: &[&str] = &[
    ".env.example",
    ".env.sample",
    ".env.template",
    "prod.env.dist",
    "environment.ts",
    "vite-env.d.ts",
    "src/key.rs",
    "keys.go",
    "keyboard.json",
    "monkey.txt",
    "main.tf",
    "variables.tf",
    "terraform.tfvars.example",
    "src/secret.rs",
    "src/secrets.rs",
    "secrets.py",
    "secret_store.go",
    "docs/secrets.md",
    "credentials.py",
    "src/credentials/mod.rs",
    "credentials.yml.enc",
    "token.ts",
    "token.rs",
    "tokens.json",
    "tokenizer.json",
    "locales/en/auth.json",
    "auth.go",
    "config.json",
    "conf/docker/config.json",
    "src/config.rs",
    ".cargo/config.toml",
    ".config/nextest.toml",
    "inventory/hosts.yml",
    "settings.xml",
    ".gitignore",
    ".github/workflows/ci.yml",
    "package.json",
    "Cargo.lock",
    "wp-config-sample.php",
    "history.rs",
    "certificate.crt",
    "conf/kube/config",
    "pkg/kubeconfig/load.go",
    "vault.rs",
    "passwords.rs",
    "src/auth.ts",
    "password_reset.py",
    "passwords.md",
    "secret_garden.txt",
    "api_keys.md",
    "src/private_key.rs",
    "deploy_keys.go",
    "gradle.properties",
    "android/gradle.properties",
    "NuGet.Config",
    "snowflake/config.toml",
    ".circleci/config.yml",
    "etc/hosts",
    "shadow.css",
    "group_vars/all/main.yml",
    "appsettings.json",
    "appsettings.Development.json",
    "gcp.go",
    "pip.rs",
    "kubeconfig.go",
    "yarn.lock",
    "mcp.rs",
    "src/backup.rs",
    "old.txt",
    "a/.config/starship.toml",
];

/// Writes a file and the folders before it.
fn write(work: &Path, name: &str, text: &str) {
    fs::create_dir_all(work.join(name).parent().unwrap()).unwrap();
    fs::write(work.join(name), text).unwrap();
}

/// Runs git and returns its output, or `None` without git.
fn git(work: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(work).args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"]).args(words);
    let output = command.output().ok()?;
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn commit_all(work: &Path, message: &str) -> Option<String> {
    git(work, &["add", "-f", "."])?;
    git(work, &["commit", "-q", "--allow-empty", "-m", message])?;
    git(work, &["rev-parse", "HEAD"])
}

async fn is_allowed(bench: &ToolFixture, tool: &str, args: serde_json::Value) -> bool {
    let review = bench.review(tool, args).await;
    matches!(decide_call(&PermissionRules::default(), tool, &review), PermissionVerdict::Allow { .. })
}

async fn output(bench: &ToolFixture, line: &str) -> String {
    joined_text(&bench.output("execute", json!({"command": line})).await.content)
}

/// The output of a line that must be allowed and must not contain [`MARKER`].
async fn allowed_output(bench: &ToolFixture, line: &str) -> String {
    assert!(is_allowed(bench, "execute", json!({"command": line})).await, "{line}");
    let text = output(bench, line).await;
    assert!(!text.contains(MARKER), "{line}: {text}");
    text
}

#[tokio::test]
async fn k4_reading_a_file_of_secrets_by_its_name_needs_approval() {
    let bench = ToolFixture::new().await;
    for (names, text, expected) in [(SECRET_FILES, MARKER, false), (ORDINARY_FILES, ORDINARY, true)] {
        for name in names {
            write(&bench.workspace(), name, text);
            let line = format!("cat {name}");
            assert_eq!(is_allowed(&bench, "execute", json!({"command": line})).await, expected, "{name}");
            assert_eq!(is_allowed(&bench, "read_file", json!({"path": name})).await, expected, "{name}");
            let grep = json!({"pattern": "x", "path": name});
            assert_eq!(is_allowed(&bench, "grep", grep).await, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn k4_a_search_shows_ordinary_files_and_no_file_of_secrets() {
    let bench = ToolFixture::new().await;
    for (names, text) in [(SECRET_FILES, MARKER), (ORDINARY_FILES, ORDINARY)] {
        names.iter().for_each(|name| write(&bench.workspace(), name, text));
    }
    // A word of `.gitignore` would hide files from ripgrep and from the tool.
    let everything = format!("{MARKER}|{ORDINARY}");
    let (_, found) = bench.call("grep", json!({"pattern": everything, "output": "files"})).await;
    let by_grep = allowed_output(&bench, &format!("grep -rnE '{everything}' .")).await;
    let by_ripgrep = allowed_output(&bench, &format!("rg -n --hidden --no-ignore '{everything}'")).await;
    for name in SECRET_FILES {
        assert!(!found.lines().any(|line| line == *name), "{name}: {found}");
    }
    assert!(!found.contains(MARKER), "{found}");
    for name in ORDINARY_FILES {
        assert!(found.contains(name), "{name}: {found}");
        assert!(by_grep.contains(name), "{name}: {by_grep}");
        // Without ripgrep on this machine, the shell reports that there is no such program.
        assert!(!by_ripgrep.contains(ORDINARY) || by_ripgrep.contains(name), "{name}: {by_ripgrep}");
    }
}

/// A repository whose history contains files of secrets, and whose attributes ask git to show them.
struct Repository {
    /// The commit with the files of secrets.
    first: String,
    /// The id of the content of `.env` in this commit.
    blob: String,
    /// The id of another content of `.env`.
    changed_blob: String,
}

fn fill_repository(work: &Path) -> Option<Repository> {
    git(work, &["init", "-q"])?;
    for (names, text) in [(SECRET_FILES, MARKER), (ORDINARY_FILES, ORDINARY)] {
        names.iter().for_each(|name| write(work, name, &format!("{text}\n")));
    }
    let attributes = "* text diff\n.env text diff\n*.pem text diff\n";
    write(work, ".gitattributes", attributes);
    fs::create_dir_all(work.join(".git/info")).unwrap();
    fs::write(work.join(".git/info/attributes"), attributes).unwrap();
    let first = commit_all(work, "first")?;
    let blob = git(work, &["rev-parse", "HEAD:.env"])?;
    for name in SECRET_FILES {
        write(work, name, &format!("{MARKER} changed\n"));
    }
    commit_all(work, "only secrets")?;
    let changed_blob = git(work, &["rev-parse", "HEAD:.env"])?;
    git(work, &["tag", "content", &blob])?;
    git(work, &["tag", "-a", "release", "-m", "release", &first])?;
    git(work, &["rm", "-q", "-r", ".env", ".aws"])?;
    commit_all(work, "removed")?;
    commit_all(work, "empty")?;
    write(work, "src/key.rs", &format!("{ORDINARY} changed\n"));
    write(work, "server.pem", &format!("{MARKER} again\n"));
    Some(Repository { first, blob, changed_blob })
}

#[tokio::test]
async fn k4_git_shows_no_committed_secret_although_attributes_ask_for_it() {
    let bench = ToolFixture::new().await;
    let Some(Repository { first, .. }) = fill_repository(&bench.workspace()) else {
        println!("skipped: no git on this machine");
        return;
    };
    let short = &first[..7];
    for (line, expected) in [
        ("git log -p".to_owned(), ORDINARY),
        (format!("git log -p -S{MARKER}"), ""),
        (format!("git log -G {MARKER} -p"), ""),
        ("git log -p --all -U5 --graph".to_owned(), ORDINARY),
        ("git log -p -- .".to_owned(), ORDINARY),
        ("git log -p -- ':(top)' ':(glob)**/.e*'".to_owned(), ORDINARY),
        ("git log -p '*.rs'".to_owned(), ORDINARY),
        (format!("git show {first}"), ORDINARY),
        (format!("git show {short}"), ORDINARY),
        ("git show release".to_owned(), ORDINARY),
        (format!("git show {short} .cargo .env.example"), ORDINARY),
        ("git show HEAD~2".to_owned(), "only secrets"),
        ("git show ':/only secrets'".to_owned(), "only secrets"),
        ("git show --stat HEAD~2".to_owned(), ".env"),
        ("git diff".to_owned(), ORDINARY),
        ("git diff src".to_owned(), ORDINARY),
        (format!("git diff {first} HEAD"), ""),
        (format!("git diff {short}..HEAD --word-diff"), ""),
        (format!("git diff --name-only {first}...HEAD"), ".aws/credentials"),
        ("git show HEAD:src/key.rs".to_owned(), ORDINARY),
        (format!("git diff HEAD:src/key.rs {short}:src/secret.rs"), ""),
        ("git blame src/key.rs".to_owned(), ORDINARY),
        ("git ls-files -s".to_owned(), "src/key.rs"),
    ] {
        let text = allowed_output(&bench, &line).await;
        assert!(
            text.contains(expected) && !text.contains("fatal:") && !text.contains("sage:"),
            "{line}: {text}"
        );
    }
    let commits = allowed_output(&bench, "git log -p --oneline").await;
    for message in ["first", "only secrets", "removed", "empty"] {
        assert!(commits.contains(message), "a commit without shown changes is listed: {commits}");
    }
    // A search for a guess must not tell whether a secret contains it.
    assert_eq!(
        allowed_output(&bench, &format!("git log --oneline -S{MARKER} --no-patch")).await,
        "(no output)"
    );
}

#[tokio::test]
async fn k4_the_content_of_an_object_of_git_needs_approval() {
    let bench = ToolFixture::new().await;
    let Some(Repository { first, blob, changed_blob }) = fill_repository(&bench.workspace()) else {
        println!("skipped: no git on this machine");
        return;
    };
    let short = &blob[..8];
    for line in [
        format!("git show {blob}"),
        format!("git show {short}"),
        format!("git show --stat {blob}"),
        format!("git show -s {blob}"),
        format!("git show '{blob}^{{blob}}'"),
        format!("git show HEAD {blob}"),
        format!("git show x-g{blob}"),
        format!("git show {blob} --"),
        "git show content".to_owned(),
        format!("git diff {blob} {changed_blob}"),
        format!("git diff {blob}..{changed_blob}"),
        format!("git diff {first}:.env..{changed_blob}"),
        format!("git diff {first}:.env..HEAD:src/key.rs"),
        format!("git diff {first}: HEAD:"),
        format!("git diff {first}:.aws HEAD:src"),
        format!("git show {first}:.env"),
        format!("git show {first}:.aws/credentials"),
        format!("git show {first}:.kube/config"),
        "git show :server.pem".to_owned(),
        "git show :0:.ssh/work".to_owned(),
        "git blame server.pem".to_owned(),
        format!("git blame {first} -- .env"),
        "git log -p -- .env".to_owned(),
        "git log -p --follow src/key.rs".to_owned(),
        format!("git log --find-object={blob} -p"),
        format!("git cat-file -p {blob}"),
        "git stash show -p".to_owned(),
        "git config --list".to_owned(),
        "git remote -v".to_owned(),
        "cat .git/config".to_owned(),
    ] {
        assert!(!is_allowed(&bench, "execute", json!({"command": line})).await, "{line}");
    }
    // After approval, the lines show what they name.
    for line in [
        format!("git show {blob}"),
        format!("git log -p --all {first} -- .env"),
        format!("git show {first}:.env"),
    ] {
        let text = output(&bench, &line).await;
        assert!(text.contains(MARKER), "{line}: {text}");
    }
}

#[tokio::test]
async fn k4_no_file_of_the_repository_turns_off_the_check() {
    let bench = ToolFixture::new().await;
    let work = bench.workspace();
    let Some(Repository { blob, .. }) = fill_repository(&work) else {
        println!("skipped: no git on this machine");
        return;
    };
    // Names that git could take for a revision, for a path, or for the answer of the check.
    write(&work, &format!("{blob}^{{commit}}"), "x");
    write(&work, ":(top,exclude,icase,glob)**/*.pem", "x");
    write(&work, "(top,exclude,icase,glob)**/*.pem", "x");
    commit_all(&work, "names");
    assert!(!is_allowed(&bench, "execute", json!({"command": format!("git show {blob}")})).await);
    for line in ["git log -p", "git show HEAD~3", "git show", "git diff HEAD~3"] {
        allowed_output(&bench, line).await;
    }
}

#[tokio::test]
async fn k4_git_shows_no_secret_in_a_workspace_inside_a_repository() {
    let bench = ToolFixture::new().await;
    let Some(Repository { first, blob, .. }) = fill_repository(bench.folder.path()) else {
        println!("skipped: no git on this machine");
        return;
    };
    write(&bench.workspace(), ".env", &format!("{MARKER}\n"));
    write(&bench.workspace(), "a.txt", &format!("{ORDINARY}\n"));
    commit_all(bench.folder.path(), "inside");
    for line in ["git log -p", "git show", &format!("git diff {first}"), &format!("git log -p -S{MARKER}")] {
        allowed_output(&bench, line).await;
    }
    assert!(allowed_output(&bench, "git log -p").await.contains(ORDINARY));
    assert!(!is_allowed(&bench, "execute", json!({"command": format!("git show {blob}")})).await);
}
