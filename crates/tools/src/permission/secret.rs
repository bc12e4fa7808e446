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

/// Names of files that usually contain secrets, as globs over the file name. Matching ignores case.
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
    "*.publishsettings",
    "local.settings.json",
    ".vault-token",
    ".vault_pass*",
    ".vault-pass*",
    "vault-password*",
    "vault_password*",
    ".dockercfg",
    ".dockerconfigjson",
    // Files that are named after their content.
    ".secrets",
    ".secrets.toml",
    ".secrets.json",
    ".secrets.yml",
    ".secrets.yaml",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
    "secrets.ini",
    "secrets.properties",
    "secret.yml",
    "secret.yaml",
    "secret.json",
    "secret.toml",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.xml",
    "credentials.yml",
    "credentials.yaml",
    "credentials.ini",
    "credentials.csv",
    "credentials.db",
    ".credentials",
    ".credentials.json",
    "*service-account*.json",
    "*service_account*.json",
    "*serviceaccount*.json",
    "*firebase-adminsdk*.json",
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
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".s3cfg",
    ".boto",
    ".databrickscfg",
    ".sentryclirc",
    ".msmtprc",
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
];
/// Paths of files that usually contain secrets although their name alone does not tell, as globs over the folders and
/// the file name at the end of a path. Matching ignores case.
const SECRET_PATHS: &[&str] = &[
    ".aws/config",
    ".codex/auth.json",
    ".config/doctl/config.yaml",
    ".config/gh/hosts.yml",
    ".config/glab-cli/config.yml",
    ".docker/config.json",
    ".fly/config.yml",
    ".git/config",
    ".git/config.worktree",
    ".git/modules/*/config",
    ".gnupg/*",
    ".kube/config",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".ssh/*",
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
/// Ending of names of public keys.
const PUBLIC_KEY_SUFFIX: &str = ".pub";
/// Files in the folders of [`SECRET_PATHS`] that contain public keys only.
const PUBLIC_NAMES: &[&str] = &["known_hosts", "known_hosts.old", "authorized_keys"];

/// The compiled globs of [`SECRET_NAMES`].
static NAME_GLOBS: LazyLock<GlobSet> = LazyLock::new(|| compile_globs(SECRET_NAMES, ""));
/// The compiled globs of [`SECRET_PATHS`].
static PATH_GLOBS: LazyLock<GlobSet> = LazyLock::new(|| compile_globs(SECRET_PATHS, "**/"));

/// Returns whether the path suggests that the file contains secrets: its name, or its name together with the folders
/// before it. `path` may be relative.
pub fn looks_secret(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let text = name.to_string_lossy().to_ascii_lowercase();
    // `./a//b` becomes `./a/b`, as the globs expect it.
    let path: PathBuf = path.components().collect();
    let is_public = EXAMPLE_SUFFIXES.iter().any(|end| text.ends_with(end))
        || text.ends_with(PUBLIC_KEY_SUFFIX)
        || PUBLIC_NAMES.contains(&text.as_str());
    !is_public && (NAME_GLOBS.is_match(Path::new(name)) || PATH_GLOBS.is_match(&path))
}

/// Returns globs over file names for programs that can leave out files by their name. They match in one case only, and
/// they don't match environment files of examples.
pub(crate) fn secret_name_globs() -> Vec<String> {
    let names = SECRET_NAMES.iter().filter(|name| **name != OPEN_ENVIRONMENT_GLOB);
    names.map(|name| (*name).to_owned()).chain(environment_globs()).collect()
}

/// Returns globs over the ends of paths that complete [`secret_name_globs`].
pub(crate) fn secret_path_globs() -> impl Iterator<Item = &'static str> {
    SECRET_PATHS.iter().chain(FOLDER_NAME_PATHS).copied()
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
fn compile_globs(globs: &[&str], prefix: &str) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let glob = GlobBuilder::new(&format!("{prefix}{glob}"))
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
