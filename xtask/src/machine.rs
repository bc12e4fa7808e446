//! Setting up a machine that has only Rust: what the tests need, as data, and installing what is missing. Nothing
//! is installed that a test does not use, and nothing that is there already is touched.

use std::path::Path;

use anyhow::{Context, bail};

use crate::command::Command;

/// One thing the tests need.
struct Need {
    name: &'static str,
    why: &'static str,
    /// Succeeds when it is there.
    check: &'static str,
    install: Install,
}

/// How to get it.
enum Install {
    /// Debian packages, with the system's package manager.
    Debian(&'static [&'static str]),
    /// A crate with a program, built from source, at the version the project was tested with.
    Crate { name: &'static str, version: &'static str },
    /// A component of the Rust toolchain.
    Component(&'static str),
}

const NEEDS: &[Need] = &[
    Need {
        name: "git",
        why: "tidy asks it which files belong to the project",
        check: "git --version",
        install: Install::Debian(&["git"]),
    },
    Need {
        name: "a C compiler",
        why: "SQLite and the TLS library are built from source",
        check: "cc --version",
        install: Install::Debian(&["gcc", "libc6-dev"]),
    },
    Need {
        name: "rustfmt",
        why: "the format check",
        check: "cargo fmt --version",
        install: Install::Component("rustfmt"),
    },
    Need {
        name: "clippy",
        why: "the lints",
        check: "cargo clippy --version",
        install: Install::Component("clippy"),
    },
    Need {
        name: "cargo-nextest",
        why: "runs the tests",
        check: "cargo nextest --version",
        install: Install::Crate { name: "cargo-nextest", version: "0.9.143" },
    },
];

impl Install {
    fn commands(&self) -> Vec<Command> {
        match self {
            Self::Debian(packages) => {
                let install = Command::line("apt-get install --yes --no-install-recommends")
                    .env("DEBIAN_FRONTEND", "noninteractive");
                vec![
                    Command::line("apt-get update"),
                    packages.iter().fold(install, |command, package| command.arg(*package)),
                ]
            }
            Self::Crate { name, version } => {
                vec![Command::line(&format!("cargo install --locked {name}@{version}"))]
            }
            Self::Component(name) => vec![Command::line(&format!("rustup component add {name}"))],
        }
    }
}

/// Installs what the tests need and this machine lacks.
///
/// # Errors
/// Names what is missing, why it is needed and the command that failed to install it.
pub fn set_up(root: &Path) -> anyhow::Result<()> {
    let missing = NEEDS.iter().filter(|need| !Command::line(need.check).succeeds(root));
    for need in missing {
        println!("── set up: {} ({})", need.name, need.why);
        for command in need.install.commands() {
            println!("   {command}");
            command.run(root).with_context(|| {
                format!("install {}: {}; install it by hand and try again", need.name, need.why)
            })?;
        }
        if !Command::line(need.check).succeeds(root) {
            bail!("install {}: `{}` still fails", need.name, need.check);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_installed_without_questions() {
        let shown: Vec<String> =
            NEEDS.iter().flat_map(|need| need.install.commands()).map(|c| c.to_string()).collect();
        assert!(shown.contains(&"cargo install --locked cargo-nextest@0.9.143".to_owned()), "{shown:?}");
        for line in shown.iter().filter(|line| line.contains("apt-get install")) {
            assert!(line.starts_with("DEBIAN_FRONTEND=noninteractive apt-get install --yes"), "{line}");
        }
    }
}
