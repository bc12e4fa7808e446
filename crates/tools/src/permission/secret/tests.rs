//! The paths that suggest secrets and ordinary paths, as tables, and the globs for other programs.

use proptest::prelude::*;

use super::*;

/// Paths that suggest secrets.
const SECRET_PATHS_TABLE: &[&str] = &[
    ".env",
    "prod.env",
    "a/.env.local",
    ".ENV",
    ".envrc",
    "site.env.local",
    ".dev.vars",
    "x.pem",
    "tls/Server.KEY",
    "AuthKey_1.p8",
    "store.p12",
    "release.jks",
    "putty.ppk",
    "vault.kdbx",
    "office.ovpn",
    "deep/id_rsa",
    "id_rsa.bak",
    "id_rsa_work",
    "id_ed25519-github",
    "id_ecdsa.old",
    "terraform.tfstate",
    "terraform.tfstate.backup",
    "prod.tfvars",
    "prod.auto.tfvars.json",
    ".terraformrc",
    "credentials.tfrc.json",
    "config/secrets.yml",
    "secrets.toml",
    "secret.yaml",
    ".secrets",
    "credentials.json",
    "credentials.xml",
    "credentials",
    ".claude/.credentials.json",
    "my-service-account.json",
    "client_secret_123.apps.json",
    "app-firebase-adminsdk-x.json",
    "application_default_credentials.json",
    "token.json",
    ".aws/credentials",
    ".aws/config",
    "home/.docker/config.json",
    ".kube/config",
    "./.kube//config",
    "/srv/user/.KUBE/config",
    "kubeconfig",
    "staging.kubeconfig",
    ".git/config",
    ".git/modules/sub/config",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gh/hosts.yml",
    ".m2/settings.xml",
    ".codex/auth.json",
    ".ssh/work",
    ".gnupg/trustdb.gpg",
    ".npmrc",
    ".pypirc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".htpasswd",
    ".s3cfg",
    ".boto",
    "rclone.conf",
    ".vault-token",
    ".vault_pass.txt",
    ".dockercfg",
    "wp-config.php",
    "local.settings.json",
    ".bash_history",
    ".psql_history",
];
/// Paths that suggest no secrets.
const ORDINARY_PATHS: &[&str] = &[
    "",
    "env",
    "environment.md",
    "environment.ts",
    "vite-env.d.ts",
    ".env.example",
    ".env.sample",
    ".env.local.example",
    ".env.template",
    "prod.env.dist",
    ".env-example",
    "terraform.tfvars.example",
    "main.tf",
    "variables.tf",
    "src/key.rs",
    "keys.go",
    "keyboard.json",
    "monkey.txt",
    "id_rsa.pub",
    "id_ed25519_work.pub",
    ".ssh/known_hosts",
    ".ssh/id_work.pub",
    "src/secret.rs",
    "src/secrets.rs",
    "secrets.py",
    "secret_store.go",
    "secrets/README.md",
    "docs/secrets.md",
    "credentials.py",
    "credentials.rs",
    "src/credentials/mod.rs",
    "credentials.yml.enc",
    "token.rs",
    "token.ts",
    "tokens.json",
    "tokenizer.json",
    "locales/en/auth.json",
    "auth.go",
    "config",
    "config.json",
    "docker/config.json",
    "src/config.rs",
    ".docker/Dockerfile",
    ".cargo/config.toml",
    ".config/nextest.toml",
    "hosts.yml",
    "settings.xml",
    ".gitattributes",
    ".gitignore",
    ".gitconfig.md",
    ".github/workflows/ci.yml",
    "package.json",
    "Cargo.lock",
    "wp-config-sample.php",
    "history.rs",
    "certificate.crt",
    "kube/config.yaml",
    "pkg/kubeconfig/load.go",
    "vault.rs",
    "passwords.rs",
];

#[test]
fn k4_names_of_secret_files_are_recognized() {
    for name in SECRET_PATHS_TABLE {
        assert!(looks_secret(Path::new(name)), "{name}");
    }
    for name in ORDINARY_PATHS {
        assert!(!looks_secret(Path::new(name)), "{name}");
    }
}

#[test]
fn k4_other_programs_leave_out_the_paths_that_look_secret_and_no_ordinary_ones() {
    let name_globs = secret_name_globs();
    let names = compile_globs(&name_globs.iter().map(String::as_str).collect::<Vec<_>>(), "**/");
    let paths = compile_globs(&secret_path_globs().collect::<Vec<_>>(), "**/");
    let is_left_out = |path: &str| names.is_match(path) || paths.is_match(path);
    for path in SECRET_PATHS_TABLE.iter().filter(|path| !path.contains("//")) {
        assert!(is_left_out(path), "{path}");
    }
    // A public key may be left out too.
    for path in ORDINARY_PATHS.iter().filter(|path| !path.contains("id_") && !path.starts_with(".ssh")) {
        assert!(!is_left_out(path), "{path}");
    }
    assert!(name_globs.iter().all(|glob| !glob.contains(['{', '/'])), "every program understands the globs");
    for name in FOLDER_NAMES {
        assert!(FOLDER_NAME_PATHS.iter().any(|path| path.ends_with(&format!("/{name}"))), "{name}");
    }
    assert!(secret_folders().contains(&".ssh") && secret_folders().contains(&"gh"), "{:?}", secret_folders());
}

proptest! {
    #[test]
    fn k4_the_globs_of_environment_files_leave_out_examples_only(end in "[a-z.]{0,4}(example|sample|template|dist|[.eltmpasx]{0,9})") {
        let globs = environment_globs();
        let globs = compile_globs(&globs.iter().map(String::as_str).collect::<Vec<_>>(), "");
        let name = format!(".env.{end}");
        let is_example = EXAMPLE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        prop_assert_eq!(globs.is_match(&name), !is_example && !end.is_empty(), "{}", name);
    }
}
