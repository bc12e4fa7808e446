//! An API key that a user typed, a tool printed and a model repeated appears in no output except the
//! journal. The user also types a secret of each kind.

use std::fs;
use std::path::Path;

use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};
use test_secrets::{SecretSample, secret_samples};

use super::MirroredMachine;
use crate::collector::TraceCollector;
use crate::compact::{MEMORY_INSTRUCTIONS, compaction_reply};
use crate::sandbox;
use crate::serve::owner_client;
use crate::server::ServeProcess;

/// An API key in a provider's format.
const PLANTED_KEY: &str = "sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z";
/// A part of the key that occurs in no other text.
const PLANTED_FRAGMENT: &str = "aB3dE5fG7hI9jK1l";

/// The number of turns of the test.
const TURNS: usize = 12;

/// Returns the texts with secrets that the user types in each turn.
fn samples_by_turn(samples: &[SecretSample]) -> Vec<String> {
    let texts = |samples: &[SecretSample]| {
        samples.iter().map(|sample| sample.text.as_str()).collect::<Vec<&str>>().join("\n\n")
    };
    samples.chunks(samples.len().div_ceil(TURNS)).map(texts).collect()
}

/// Returns a model that repeats the key in every answer.
fn key_repeating_server() -> ScriptedServer {
    let item = |kind: &str, text: String, seq: u64| json!({"kind": kind, "text": text, "refs": [seq]});
    let body = [
        item("objective", format!("Mend the retries with {PLANTED_KEY}."), 1),
        item("decision", "Never raise the timeout.".to_owned(), 1),
        item("next_step", "Do the same in src/backoff.rs.".to_owned(), 11),
    ];
    let draft = json!({"title": format!("Retries {PLANTED_KEY}"), "tldr": format!("Use {PLANTED_KEY}."), "body": body});
    let draft = ScriptedReply::text(draft.to_string()).when_body_contains("handoff");
    let kept =
        ScriptedReply::text(format!("The key is {PLANTED_KEY}.")).when_body_contains(MEMORY_INSTRUCTIONS);
    let always = |reply: ScriptedReply| ScriptedReply { always: true, ..reply };
    let said = format!("I used {PLANTED_KEY} as you said. {}", "It took a while. ".repeat(60));
    let said = always(ScriptedReply::text(said).with_tokens(8_000, 20));
    ScriptedServer::start(Script::new([always(compaction_reply()), always(kept), draft, said])).unwrap()
}

/// Collects all files below a folder, except those of the journal.
fn collect_files(folder: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if path.is_dir() {
            collect_files(&path, into);
        } else if !name.contains("segue.db") {
            into.push((name, fs::read(&path).unwrap_or_default()));
        }
    }
}

#[test]
fn m16_a_planted_key_reaches_no_trace_log_metric_hook_memory_or_mirror() {
    let (collector, model) = (TraceCollector::start(), key_repeating_server());
    let mut mirrored = MirroredMachine::new();
    let every =
        r#"["handoff.proposed", "handoff.accepted", "compaction.before", "compaction.after", "run.ended"]"#;
    let settings = format!(
        "[tracing]\nendpoint = \"{}/v1/traces\"\ncontent = true\n\
         [[hooks]]\non = {every}\ncommand = 'cat >> \"$SEGUE_HOME/told\"; echo >> \"$SEGUE_HOME/told\"'\n",
        collector.url
    );
    fs::create_dir_all(mirrored.sandbox.home()).unwrap();
    let config = mirrored.sandbox.home().join("config.toml");
    fs::write(&config, &settings).unwrap();
    mirrored.sandbox = mirrored.sandbox.with_model(&model);
    let log = mirrored.sandbox.home().join("log.txt");
    mirrored.sandbox.set_variable("SEGUE_LOG", "trace,hyper_util=off,h2=off,reqwest=off");
    mirrored.sandbox.set_variable("SEGUE_LOG_FILE", log.to_str().unwrap());
    let run = |args: &[&str]| {
        let output = mirrored.sandbox.run(args);
        assert_eq!(output.code, 0, "{args:?}: {output:?}");
        output.stdout
    };
    let session = sandbox::sample_session()
        .replace("40 lines", PLANTED_KEY)
        .replace("whole suite", &format!("suite with {PLANTED_KEY}"));
    let session = mirrored.sandbox.write_file("session.jsonl", session);
    run(&["handoff", &session, "--apply", "--json"]);
    let samples = secret_samples(7, 1);
    let typed = samples_by_turn(&samples);
    let step = |at: usize| {
        let padding = "Mind the clock. ".repeat(60);
        let text = format!("step {at}: go on with {PLANTED_KEY}. {padding}\n\n{}", typed[at]);
        run(&["run", "-t", "last", "-p", &text]);
    };
    (0..6).for_each(step);
    assert!(run(&["compact", "last"]).contains(" messages compacted"));
    fs::write(&config, settings + "[memory]\nshort_term_tokens = 1200\nmodel = \"anthropic/small\"\n")
        .unwrap();
    (6..TURNS).for_each(step);
    run(&["memory", "summarize"]);
    mirrored.wait_for_status("mirrored summary", |status| status["waiting"] == 0);

    // Only the journal contains the original messages.
    assert!(run(&["history", "last", "--json"]).contains(PLANTED_FRAGMENT));
    let spans = collector.wait_for_spans(|spans| spans.iter().any(|span| span.name == "mirror_handoff"));
    assert!(spans.iter().any(|span| span.name.starts_with("generate_handoff_summary_iter_0")), "{spans:?}");
    assert!(collector.has_received("Mind the clock") && !collector.has_received(PLANTED_FRAGMENT), "traces");
    let rows = mirrored.query_rows("SELECT summary_json::text || summary_md FROM thread_summaries").concat();
    assert!(rows.contains("Never raise the timeout") && !rows.contains(PLANTED_FRAGMENT), "{rows}");
    let summaries = run(&["memory", "summaries", "--json"]);
    assert!(summaries.contains("[redacted]") && !summaries.contains(PLANTED_FRAGMENT), "{summaries}");
    for args in [&["trace", "last", "--json"][..], &["memory", "show"]] {
        assert!(!run(args).contains(PLANTED_FRAGMENT), "{args:?}");
    }
    let serving = ServeProcess::start(&mirrored.sandbox);
    assert!(!owner_client(&serving).get("/metrics").text().contains(PLANTED_FRAGMENT));
    check_kept_files(&mirrored.sandbox, &samples);
}

/// Checks that the files of the home folder have none of the planted secrets, and that the journal has them.
fn check_kept_files(sandbox: &sandbox::TestSandbox, samples: &[SecretSample]) {
    let history = sandbox.run(&["history", "last", "--json"]).stdout;
    let is_typed = |sample: &&SecretSample| history.contains(&sample.secret);
    assert!(samples.iter().filter(is_typed).count() > 200, "the journal has what the user typed");
    let mut kept = Vec::new();
    collect_files(&sandbox.home(), &mut kept);
    for wanted in ["told", "agent.md", "log"] {
        assert!(kept.iter().any(|(name, content)| name.contains(wanted) && !content.is_empty()), "{wanted}");
    }
    let payloads = kept
        .iter()
        .find(|(name, _)| name.ends_with("told"))
        .map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned());
    for occasion in ["handoff.accepted", "compaction.before", "compaction.after", "run.ended"] {
        assert!(payloads.as_deref().is_some_and(|text| text.contains(occasion)), "{occasion}: {payloads:?}");
    }
    for (name, content) in kept {
        let content = String::from_utf8_lossy(&content);
        assert!(!content.contains(PLANTED_FRAGMENT), "{name}");
        let leaked = samples.iter().filter(|sample| content.contains(&sample.secret));
        assert_eq!(leaked.map(|sample| sample.kind).collect::<Vec<&str>>(), [""; 0], "{name}");
    }
}
