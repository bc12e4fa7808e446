//! How soon one server shows what another one does, both the built program, on one database whose commits are synced: from
//! an event's commit, by the database's clock, until a client of the other server has it; and from the moment a run that waits
//! may begin until it has, wherever it waits. The model answers at once, from this process.
//!
//! `cargo bench -p segue --bench replicas` prints the tables; nothing is asserted.

mod client;
mod timing;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use test_postgres::{Cluster, ClusterSettings, DataLocation, TestDatabase};

use crate::client::BenchClient;
use crate::timing::{DurationSamples, TimingDatabase};

/// Runs that are followed one after the other, and together.
const FOLLOWED_RUNS: [(usize, usize); 3] = [(10, 1), (64, 16), (128, 64)];
/// Steps of a run that is followed in which the model calls a tool.
const STEPS: usize = 20;
/// How long a call of the tool takes, in seconds: events come apart from each other, as those of a real model do.
const CALL_SECONDS: &str = "0.02";
/// Runs whose beginning is measured, of each kind.
const STARTED_RUNS: usize = 200;
/// How often a server is told to end whose runs wait.
const RESTARTS: usize = 5;

fn main() {
    let bench = ReplicaBench::start();
    println!("from an event's commit until a client has it, ms");
    println!("{:>14} {:>8} {}", "runs at once", "events", DurationSamples::TABLE_HEADER);
    for (runs, at_once) in FOLLOWED_RUNS {
        bench.measure_streams(runs, at_once);
    }
    println!("\nfrom the moment a run may begin until it has, ms");
    println!("{:>46} {:>8} {}", "", "runs", DurationSamples::TABLE_HEADER);
    bench.measure_start_on_free_thread();
    bench.measure_start_behind_run("behind a run of the server that was asked", (0, 0));
    bench.measure_start_behind_run("behind a run of another server", (0, 1));
    bench.measure_start_after_shutdown();
}

/// A database, a model, and two servers.
struct ReplicaBench {
    timing: TimingDatabase,
    servers: [BenchServer; 2],
    folder: tempfile::TempDir,
    model: ScriptedServer,
    database: TestDatabase,
    _cluster: Cluster,
}

/// A server, and where it is.
struct BenchServer {
    child: Child,
    client: BenchClient,
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        // One that has ended cannot be stopped again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ReplicaBench {
    fn start() -> Self {
        let options = vec![
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("shared_buffers", "256MB"),
            ("track_commit_timestamp", "on"),
        ];
        let settings =
            ClusterSettings { data_location: DataLocation::Disk, options, ..ClusterSettings::default() };
        let cluster = Cluster::start_with(&settings).expect("PostgreSQL is installed");
        let database = cluster.create_database().expect("the server runs");
        let folder = tempfile::tempdir().expect("a folder");
        let model = ScriptedServer::start(model_script()).expect("the model starts");
        std::fs::create_dir_all(folder.path().join("home")).expect("a folder");
        let allowed = "[permissions]\nallow = [\"execute\"]\n";
        std::fs::write(folder.path().join("home/config.toml"), allowed).expect("the settings are written");
        let servers = [(); 2].map(|()| start_server(&folder, &model, &database));
        let timing = TimingDatabase::open(&database.socket_url());
        Self { timing, servers, folder, model, database, _cluster: cluster }
    }

    /// Follows runs of the first server at both, and prints how long events are on their way.
    fn measure_streams(&self, runs: usize, at_once: usize) {
        let (mut here, mut there) = (DurationSamples::default(), DurationSamples::default());
        for _ in 0..runs / at_once {
            let begun: Vec<_> =
                (0..at_once).map(|_| self.servers[0].client.start_run("work", None)).collect();
            let heard: Vec<_> = std::thread::scope(|scope| {
                let listen = |(run, server): (&client::BenchRun, usize)| {
                    let (client, run) = (self.servers[server].client.clone(), run.clone());
                    scope.spawn(move || client.follow_run(&run))
                };
                let both = begun.iter().map(|run| [0, 1].map(|server| listen((run, server))));
                let both: Vec<_> = both.collect();
                both.into_iter().map(|two| two.map(|one| one.join().expect("a stream is whole"))).collect()
            });
            for (run, [own, other]) in begun.iter().zip(heard) {
                let commits = self.timing.commit_times(&run.thread);
                here.extend(own.delays(&commits));
                there.extend(other.delays(&commits));
            }
        }
        println!("{at_once:>14} {:>8} {}  at the server that works", here.len(), here);
        println!("{:>14} {:>8} {}  at the other server", "", there.len(), there);
    }

    /// Prints how soon a run begins whose thread is free: until its beginning is committed, from when it was asked for.
    fn measure_start_on_free_thread(&self) {
        let mut times = DurationSamples::default();
        for _ in 0..STARTED_RUNS {
            let run = self.servers[0].client.start_run("quick", None);
            times.push(self.timing.start_time(&run) - run.requested_at);
            self.servers[0].client.wait_for_run(&run);
        }
        print_samples("on a free thread, from the request", &times);
    }

    /// Prints how soon a run begins that waits for another one of its thread: until its beginning is committed, from the
    /// commit of the other one's end.
    fn measure_start_behind_run(&self, what: &str, (first, second): (usize, usize)) {
        let mut times = DurationSamples::default();
        for _ in 0..STARTED_RUNS {
            let working = self.servers[first].client.start_run("brief", None);
            let waits = self.servers[second].client.start_run("quick", Some(&working.thread));
            self.servers[second].client.wait_for_run(&waits);
            let ended = self.timing.end_time(&working);
            times.extend(
                (self.timing.start_time(&waits) > ended).then(|| self.timing.start_time(&waits) - ended),
            );
        }
        print_samples(what, &times);
    }

    /// Prints how soon a run begins elsewhere that waited in a server which ends: until its beginning is committed, from when
    /// that was told to end and from the commit of the run's end it waited for.
    fn measure_start_after_shutdown(&self) {
        let mut times = DurationSamples::default();
        for _ in 0..RESTARTS {
            let ending = start_server(&self.folder, &self.model, &self.database);
            let working = self.servers[0].client.start_run("brief", None);
            let waits = ending.client.start_run("quick", Some(&working.thread));
            let told = timing::now();
            let id = rustix::process::Pid::from_child(&ending.child);
            rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it is there");
            self.servers[1].client.wait_for_run(&waits);
            let free = self.timing.end_time(&working).max(told);
            times.push(self.timing.start_time(&waits) - free);
        }
        print_samples("that waited in a server which ends", &times);
    }
}

fn print_samples(what: &str, times: &DurationSamples) {
    println!("{what:>46} {:>8} {times}", times.len());
}

/// Returns a model that calls a tool so many times where it is told to work, once where that is to be brief, and answers.
fn model_script() -> Script {
    let call = |id: &str, seconds: &str| {
        ScriptedReply::text("I look.").with_call(
            id,
            "execute",
            json!({"command": format!("sleep {seconds}")}),
        )
    };
    let mut replies: Vec<ScriptedReply> = (1..=STEPS)
        .map(|step| {
            call(&format!("c{step}"), CALL_SECONDS)
                .when_body_contains("work it is")
                .when_turn_is(1, step)
                .with_repeat()
        })
        .collect();
    replies.push(call("c1", "0.1").when_body_contains("brief it is").when_turn_is(1, 1).with_repeat());
    replies.push(ScriptedReply::text("Done.").with_repeat());
    Script::new(replies).with_requests_kept(1)
}

fn start_server(folder: &tempfile::TempDir, model: &ScriptedServer, database: &TestDatabase) -> BenchServer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_segue"));
    command.args(["serve", "--addr", "127.0.0.1:0", "--json"]).current_dir(folder.path()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", folder.path()).env("SEGUE_HOME", folder.path().join("home"));
    command.env("SEGUE_DATABASE_URL", database.socket_url());
    command.env("ANTHROPIC_BASE_URL", model.url()).env("ANTHROPIC_API_KEY", "bench");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let client = BenchClient::from_announcement(&read_announcement(&mut child));
    // What it looks for at its start is over.
    std::thread::sleep(Duration::from_secs(1));
    BenchServer { child, client }
}

/// Returns what a server says of itself.
fn read_announcement(child: &mut Child) -> Value {
    use std::io::BufRead as _;
    let output = child.stdout.take().expect("it has an output");
    let line = std::io::BufReader::new(output).lines().next().expect("it says where it is");
    serde_json::from_str(&line.expect("it is text")).expect("it is JSON")
}
