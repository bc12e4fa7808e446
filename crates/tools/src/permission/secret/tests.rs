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
    "hub/client.go",
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
fn k4_a_backup_copy_is_judged_like_its_file() {
    for suffix in BACKUP_SUFFIXES {
        for (name, expected) in [
            ("secrets.yml", true),
            ("home/.aws/config", true),
            ("src/main.rs", false),
            (".env.example", false),
            ("id_rsa.pub", false),
            ("locales/en/auth.json", false),
        ] {
            for copy in [format!("{name}{suffix}"), format!("{name}{suffix}{suffix}")] {
                assert_eq!(looks_secret(Path::new(&copy)), expected, "{copy}");
            }
        }
        assert!(!looks_secret(Path::new(suffix)), "{suffix}");
    }
}

#[test]
fn k4_a_login_of_composer_in_the_workspace_is_no_translation() {
    for (path, expected) in
        [("auth.json", true), ("./Auth.json", true), ("auth.json.bak", true), ("en/auth.json", false)]
    {
        assert_eq!(looks_secret(Path::new(path)), expected, "{path}");
    }
}

#[test]
fn k4_other_programs_leave_out_the_paths_that_look_secret_and_no_ordinary_ones() {
    let name_globs = secret_name_globs();
    let names = compile_globs(&name_globs, "**/");
    let paths = compile_globs(secret_path_globs(), "**/");
    let is_left_out = |path: &str| names.is_match(path) || paths.is_match(path);
    for path in SECRET_PATHS_TABLE.iter().filter(|path| !path.contains("//")) {
        assert!(is_left_out(path), "{path}");
    }
    // A public key may be left out too.
    for path in ORDINARY_PATHS.iter().filter(|path| !path.contains("id_") && !path.starts_with(".ssh")) {
        assert!(!is_left_out(path), "{path}");
    }
    // Backup copies of ordinary files are left out too.
    assert!(is_left_out("src/main.rs.orig") && !looks_secret(Path::new("src/main.rs.orig")));
    assert!(name_globs.iter().all(|glob| !glob.contains(['{', '/'])), "every program understands the globs");
    for name in FOLDER_NAMES {
        assert!(FOLDER_NAME_PATHS.iter().any(|path| path.ends_with(&format!("/{name}"))), "{name}");
    }
    assert!(secret_folders().contains(&".ssh") && secret_folders().contains(&"gh"), "{:?}", secret_folders());
}

proptest! {
    #[test]
    fn k4_the_globs_of_environment_files_leave_out_examples_only(end in "[a-z.]{0,4}(example|sample|template|dist|[.eltmpasx]{0,9})") {
        let globs = compile_globs(environment_globs(), "");
        let name = format!(".env.{end}");
        let is_example = EXAMPLE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        prop_assert_eq!(globs.is_match(&name), !is_example && !end.is_empty(), "{}", name);
    }
}
