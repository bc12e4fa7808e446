//! Detection of files that usually contain secrets, by their path alone. No file is read.
//!
//! The tables follow the signatures of secret scanners that are maintained in the open (gitrob, shhgit, gitleaks,
//! TruffleHog) and the documentation of the tools that write such files. To keep source code readable, a name without
//! a distinctive extension is listed in full, so `secrets.yml` is listed and `secrets.rs` is not. The globs are also
//! options of ripgrep, grep and git, which have no common syntax for alternatives, so none of them uses braces.
//!
//! Only what is known about a path can be judged: if the workspace itself is a folder such as `.kube`, then a path
//! relative to it does not tell that `config` contains secrets.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Names of files that usually contain secrets, as globs over the file name. Matching ignores case. A name that begins with
/// a letter stands for the hidden file of this name too, so `rclone.conf` also means `.rclone.conf`.
const SECRET_NAMES: &[&str] = &[
    // Environment files.
    "*.env",
    ".env.*",
    "*.env.local",
    ".envrc",
    ".dev.vars",
    ".flaskenv",
    // Private keys and key stores.
    "*.pem",
    "*.key",
    "*.p8",
    "*.pk8",
    "*.p12",
    "*.pfx",
    "*.pkcs12",
    "*.keystore",
    "*.jks",
    "*.bks",
    "*.jceks",
    "*.ppk",
    "*.kdb",
    "*.kdbx",
    "*.psafe3",
    "*.agekey",
    "*.keytab",
    "*.keychain",
    "*.ovpn",
    "id_rsa",
    "id_rsa.*",
    "id_rsa[-_]*",
    "id_dsa",
    "id_dsa.*",
    "id_dsa[-_]*",
    "id_ecdsa",
    "id_ecdsa.*",
    "id_ecdsa[-_]*",
    "id_ed25519",
    "id_ed25519.*",
    "id_ed25519[-_]*",
    "secring.*",
    "otr.private_key",
    "deploy_key",
    "deploy-key",
    "*private[-_]key.txt",
    "privatekey.txt",
    "*.key.txt",
    "*.pem.txt",
    "wallet.dat",
    // Infrastructure.
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "*.tfvars.json",
    ".terraformrc",
    "terraform.rc",
    "credentials.tfrc.json",
    "kubeconfig",
    "*.kubeconfig",
    "*kubeconfig.yaml",
    "*kubeconfig.yml",
    "*.publishsettings",
    "local.settings.json",
    "appsettings.production.json",
    ".vault-token",
    ".vault_pass*",
    ".vault-pass*",
    "vault_pass",
    "vault_pass.txt",
    "vault-pass",
    "vault-pass.txt",
    "vault-password*",
    "vault_password*",
    ".dockercfg",
    ".dockerconfigjson",
    // Files that are named after their content.
    ".secrets",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
    "secrets.ini",
    "secrets.properties",
    "secrets.txt",
    "secret.yml",
    "secret.yaml",
    "secret.json",
    "secret.toml",
    "secret.txt",
    ".password",
    ".passwords",
    ".passwd",
    "password.txt",
    "passwords.txt",
    "passwords.csv",
    "api_key.txt",
    "api-key.txt",
    "apikey.txt",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.xml",
    "credentials.yml",
    "credentials.yaml",
    "credentials.ini",
    "credentials.csv",
    "credentials.db",
    "credentials.txt",
    "*service-account*.json",
    "*service_account*.json",
    "*serviceaccount*.json",
    "*firebase-adminsdk*.json",
    "gcp*key*.json",
    "gcloud*key*.json",
    "client_secret*.json",
    "application_default_credentials.json",
    "access_tokens.db",
    "accesstokens.json",
    "msal_token_cache.*",
    "oauth_creds.json",
    "token.json",
    // Logins of tools.
    ".netrc",
    "_netrc",
    ".authinfo",
    ".pgpass",
    "pgpass.conf",
    ".my.cnf",
    ".mylogin.cnf",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    "pip.conf",
    ".renviron",
    ".git-credentials",
    ".htpasswd",
    ".s3cfg",
    ".s3curl",
    ".boto",
    ".databrickscfg",
    ".sentryclirc",
    ".msmtprc",
    ".fetchmailrc",
    ".muttrc",
    ".claude.json",
    ".mcp.json",
    ".smbcredentials",
    "rclone.conf",
    "sftp-config.json",
    ".ftpconfig",
    "wp-config.php",
    "logins.json",
    "key4.db",
    // Histories of shells and databases.
    ".*_history",
    "fish_history",
    ".viminfo",
];
/// Names of files that usually contain secrets if no folder is before them, so in the workspace itself. In other folders
/// they are ordinary files, such as translations. The globs for other programs don't contain these names.
const TOP_NAMES: &[&str] = &["auth.json"];
/// Paths of files that usually contain secrets although their name alone does not tell, as globs over the folders and
/// the file name at the end of a path. Matching ignores case. Their folders contain the files of one tool and of one user.
const SECRET_PATHS: &[&str] = &[
    ".aws/config",
    ".codex/auth.json",
    ".composer/auth.json",
    ".config/doctl/config.yaml",
    ".config/gh/hosts.yml",
    ".config/glab-cli/config.yml",
    ".docker/config.json",
    ".fly/config.yml",
    ".git/config",
    ".git/config.worktree",
    ".git/modules/*/config",
    ".gnupg/*",
    ".gradle/gradle.properties",
    ".kube/config",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".nuget/nuget.config",
    ".snowflake/config.toml",
    ".snowflake/connections.toml",
    ".ssh/*",
];
/// Like [`SECRET_PATHS`], for files in folders that contain ordinary files of a repository too.
const SHARED_FOLDER_PATHS: &[&str] = &[
    ".circleci/cli.yml",
    ".config/hub",
    "etc/gshadow",
    "etc/shadow",
    "group_vars/**/vault.yaml",
    "group_vars/**/vault.yml",
    "host_vars/**/vault.yaml",
    "host_vars/**/vault.yml",
];
/// Names of [`SECRET_NAMES`] that source folders have too. A program that would leave out such a folder gets
/// [`FOLDER_NAME_PATHS`] instead.
const FOLDER_NAMES: &[&str] = &["credentials", "kubeconfig"];
/// The well-known paths of files with a name from [`FOLDER_NAMES`].
const FOLDER_NAME_PATHS: &[&str] =
    &[".aws/credentials", ".cargo/credentials", ".gem/credentials", ".kube/kubeconfig"];
/// The glob whose matches include files of examples that are usually committed.
const OPEN_ENVIRONMENT_GLOB: &str = ".env.*";
/// Endings of names of example files, which contain no secrets although their name matches a glob.
const EXAMPLE_SUFFIXES: &[&str] = &[".example", ".sample", ".template", ".dist"];
/// Endings that editors, tools and people add to the name of a file for a copy of it. The copy contains what the file
/// contained.
const BACKUP_SUFFIXES: &[&str] = &["~", ".backup", ".bak", ".copy", ".old", ".orig", ".save", ".swp", ".tmp"];
/// Ending of names of public keys.
const PUBLIC_KEY_SUFFIX: &str = ".pub";
/// Files in the folders of [`SECRET_PATHS`] that contain public keys only.
const PUBLIC_NAMES: &[&str] = &["known_hosts", "known_hosts.old", "authorized_keys"];

/// The compiled globs of [`SECRET_NAMES`], with their hidden forms.
static NAME_GLOBS: LazyLock<GlobSet> = LazyLock::new(|| compile_globs(name_globs(), ""));
/// The compiled globs of [`SECRET_PATHS`] and [`SHARED_FOLDER_PATHS`].
static PATH_GLOBS: LazyLock<GlobSet> =
    LazyLock::new(|| compile_globs(SECRET_PATHS.iter().chain(SHARED_FOLDER_PATHS), "**/"));

/// Returns whether the path suggests that the file contains secrets: its name, or its name together with the folders
/// before it. `path` may be relative. A backup copy is judged like the file of which it is a copy.
pub fn looks_secret(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let text = name.to_string_lossy().to_ascii_lowercase();
    let original = original_name(&text);
    // `./a//b` becomes `./a/b`, as the globs expect it.
    let path: PathBuf = path.components().collect();
    let is_public = EXAMPLE_SUFFIXES.iter().any(|end| original.ends_with(end))
        || original.ends_with(PUBLIC_KEY_SUFFIX)
        || PUBLIC_NAMES.contains(&original);
    !is_public && (matches_globs(&path) || matches_globs(&path.with_file_name(original)))
}

/// Returns whether a path, of which the last component is a file name, matches one of the tables.
fn matches_globs(path: &Path) -> bool {
    let is_at_top = path.parent().is_none_or(|folder| folder == Path::new("") || folder == Path::new("."));
    path.file_name().is_some_and(|name| {
        NAME_GLOBS.is_match(name)
            || is_at_top && TOP_NAMES.iter().any(|top_name| name.eq_ignore_ascii_case(top_name))
    }) || PATH_GLOBS.is_match(path)
}

/// Returns the name without [`BACKUP_SUFFIXES`] at its end.
fn original_name(mut name: &str) -> &str {
    let shorter = |name: &str| -> Option<usize> {
        let suffix = BACKUP_SUFFIXES.iter().find(|suffix| name.ends_with(**suffix))?;
        Some(name.len() - suffix.len()).filter(|length| *length > 0)
    };
    while let Some(length) = shorter(name) {
        name = &name[..length];
    }
    name
}

/// Returns the globs of [`SECRET_NAMES`], each followed by the glob of the hidden file of the same name if it begins with
/// a letter.
fn name_globs() -> impl Iterator<Item = String> {
    SECRET_NAMES.iter().flat_map(|name| {
        let hidden = name.starts_with(|first: char| first.is_ascii_lowercase()).then(|| format!(".{name}"));
        std::iter::once((*name).to_owned()).chain(hidden)
    })
}

/// Returns globs over file names for programs that can leave out files by their name. They match in one case only, and
/// they don't match environment files of examples.
///
/// They match backup copies of all files: globs for the copies of each name would together be longer than one argument of
/// a program may be on Linux (128 KiB).
pub(crate) fn secret_name_globs() -> Vec<String> {
    let names = name_globs().filter(|name| name != OPEN_ENVIRONMENT_GLOB);
    let backups = BACKUP_SUFFIXES.iter().map(|suffix| format!("*{suffix}"));
    names.chain(environment_globs()).chain(backups).collect()
}

/// Returns globs over the ends of paths that complete [`secret_name_globs`].
pub(crate) fn secret_path_globs() -> impl Iterator<Item = &'static str> {
    SECRET_PATHS.iter().chain(SHARED_FOLDER_PATHS).chain(FOLDER_NAME_PATHS).copied()
}

/// Returns the names of the files of [`SHARED_FOLDER_PATHS`], for programs that can leave out files only by name. Such a
/// program leaves out files with these names in all folders.
pub(crate) fn shared_folder_names() -> Vec<&'static str> {
    let mut names: Vec<_> = SHARED_FOLDER_PATHS.iter().filter_map(|path| path.rsplit('/').next()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns whether a glob of [`secret_name_globs`] may also match a source folder. [`secret_path_globs`] contains the
/// well-known files with such a name.
pub(crate) fn is_folder_name(glob: &str) -> bool {
    FOLDER_NAMES.contains(&glob)
}

/// Returns the names of the folders that contain the files of [`SECRET_PATHS`], for programs that can leave out files
/// only by name. Such a program leaves out the other files of these folders too.
pub(crate) fn secret_folders() -> Vec<&'static str> {
    let mut folders: Vec<_> = SECRET_PATHS.iter().filter_map(|path| path.rsplit('/').nth(1)).collect();
    folders.retain(|folder| *folder != "*");
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// Returns globs that match the same names as [`OPEN_ENVIRONMENT_GLOB`], without those that end with one of
/// [`EXAMPLE_SUFFIXES`]. A glob cannot exclude a word, so the result has one glob for each character that differs from
/// the suffixes: for the suffix `.ab` alone these would be `.env*[!b]`, `.env*[!a]b` and `.env*[!.]ab`.
fn environment_globs() -> Vec<String> {
    let stem = OPEN_ENVIRONMENT_GLOB.trim_end_matches(".*");
    let mut ends: Vec<&str> =
        EXAMPLE_SUFFIXES.iter().flat_map(|suffix| (1..=suffix.len()).map(|at| &suffix[at..])).collect();
    ends.sort_unstable();
    ends.dedup();
    let before = |end: &str| {
        let mut letters: Vec<char> = EXAMPLE_SUFFIXES
            .iter()
            .filter_map(|suffix| suffix.strip_suffix(end)?.chars().next_back())
            .collect();
        letters.sort_unstable();
        letters.dedup();
        letters.into_iter().collect::<String>()
    };
    let mut globs: Vec<String> = ends.iter().map(|end| format!("{stem}.*[!{}]{end}", before(end))).collect();
    // The part after the dot may be shorter than an end and the character before it.
    globs.extend(ends.iter().filter(|end| !end.is_empty()).map(|end| format!("{stem}.{end}")));
    globs.retain(|glob| !EXAMPLE_SUFFIXES.iter().any(|suffix| *glob == format!("{stem}{suffix}")));
    globs
}

/// Compiles globs with `prefix` before each of them.
fn compile_globs(globs: impl IntoIterator<Item = impl AsRef<str>>, prefix: &str) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let glob = GlobBuilder::new(&format!("{prefix}{}", glob.as_ref()))
            .case_insensitive(true)
            .literal_separator(true)
            .build()
            .expect("the globs are constants that the tests compile");
        set.add(glob);
    }
    set.build().expect("the globs are constants that the tests compile")
}

#[cfg(test)]
mod tests;
