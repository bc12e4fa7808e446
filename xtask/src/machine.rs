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
    /// PostgreSQL from Debian, without the server of its own that Debian starts with it.
    Postgres,
    /// A crate with a program, built from source, at the version the project was tested with.
    Crate { name: &'static str, version: &'static str, options: &'static str },
    /// A component of the Rust toolchain.
    Component(&'static str),
    /// Commands of its own.
    Commands(&'static [&'static str]),
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
        install: Install::Crate { name: "cargo-nextest", version: "0.9.143", options: "" },
    },
    Need {
        name: "mdbook",
        why: "renders the book",
        check: "mdbook --version",
        // Unoptimised it is built in a third of the time, and renders in a second.
        install: Install::Crate {
            name: "mdbook",
            version: "0.5.4",
            options: " --debug --no-default-features --features search",
        },
    },
    Need {
        name: "PostgreSQL",
        why: "the tests start servers of their own",
        check: r#"perl -e exit(!grep{-x"$_/initdb"}split(/:/,$ENV{PATH}),glob("/usr/lib/postgresql/*/bin"))"#,
        install: Install::Postgres,
    },
    Need {
        name: "openssl",
        why: "makes the certificates of those servers",
        check: "openssl version",
        install: Install::Debian(&["openssl"]),
    },
    Need {
        name: "node 20 or later",
        why: "builds the page; the JavaScript clients that the gateway is tested with run in it",
        check: "node -e process.exit(+(parseInt(process.versions.node)<20))",
        install: Install::Debian(&["nodejs"]),
    },
    Need {
        name: "npm",
        why: "installs what the page is built with, and the JavaScript clients that the gateway is tested with",
        check: "npm --version",
        install: Install::Debian(&["npm"]),
    },
    Need {
        name: "the JavaScript clients",
        why: "the gateway is tested with them as they are",
        check: "npm ls --silent --prefix crates/segue/tests/clients",
        install: Install::Commands(&["npm ci --prefix crates/segue/tests/clients"]),
    },
    Need {
        name: "what the page is built and tested with",
        why: "the page is built again and compared, and driven in a browser",
        check: "npm ls --silent --prefix web",
        install: Install::Commands(&["npm ci --prefix web"]),
    },
    Need {
        name: "Chromium",
        why: "the page is tested in it",
        check: "chromium --version",
        install: Install::Debian(&["chromium"]),
    },
    Need {
        name: "jq",
        why: "commands of the book read JSON with it",
        check: "jq --version",
        install: Install::Debian(&["jq"]),
    },
    Need {
        name: "curl",
        why: "commands of the book ask a server with it",
        check: "curl --version",
        install: Install::Debian(&["curl"]),
    },
    Need {
        name: "python with venv",
        why: "the Python clients that the gateway is tested with",
        check: "python3 -m ensurepip --version",
        install: Install::Debian(&["python3", "python3-venv"]),
    },
    Need {
        name: "the Python clients",
        why: "the gateway is tested with them as they are",
        check: "cmp -s target/clients/requirements.txt crates/segue/tests/clients/requirements.txt",
        install: Install::Commands(&[
            "python3 -m venv --clear target/clients",
            "target/clients/bin/pip install --quiet --disable-pip-version-check -r crates/segue/tests/clients/requirements.txt",
            "cp crates/segue/tests/clients/requirements.txt target/clients/requirements.txt",
        ]),
    },
];

impl Install {
    fn commands(&self) -> Vec<Command> {
        match self {
            Self::Debian(packages) => vec![Command::line("apt-get update"), apt_get_install(packages)],
            Self::Postgres => {
                let setting = "pg_conftool /etc/postgresql-common/createcluster.conf";
                vec![
                    Command::line("apt-get update"),
                    apt_get_install(&["postgresql-common"]),
                    Command::line(&format!("{setting} set create_main_cluster false")),
                    apt_get_install(&["postgresql"]),
                    Command::line(&format!("{setting} remove create_main_cluster")),
                ]
            }
            Self::Crate { name, version, options } => {
                vec![Command::line(&format!("cargo install --locked{options} {name}@{version}"))]
            }
            Self::Component(name) => vec![Command::line(&format!("rustup component add {name}"))],
            Self::Commands(lines) => lines.iter().map(|line| Command::line(line)).collect(),
        }
    }
}

fn apt_get_install(packages: &[&str]) -> Command {
    let install = Command::line("apt-get install --yes --no-install-recommends")
        .env("DEBIAN_FRONTEND", "noninteractive");
    packages.iter().fold(install, |command, package| command.arg(*package))
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
    fn debian_starts_no_server_because_of_the_tests() {
        let shown: Vec<String> = Install::Postgres.commands().iter().map(ToString::to_string).collect();
        let place = |words: &str| shown.iter().position(|line| line.ends_with(words)).unwrap();
        assert!(place(" postgresql-common") < place("create_main_cluster false"));
        assert!(place("create_main_cluster false") < place(" postgresql"));
        assert!(place(" postgresql") < place("remove create_main_cluster"));
    }

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
