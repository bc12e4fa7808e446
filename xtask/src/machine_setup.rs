//! Installation of the tools that tests and pictures need, on a machine that has only Rust. The requirements are data.
//! Installed tools are not changed, and nothing is installed that no test or picture uses.

use std::path::Path;

use anyhow::{Context, bail};

use crate::command::CommandSpec;

/// A tool, package or font.
struct Requirement {
    /// The name in the output.
    name: &'static str,
    /// The use of the requirement, as a phrase for the output.
    why: &'static str,
    /// A command that succeeds if the requirement is installed.
    check: &'static str,
    install: InstallMethod,
}

/// The way to install a requirement.
enum InstallMethod {
    /// Debian packages, with apt-get.
    Debian(&'static [&'static str]),
    /// PostgreSQL from Debian, without the server that Debian starts by default.
    Postgres,
    /// A crate with a program, built from source with `options`, in the version that the project was tested with.
    Crate { name: &'static str, version: &'static str, options: &'static str },
    /// A component of the Rust toolchain.
    Component(&'static str),
    /// A sequence of commands, run in the workspace.
    Commands(&'static [&'static str]),
}

/// Requirements of the tests, in the order of installation.
const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "git",
        why: "lists the files of the project for tidy",
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
        why: "checks the format",
        check: "cargo fmt --version",
        install: InstallMethod::Component("rustfmt"),
    },
    Requirement {
        name: "clippy",
        why: "checks the lints",
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
        // An unoptimised build takes a third of the time, and it renders the book in a second.
        install: InstallMethod::Crate {
            name: "mdbook",
            version: "0.5.4",
            options: " --debug --no-default-features --features search",
        },
    },
    Requirement {
        name: "PostgreSQL",
        why: "the tests start temporary servers",
        check: r#"perl -e exit(!grep{-x"$_/initdb"}split(/:/,$ENV{PATH}),glob("/usr/lib/postgresql/*/bin"))"#,
        install: InstallMethod::Postgres,
    },
    Requirement {
        name: "openssl",
        why: "creates the certificates of the temporary PostgreSQL servers",
        check: "openssl version",
        install: InstallMethod::Debian(&["openssl"]),
    },
    Requirement {
        name: "node 20 or later",
        why: "builds the page and runs the JavaScript clients of the gateway's tests",
        check: "node -e process.exit(+(parseInt(process.versions.node)<20))",
        install: InstallMethod::Debian(&["nodejs"]),
    },
    Requirement {
        name: "npm",
        why: "installs the packages of the page and the JavaScript clients of the gateway's tests",
        check: "npm --version",
        install: InstallMethod::Debian(&["npm"]),
    },
    Requirement {
        name: "the JavaScript clients",
        why: "the gateway is tested with their published versions",
        check: "npm ls --silent --prefix crates/segue/tests/clients",
        install: InstallMethod::Commands(&["npm ci --prefix crates/segue/tests/clients"]),
    },
    Requirement {
        name: "the packages of the page",
        why: "the page is built, compared with the committed build and tested in a browser",
        check: "npm ls --silent --prefix web",
        install: InstallMethod::Commands(&["npm ci --prefix web"]),
    },
    Requirement {
        name: "Chromium's headless shell",
        why: "runs the tests of the page",
        check: "chromium-headless-shell --version",
        install: InstallMethod::Debian(&["chromium-headless-shell"]),
    },
    Requirement {
        name: "jq",
        why: "commands in the book use it to read JSON",
        check: "jq --version",
        install: InstallMethod::Debian(&["jq"]),
    },
    Requirement {
        name: "curl",
        why: "commands in the book use it to send requests",
        check: "curl --version",
        install: InstallMethod::Debian(&["curl"]),
    },
    Requirement {
        name: "python with venv",
        why: "runs the Python clients of the gateway's tests",
        check: "python3 -m ensurepip --version",
        install: InstallMethod::Debian(&["python3", "python3-venv"]),
    },
    Requirement {
        name: "the Python clients",
        why: "the gateway is tested with their published versions",
        check: "cmp -s target/clients/requirements.txt crates/segue/tests/clients/requirements.txt",
        install: InstallMethod::Commands(&[
            "python3 -m venv --clear target/clients",
            "target/clients/bin/pip install --quiet --disable-pip-version-check -r crates/segue/tests/clients/requirements.txt",
            "cp crates/segue/tests/clients/requirements.txt target/clients/requirements.txt",
        ]),
    },
    Requirement {
        name: "typos",
        why: "checks the spelling of sources, docs and texts",
        check: "target/typos/bin/typos --version",
        install: InstallMethod::Commands(&[
            "python3 -m venv --clear target/typos",
            "target/typos/bin/pip install --quiet --disable-pip-version-check typos==1.52.0",
        ]),
    },
];

/// The names of the [`REQUIREMENTS`] of the checks that compile, and of tidy.
const BASIC_REQUIREMENTS: [&str; 4] = ["git", "a C compiler", "rustfmt", "clippy"];

/// The names of the [`REQUIREMENTS`] that tests and pictures share.
const SHARED_WITH_PICTURES: [&str; 4] =
    ["a C compiler", "node 20 or later", "npm", "the packages of the page"];

/// Requirements of pictures only.
const PICTURE_REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "Chromium",
        why: "draws the page",
        check: "chromium --version",
        install: InstallMethod::Debian(&["chromium"]),
    },
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
    /// Returns the commands of the installation, in order. They ask no questions.
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

/// Returns the command that installs Debian packages without questions and without recommended packages.
fn apt_get_install(packages: &[&str]) -> CommandSpec {
    let install = CommandSpec::from_line("apt-get install --yes --no-install-recommends")
        .env("DEBIAN_FRONTEND", "noninteractive");
    packages.iter().fold(install, |command, package| command.arg(*package))
}

/// Installs the requirements of the checks that compile, as far as they are missing on this machine.
///
/// # Errors
/// As for [`set_up`].
pub fn set_up_basics(root: &Path) -> anyhow::Result<()> {
    install_missing(root, named_requirements(&BASIC_REQUIREMENTS))
}

/// Installs the requirements of the tests that are missing on this machine.
///
/// # Errors
/// If an installation fails. The error names the requirement, its use and the command.
pub fn set_up(root: &Path) -> anyhow::Result<()> {
    install_missing(root, REQUIREMENTS.iter())
}

/// Installs the requirements of `cargo xtask pictures` that are missing on this machine.
///
/// # Errors
/// If an installation fails. The error names the requirement, its use and the command.
pub fn set_up_pictures(root: &Path) -> anyhow::Result<()> {
    install_missing(root, named_requirements(&SHARED_WITH_PICTURES).chain(PICTURE_REQUIREMENTS))
}

/// Returns the requirements of the tests with these names.
fn named_requirements(names: &[&str]) -> impl Iterator<Item = &'static Requirement> {
    REQUIREMENTS.iter().filter(|requirement| names.contains(&requirement.name))
}

/// Installs each requirement whose check fails, and checks it again. The output of a command is printed if it fails, because
/// other steps run at the same time.
fn install_missing<'a>(
    root: &Path,
    requirements: impl Iterator<Item = &'a Requirement>,
) -> anyhow::Result<()> {
    let is_installed =
        |requirement: &Requirement| CommandSpec::from_line(requirement.check).is_successful(root);
    for requirement in requirements.filter(|requirement| !is_installed(requirement)) {
        let Requirement { name, why, check, install } = requirement;
        println!("── set up: {name} ({why})");
        for command in install.commands() {
            println!("   {command}");
            let install = || format!("install {name} ({why}); install it by another method and try again");
            let (status, output) = command.output_of_any(root).with_context(install)?;
            if !status.success() {
                print!("{output}");
                bail!("{}: `{command}` exited with {status}", install());
            }
        }
        if !is_installed(requirement) {
            bail!("install {name}: `{check}` still fails");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installation_of_postgresql_starts_no_server() {
        let lines: Vec<String> = InstallMethod::Postgres.commands().iter().map(ToString::to_string).collect();
        let index = |suffix: &str| lines.iter().position(|line| line.ends_with(suffix)).unwrap();
        assert!(index(" postgresql-common") < index("create_main_cluster false"));
        assert!(index("create_main_cluster false") < index(" postgresql"));
        assert!(index(" postgresql") < index("remove create_main_cluster"));
    }

    #[test]
    fn named_requirements_exist() {
        for name in SHARED_WITH_PICTURES.iter().chain(&BASIC_REQUIREMENTS) {
            assert!(REQUIREMENTS.iter().any(|requirement| requirement.name == *name), "{name}");
        }
    }

    #[test]
    fn installation_asks_no_questions() {
        let requirements = REQUIREMENTS.iter().chain(PICTURE_REQUIREMENTS);
        let lines: Vec<String> = requirements
            .flat_map(|requirement| requirement.install.commands())
            .map(|c| c.to_string())
            .collect();
        assert!(lines.contains(&"cargo install --locked cargo-nextest@0.9.143".to_owned()), "{lines:?}");
        for line in lines.iter().filter(|line| line.contains("apt-get install")) {
            assert!(line.starts_with("DEBIAN_FRONTEND=noninteractive apt-get install --yes"), "{line}");
        }
    }
}
