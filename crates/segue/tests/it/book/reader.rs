//! Somebody who reads a page and types its commands: one shell in a terminal of its own, in which the blocks run in order.
//! What a page says is read elsewhere.

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

/// How long the commands of a page may take: a few seconds, on a machine with little to do.
const PAGE_TIME_MAX: Duration = Duration::from_secs(120);
/// Columns of the terminal.
const COLUMNS: u16 = 100;
/// How much of what a block printed is told when it fails, in lines.
const PRINTED_LINES: usize = 40;
/// The shell's message before its exit status and a full stop.
const EXIT_MESSAGE: &str = "the page ended with ";
/// The marker that the shell writes in place of a line number when it is done.
const END_MARK: &str = "the end";

/// The address of the server in the book.
const ADDRESS: &str = "127.0.0.1:2024";
/// How a server is begun in the book.
const SERVE_COMMAND: &str = "segue serve";
/// The key of the model in the book.
const MODEL_KEY: &str = "ANTHROPIC_API_KEY=sk-ant-…";
/// The PostgreSQL databases in the book.
const DATABASES: [&str; 2] = ["postgres://segue@db.example/segue", "postgres://segue@db.example/mirror"];

/// Runs the commands of a page.
#[track_caller]
pub fn run_page(name: &str) {
    let page = BookPageText::load(name);
    let there = PageStandIns::for_page(&page);
    let desk = ReaderMachine::set_up(&page, &there);
    let script = desk.path("script");
    let arguments = ["--norc", "--noprofile", "-euo", "pipefail", script.to_str().unwrap()];
    let terminal = PtyTerminal::start_program(&desk.sandbox, COLUMNS, "bash", &arguments);
    let ended = desk.type_keys(&page, &terminal);
    terminal.kill_all();
    if let Err(what) = ended {
        panic!("{what}");
    }
}

/// The test's replacements for the names in the book.
struct PageStandIns {
    model: ScriptedServer,
    /// Bound to the address at which the page's server is, and never listening: nobody else is given the port, and a
    /// server may still take it.
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

    /// Puts the names of what is there into commands of the book.
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

/// The machine of the reader, and a folder in which is what they do not see.
struct ReaderMachine {
    sandbox: TestSandbox,
    folder: tempfile::TempDir,
}

impl ReaderMachine {
    /// Lays out the examples, the program and the blocks of the page, and the script that runs them.
    fn set_up(page: &BookPageText, there: &PageStandIns) -> Self {
        let mut desk =
            Self { sandbox: TestSandbox::new().with_file_database(), folder: tempfile::tempdir().unwrap() };
        for folder in ["bin", "blocks", "printed"] {
            fs::create_dir(desk.path(folder)).unwrap();
        }
        fs::create_dir(desk.sandbox.home()).unwrap();
        copy_folder(&repository_root().join("examples"), &desk.sandbox.work_folder().join("examples"));
        symlink(binary_path(), desk.path("bin/segue")).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        desk.sandbox.set_variable("PATH", &format!("{}:{path}", desk.path("bin").display()));
        for block in page.commands() {
            fs::write(desk.path(&format!("blocks/{}", block.line)), there.substitute_names(&block.text))
                .unwrap();
        }
        fs::write(desk.path("script"), desk.script(page)).unwrap();
        desk
    }

    /// The blocks are read by one shell, so that what they set stays. Only a block with keys has the terminal, and finds it
    /// empty but for a line that says whose it is.
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

    /// Types the keys, each when its time has come, and waits for the end of the shell.
    fn type_keys(&self, page: &BookPageText, terminal: &PtyTerminal) -> Result<(), String> {
        let begun = Instant::now();
        let until = |what: &str, holds: &dyn Fn(&str) -> bool| {
            let left = PAGE_TIME_MAX.saturating_sub(begun.elapsed());
            let shown = terminal.wait_within(left, |screen| exit_status(screen).is_some() || holds(screen));
            let told = |how: String, screen: &str| Err(self.failure_text(page, &how, screen));
            match shown {
                Err(screen) => {
                    told(format!("{what} did not come in {} s", begun.elapsed().as_secs()), &screen)
                }
                Ok(screen) => match exit_status(&screen) {
                    Some("0") if self.current_line() == END_MARK => Ok(Some(screen)),
                    Some(status) => told(format!("it ended with {status}"), &screen),
                    None => Ok(None),
                },
            }
        };
        for block in page.commands() {
            let Some(BookBlockKind::Typed(keys)) = &block.kind else { continue };
            let head = page.location_of(block.line);
            until("this block", &|screen| screen.contains(&head))?;
            for key in keys {
                let TypedKey { awaited_texts: after, bytes } = key;
                let what = format!("`{}`", after.join(" … "));
                if let Some(screen) = until(&what, &|screen| key.is_awaited(screen))? {
                    let how = format!("nobody waited for the key {bytes:?} of line {}", block.line);
                    return Err(self.failure_text(page, &how, &screen));
                }
                terminal.press_keys(bytes);
            }
        }
        until("the end", &|_| false).map(|_| ())
    }

    /// Tells how the block failed that the shell is at, and what it printed.
    fn failure_text(&self, page: &BookPageText, how: &str, screen: &str) -> String {
        let at = self.current_line();
        let printed = fs::read(self.path(&format!("printed/{at}")));
        let printed =
            printed.map_or_else(|_| screen.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let last = lines[lines.len().saturating_sub(PRINTED_LINES)..].join("\n");
        format!("{}: {how}; it printed:\n{last}", page.location_of(at))
    }

    /// The line of the block that the shell is at.
    fn current_line(&self) -> String {
        fs::read_to_string(self.path("at")).unwrap_or_default().trim_end().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Reads the status that the shell ended with, once it stands on the screen.
fn exit_status(screen: &str) -> Option<&str> {
    Some(screen.rsplit_once(EXIT_MESSAGE)?.1.split_once('.')?.0)
}

/// Copies a folder of files.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
