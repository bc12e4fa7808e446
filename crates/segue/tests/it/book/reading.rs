//! Somebody who reads a page and types its commands: one shell in a terminal of its own, in which the blocks run in order.
//! What a page says is read elsewhere.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use test_model::{Reply, Script, Server};
use tokio::net::TcpSocket;

use super::page::{Key, Kind, Page, repository};
use crate::sandbox::{Sandbox, binary};
use crate::terminal::Terminal;

/// How long the commands of a page may take: a few seconds, on a machine with little to do.
const LIMIT: Duration = Duration::from_secs(120);
/// Columns of the terminal.
const COLUMNS: u16 = 100;
/// How much of what a block printed is told when it fails, in lines.
const PRINTED_LINES: usize = 40;
/// What the shell says on the screen when it ends, before its status and a full stop.
const ENDED: &str = "the page ended with ";
/// What the shell notes as the line it is at once it is through.
const THROUGH: &str = "the end";

/// The address of the server in the book.
const ADDRESS: &str = "127.0.0.1:2024";
/// How a server is begun in the book.
const SERVE: &str = "segue serve";
/// The key of the model in the book.
const KEY: &str = "ANTHROPIC_API_KEY=sk-ant-…";
/// The PostgreSQL databases in the book.
const DATABASES: [&str; 2] = ["postgres://segue@db.example/segue", "postgres://segue@db.example/mirror"];

/// Runs the commands of a page.
#[track_caller]
pub fn read(name: &str) {
    let page = Page::read(name);
    let there = There::of(&page);
    let desk = Desk::laid_out(&page, &there);
    let script = desk.path("script");
    let arguments = ["--norc", "--noprofile", "-euo", "pipefail", script.to_str().unwrap()];
    let terminal = Terminal::running(&desk.sandbox, COLUMNS, "bash", &arguments);
    let ended = desk.play(&page, &terminal);
    terminal.kill_all();
    if let Err(what) = ended {
        panic!("{what}");
    }
}

/// What is there in place of what the book names.
struct There {
    model: Server,
    /// Bound to the address at which the page's server is, and never listening: nobody else is given the port, and a
    /// server may still take it.
    address: TcpSocket,
    databases: Vec<(&'static str, test_postgres::Database)>,
}

impl There {
    fn of(page: &Page) -> Self {
        let named = |url: &&str| page.commands().any(|block| block.text.contains(*url));
        let databases = DATABASES.into_iter().filter(named);
        let address = TcpSocket::new_v4().unwrap();
        address.set_reuseaddr(true).unwrap();
        address.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        Self {
            model: Server::start(Script::new([Reply::text("Done.").repeated()])).unwrap(),
            address,
            databases: databases.map(|url| (url, test_postgres::Database::create().unwrap())).collect(),
        }
    }

    /// Puts the names of what is there into commands of the book.
    fn named_in(&self, commands: &str) -> String {
        let address = self.address.local_addr().unwrap().to_string();
        let key = format!("ANTHROPIC_API_KEY=test-key ANTHROPIC_BASE_URL={}", self.model.url());
        let mut commands = commands
            .replace(ADDRESS, &address)
            .replace(SERVE, &format!("{SERVE} --addr {address}"))
            .replace(KEY, &key);
        for (url, database) in &self.databases {
            commands = commands.replace(url, &database.socket_url());
        }
        commands
    }
}

/// The machine of the reader, and a folder in which is what they do not see.
struct Desk {
    sandbox: Sandbox,
    folder: tempfile::TempDir,
}

impl Desk {
    /// Lays out the examples, the program and the blocks of the page, and the script that runs them.
    fn laid_out(page: &Page, there: &There) -> Self {
        let mut desk = Self { sandbox: Sandbox::new().in_a_file(), folder: tempfile::tempdir().unwrap() };
        for folder in ["bin", "blocks", "printed"] {
            fs::create_dir(desk.path(folder)).unwrap();
        }
        fs::create_dir(desk.sandbox.home()).unwrap();
        copy(&repository().join("examples"), &desk.sandbox.work().join("examples"));
        symlink(binary(), desk.path("bin/segue")).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        desk.sandbox.set("PATH", &format!("{}:{path}", desk.path("bin").display()));
        for block in page.commands() {
            fs::write(desk.path(&format!("blocks/{}", block.line)), there.named_in(&block.text)).unwrap();
        }
        fs::write(desk.path("script"), desk.script(page)).unwrap();
        desk
    }

    /// The blocks are read by one shell, so that what they set stays. Only a block with keys has the terminal, and finds it
    /// empty but for a line that says whose it is.
    fn script(&self, page: &Page) -> String {
        let folder = self.folder.path().display();
        let mut script = format!("exec 3>&1\ntrap 'printf \"\\r\\n{ENDED}%s.\\r\\n\" $? >&3' EXIT\n");
        for block in page.commands() {
            let line = block.line;
            let terminal = matches!(block.kind, Some(Kind::Typed(_)));
            writeln!(script, "echo {line} > '{folder}/at'").unwrap();
            if terminal {
                writeln!(script, "printf '\\033[2J\\033[H%s\\r\\n' '{}'", page.at(line)).unwrap();
                writeln!(script, ". '{folder}/blocks/{line}'").unwrap();
            } else {
                writeln!(script, ". '{folder}/blocks/{line}' > '{folder}/printed/{line}' 2>&1 < /dev/null")
                    .unwrap();
            }
        }
        writeln!(script, "echo {THROUGH} > '{folder}/at'").unwrap();
        script
    }

    /// Types the keys, each when its time has come, and waits for the end of the shell.
    fn play(&self, page: &Page, terminal: &Terminal) -> Result<(), String> {
        let begun = Instant::now();
        let until = |what: &str, holds: &dyn Fn(&str) -> bool| {
            let left = LIMIT.saturating_sub(begun.elapsed());
            let shown = terminal.within(left, |screen| status(screen).is_some() || holds(screen));
            let told = |how: String, screen: &str| Err(self.told(page, &how, screen));
            match shown {
                Err(screen) => {
                    told(format!("{what} did not come in {} s", begun.elapsed().as_secs()), &screen)
                }
                Ok(screen) => match status(&screen) {
                    Some("0") if self.at() == THROUGH => Ok(Some(screen)),
                    Some(status) => told(format!("it ended with {status}"), &screen),
                    None => Ok(None),
                },
            }
        };
        for block in page.commands() {
            let Some(Kind::Typed(keys)) = &block.kind else { continue };
            let head = page.at(block.line);
            until("this block", &|screen| screen.contains(&head))?;
            for key in keys {
                let Key { after, bytes } = key;
                let what = format!("`{}`", after.join(" … "));
                if let Some(screen) = until(&what, &|screen| key.is_awaited(screen))? {
                    let how = format!("nobody waited for the key {bytes:?} of line {}", block.line);
                    return Err(self.told(page, &how, &screen));
                }
                terminal.keys(bytes);
            }
        }
        until("the end", &|_| false).map(|_| ())
    }

    /// Tells how the block failed that the shell is at, and what it printed.
    fn told(&self, page: &Page, how: &str, screen: &str) -> String {
        let at = self.at();
        let printed = fs::read(self.path(&format!("printed/{at}")));
        let printed =
            printed.map_or_else(|_| screen.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let last = lines[lines.len().saturating_sub(PRINTED_LINES)..].join("\n");
        format!("{}: {how}; it printed:\n{last}", page.at(at))
    }

    /// The line of the block that the shell is at.
    fn at(&self) -> String {
        fs::read_to_string(self.path("at")).unwrap_or_default().trim_end().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Reads the status that the shell ended with, once it stands on the screen.
fn status(screen: &str) -> Option<&str> {
    Some(screen.rsplit_once(ENDED)?.1.split_once('.')?.0)
}

/// Copies a folder of files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
