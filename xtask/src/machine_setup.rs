//! Setting up a machine that has only Rust: what the tests need, as data, and installing what is missing. Nothing
//! is installed that a test does not use, and nothing that is there already is touched.

use std::path::Path;

use anyhow::{Context, bail};

use crate::command::CommandSpec;

/// One thing the tests need.
struct Requirement {
    name: &'static str,
    why: &'static str,
    /// Succeeds when it is there.
    check: &'static str,
    install: InstallMethod,
}

/// How to get it.
enum InstallMethod {
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

const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "git",
        why: "tidy asks it which files belong to the project",
        check: "git --version",
        install: InstallMethod::Debian(&["git"]),
    },
    Requirement {
        name: "a C compiler",
        why: "SQLite and the TLS library are built from source",
        check: "cc --version",
        install: InstallMethod::Debian(&["gcc", "libc6-dev"]),
    },
    Requirement {
        name: "rustfmt",
        why: "the format check",
        check: "cargo fmt --version",
        install: InstallMethod::Component("rustfmt"),
    },
    Requirement {
        name: "clippy",
        why: "the lints",
        check: "cargo clippy --version",
        install: InstallMethod::Component("clippy"),
    },
    Requirement {
        name: "cargo-nextest",
        why: "runs the tests",
        check: "cargo nextest --version",
        install: InstallMethod::Crate { name: "cargo-nextest", version: "0.9.143", options: "" },
    },
    Requirement {
        name: "mdbook",
        why: "renders the book",
        check: "mdbook --version",
        // Unoptimised it is built in a third of the time, and renders in a second.
        install: InstallMethod::Crate {
            name: "mdbook",
            version: "0.5.4",
            options: " --debug --no-default-features --features search",
        },
    },
    Requirement {
        name: "PostgreSQL",
        why: "the tests start servers of their own",
        check: r#"perl -e exit(!grep{-x"$_/initdb"}split(/:/,$ENV{PATH}),glob("/usr/lib/postgresql/*/bin"))"#,
        install: InstallMethod::Postgres,
    },
    Requirement {
        name: "openssl",
        why: "makes the certificates of those servers",
        check: "openssl version",
        install: InstallMethod::Debian(&["openssl"]),
    },
    Requirement {
        name: "node 20 or later",
        why: "builds the page; the JavaScript clients that the gateway is tested with run in it",
        check: "node -e process.exit(+(parseInt(process.versions.node)<20))",
        install: InstallMethod::Debian(&["nodejs"]),
    },
    Requirement {
        name: "npm",
        why: "installs what the page is built with, and the JavaScript clients that the gateway is tested with",
        check: "npm --version",
        install: InstallMethod::Debian(&["npm"]),
    },
    Requirement {
        name: "the JavaScript clients",
        why: "the gateway is tested with them as they are",
        check: "npm ls --silent --prefix crates/segue/tests/clients",
        install: InstallMethod::Commands(&["npm ci --prefix crates/segue/tests/clients"]),
    },
    Requirement {
        name: "what the page is built and tested with",
        why: "the page is built again and compared, and driven in a browser",
        check: "npm ls --silent --prefix web",
        install: InstallMethod::Commands(&["npm ci --prefix web"]),
    },
    Requirement {
        name: "Chromium",
        why: "the page is tested in it",
        check: "chromium --version",
        install: InstallMethod::Debian(&["chromium"]),
    },
    Requirement {
        name: "jq",
        why: "commands of the book read JSON with it",
        check: "jq --version",
        install: InstallMethod::Debian(&["jq"]),
    },
    Requirement {
        name: "curl",
        why: "commands of the book ask a server with it",
        check: "curl --version",
        install: InstallMethod::Debian(&["curl"]),
    },
    Requirement {
        name: "python with venv",
        why: "the Python clients that the gateway is tested with",
        check: "python3 -m ensurepip --version",
        install: InstallMethod::Debian(&["python3", "python3-venv"]),
    },
    Requirement {
        name: "the Python clients",
        why: "the gateway is tested with them as they are",
        check: "cmp -s target/clients/requirements.txt crates/segue/tests/clients/requirements.txt",
        install: InstallMethod::Commands(&[
            "python3 -m venv --clear target/clients",
            "target/clients/bin/pip install --quiet --disable-pip-version-check -r crates/segue/tests/clients/requirements.txt",
            "cp crates/segue/tests/clients/requirements.txt target/clients/requirements.txt",
        ]),
    },
];

/// The names of the [`REQUIREMENTS`] that tests and pictures share.
const SHARED_WITH_PICTURES: [&str; 5] =
    ["a C compiler", "node 20 or later", "npm", "what the page is built and tested with", "Chromium"];

/// Requirements of pictures only.
const PICTURE_REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "libfaketime",
        why: "sets the clock of the program, so that dates and ids are the same in every run",
        check: "faketime --version",
        install: InstallMethod::Debian(&["faketime"]),
    },
    Requirement {
        name: "the font Inter",
        why: "the page uses it for text",
        check: "fc-list -q Inter",
        install: InstallMethod::Debian(&["fontconfig", "fonts-inter"]),
    },
    Requirement {
        name: "the font DejaVu Sans Mono",
        why: "the page uses it for code",
        check: "fc-list -q :postscriptname=DejaVuSansMono",
        install: InstallMethod::Debian(&["fontconfig", "fonts-dejavu-core"]),
    },
    Requirement {
        name: "pngquant",
        why: "reduces the size of PNG files",
        check: "pngquant --version",
        install: InstallMethod::Debian(&["pngquant"]),
    },
];

impl InstallMethod {
    fn commands(&self) -> Vec<CommandSpec> {
        match self {
            Self::Debian(packages) => {
                vec![CommandSpec::from_line("apt-get update"), apt_get_install(packages)]
            }
            Self::Postgres => {
                let setting = "pg_conftool /etc/postgresql-common/createcluster.conf";
                vec![
                    CommandSpec::from_line("apt-get update"),
                    apt_get_install(&["postgresql-common"]),
                    CommandSpec::from_line(&format!("{setting} set create_main_cluster false")),
                    apt_get_install(&["postgresql"]),
                    CommandSpec::from_line(&format!("{setting} remove create_main_cluster")),
                ]
            }
            Self::Crate { name, version, options } => {
                vec![CommandSpec::from_line(&format!("cargo install --locked{options} {name}@{version}"))]
            }
            Self::Component(name) => vec![CommandSpec::from_line(&format!("rustup component add {name}"))],
            Self::Commands(lines) => lines.iter().map(|line| CommandSpec::from_line(line)).collect(),
        }
    }
}

fn apt_get_install(packages: &[&str]) -> CommandSpec {
    let install = CommandSpec::from_line("apt-get install --yes --no-install-recommends")
        .env("DEBIAN_FRONTEND", "noninteractive");
    packages.iter().fold(install, |command, package| command.arg(*package))
}

/// Installs what the tests need and this machine lacks.
///
/// # Errors
/// Names what is missing, why it is needed and the command that failed to install it.
pub fn set_up(root: &Path) -> anyhow::Result<()> {
    install_missing(root, REQUIREMENTS.iter())
}

/// Installs the requirements of `cargo xtask pictures` that are missing on this machine.
///
/// # Errors
/// When an installation fails. The error names the requirement, its reason and the command.
pub fn set_up_pictures(root: &Path) -> anyhow::Result<()> {
    let shared = REQUIREMENTS.iter().filter(|need| SHARED_WITH_PICTURES.contains(&need.name));
    install_missing(root, shared.chain(PICTURE_REQUIREMENTS))
}

fn install_missing<'a>(
    root: &Path,
    requirements: impl Iterator<Item = &'a Requirement>,
) -> anyhow::Result<()> {
    for need in requirements.filter(|need| !CommandSpec::from_line(need.check).is_successful(root)) {
        println!("── set up: {} ({})", need.name, need.why);
        for command in need.install.commands() {
            println!("   {command}");
            command.run(root).with_context(|| {
                format!("install {}: {}; install it by hand and try again", need.name, need.why)
            })?;
        }
        if !CommandSpec::from_line(need.check).is_successful(root) {
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
        let shown: Vec<String> = InstallMethod::Postgres.commands().iter().map(ToString::to_string).collect();
        let place = |words: &str| shown.iter().position(|line| line.ends_with(words)).unwrap();
        assert!(place(" postgresql-common") < place("create_main_cluster false"));
        assert!(place("create_main_cluster false") < place(" postgresql"));
        assert!(place(" postgresql") < place("remove create_main_cluster"));
    }

    #[test]
    fn shared_requirements_exist() {
        for name in SHARED_WITH_PICTURES {
            assert!(REQUIREMENTS.iter().any(|need| need.name == name), "{name}");
        }
    }

    #[test]
    fn what_is_missing_is_installed_without_questions() {
        let all = REQUIREMENTS.iter().chain(PICTURE_REQUIREMENTS);
        let shown: Vec<String> =
            all.flat_map(|need| need.install.commands()).map(|c| c.to_string()).collect();
        assert!(shown.contains(&"cargo install --locked cargo-nextest@0.9.143".to_owned()), "{shown:?}");
        for line in shown.iter().filter(|line| line.contains("apt-get install")) {
            assert!(line.starts_with("DEBIAN_FRONTEND=noninteractive apt-get install --yes"), "{line}");
        }
    }
}
