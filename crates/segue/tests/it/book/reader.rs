//! Runs the commands of one page as a reader would type them: one shell in its own terminal executes the
//! blocks in order. [`super::page`] parses the page.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use test_model::{Script, ScriptedReply, ScriptedServer};
use tokio::net::TcpSocket;

use super::page::{BookBlockKind, BookPageText, TypedKey, repository_root};
use crate::sandbox::{TestSandbox, binary_path};
use crate::terminal::PtyTerminal;

/// Maximum time for the commands of a page. They take a few seconds on an idle machine.
const PAGE_TIME_MAX: Duration = Duration::from_secs(120);
/// Width of the terminal in columns.
const COLUMNS: u16 = 100;
/// Number of lines of a failed block's output that the failure message shows.
const PRINTED_LINES: usize = 40;
/// Prefix of the message that the shell prints when it ends; the exit status and a full stop follow.
const EXIT_MESSAGE: &str = "the page ended with ";
/// Text that the shell writes instead of a line number after the last block.
const END_MARK: &str = "the end";

/// Address of the server in the book's commands.
const ADDRESS: &str = "127.0.0.1:2024";
/// Command that starts a server in the book.
const SERVE_COMMAND: &str = "segue serve";
/// API key of the model in the book.
const MODEL_KEY: &str = "ANTHROPIC_API_KEY=sk-ant-…";
/// PostgreSQL databases in the book.
const DATABASES: [&str; 2] = ["postgres://segue@db.example/segue", "postgres://segue@db.example/mirror"];

/// Runs the commands of a page.
#[track_caller]
pub fn run_page(name: &str) {
    let page = BookPageText::load(name);
    let stand_ins = PageStandIns::for_page(&page);
    let machine = ReaderMachine::set_up(&page, &stand_ins);
    let script = machine.path("script");
    let arguments = ["--norc", "--noprofile", "-euo", "pipefail", script.to_str().unwrap()];
    let terminal = PtyTerminal::start_program(&machine.sandbox, COLUMNS, "bash", &arguments);
    let result = machine.type_keys(&page, &terminal);
    terminal.kill_all();
    if let Err(message) = result {
        panic!("{message}");
    }
}

/// The test's replacements for the addresses and keys in the book.
struct PageStandIns {
    model: ScriptedServer,
    /// Socket bound to the address of the page's server. It never listens: it only reserves the port,
    /// so that no other process gets it while the server can still bind it.
    address: TcpSocket,
    databases: Vec<(&'static str, test_postgres::TestDatabase)>,
}

impl PageStandIns {
    fn for_page(page: &BookPageText) -> Self {
        let named = |url: &&str| page.commands().any(|block| block.text.contains(*url));
        let databases = DATABASES.into_iter().filter(named);
        let address = TcpSocket::new_v4().unwrap();
        address.set_reuseaddr(true).unwrap();
        address.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        Self {
            model: ScriptedServer::start(Script::new([ScriptedReply::text("Done.").with_repeat()])).unwrap(),
            address,
            databases: databases.map(|url| (url, test_postgres::TestDatabase::create().unwrap())).collect(),
        }
    }

    /// Replaces the book's names in the commands with those of the test's server, databases and model.
    fn substitute_names(&self, commands: &str) -> String {
        let address = self.address.local_addr().unwrap().to_string();
        let key = format!("ANTHROPIC_API_KEY=test-key ANTHROPIC_BASE_URL={}", self.model.url());
        let mut commands = commands
            .replace(ADDRESS, &address)
            .replace(SERVE_COMMAND, &format!("{SERVE_COMMAND} --addr {address}"))
            .replace(MODEL_KEY, &key);
        for (url, database) in &self.databases {
            commands = commands.replace(url, &database.socket_url());
        }
        commands
    }
}

/// The reader's sandbox, and a folder for files that the commands of the page do not see.
struct ReaderMachine {
    sandbox: TestSandbox,
    folder: tempfile::TempDir,
}

impl ReaderMachine {
    /// Copies the examples, links the program, and writes the blocks of the page and the script that
    /// runs them.
    fn set_up(page: &BookPageText, stand_ins: &PageStandIns) -> Self {
        let mut machine =
            Self { sandbox: TestSandbox::new().with_file_database(), folder: tempfile::tempdir().unwrap() };
        for folder in ["bin", "blocks", "printed"] {
            fs::create_dir(machine.path(folder)).unwrap();
        }
        fs::create_dir(machine.sandbox.home()).unwrap();
        copy_folder(&repository_root().join("examples"), &machine.sandbox.work_folder().join("examples"));
        symlink(binary_path(), machine.path("bin/segue")).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        machine.sandbox.set_variable("PATH", &format!("{}:{path}", machine.path("bin").display()));
        for block in page.commands() {
            fs::write(
                machine.path(&format!("blocks/{}", block.line)),
                stand_ins.substitute_names(&block.text),
            )
            .unwrap();
        }
        fs::write(machine.path("script"), machine.script(page)).unwrap();
        machine
    }

    /// Returns the script. One shell sources all blocks, so variables persist. Only a block with keys
    /// has the terminal as its standard input; the screen is cleared first, except for a line that
    /// names the block.
    fn script(&self, page: &BookPageText) -> String {
        let folder = self.folder.path().display();
        let mut script = format!("exec 3>&1\ntrap 'printf \"\\r\\n{EXIT_MESSAGE}%s.\\r\\n\" $? >&3' EXIT\n");
        for block in page.commands() {
            let line = block.line;
            let terminal = matches!(block.kind, Some(BookBlockKind::Typed(_)));
            writeln!(script, "echo {line} > '{folder}/at'").unwrap();
            if terminal {
                writeln!(script, "printf '\\033[2J\\033[H%s\\r\\n' '{}'", page.location_of(line)).unwrap();
                writeln!(script, ". '{folder}/blocks/{line}'").unwrap();
            } else {
                writeln!(script, ". '{folder}/blocks/{line}' > '{folder}/printed/{line}' 2>&1 < /dev/null")
                    .unwrap();
            }
        }
        writeln!(script, "echo {END_MARK} > '{folder}/at'").unwrap();
        script
    }

    /// Types the keys, each one as soon as its awaited text is on the screen, and waits for the shell
    /// to end.
    fn type_keys(&self, page: &BookPageText, terminal: &PtyTerminal) -> Result<(), String> {
        let started_at = Instant::now();
        let wait_for = |message: &str, holds: &dyn Fn(&str) -> bool| {
            let remaining = PAGE_TIME_MAX.saturating_sub(started_at.elapsed());
            let screen_result =
                terminal.wait_within(remaining, |screen| exit_status(screen).is_some() || holds(screen));
            let fail = |how: String, screen: &str| Err(self.failure_text(page, &how, screen));
            match screen_result {
                Err(screen) => fail(
                    format!("{message} did not appear within {} s", started_at.elapsed().as_secs()),
                    &screen,
                ),
                Ok(screen) => match exit_status(&screen) {
                    Some("0") if self.current_line() == END_MARK => Ok(Some(screen)),
                    Some(status) => fail(format!("it ended with {status}"), &screen),
                    None => Ok(None),
                },
            }
        };
        for block in page.commands() {
            let Some(BookBlockKind::Typed(keys)) = &block.kind else { continue };
            let head = page.location_of(block.line);
            wait_for("this block", &|screen| screen.contains(&head))?;
            for key in keys {
                let TypedKey { awaited_texts: after, bytes } = key;
                let message = format!("`{}`", after.join(" … "));
                if let Some(screen) = wait_for(&message, &|screen| key.is_awaited(screen))? {
                    let how =
                        format!("the page ended before the key {bytes:?} of line {} was typed", block.line);
                    return Err(self.failure_text(page, &how, &screen));
                }
                terminal.press_keys(bytes);
            }
        }
        wait_for("the end", &|_| false).map(|_| ())
    }

    /// Formats the message for the block that failed: its location, the reason, and its output.
    fn failure_text(&self, page: &BookPageText, how: &str, screen: &str) -> String {
        let line_number = self.current_line();
        let printed = fs::read(self.path(&format!("printed/{line_number}")));
        let printed =
            printed.map_or_else(|_| screen.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let last = lines[lines.len().saturating_sub(PRINTED_LINES)..].join("\n");
        format!("{}: {how}; it printed:\n{last}", page.location_of(line_number))
    }

    /// Returns the line number of the block that the shell is executing.
    fn current_line(&self) -> String {
        fs::read_to_string(self.path("at")).unwrap_or_default().trim_end().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns the exit status of the shell once it is on the screen.
fn exit_status(screen: &str) -> Option<&str> {
    Some(screen.rsplit_once(EXIT_MESSAGE)?.1.split_once('.')?.0)
}

/// Copies a folder and its files.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
