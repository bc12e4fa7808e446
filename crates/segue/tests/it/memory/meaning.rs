//! Searches by meaning, with an embedding model at the wire.

use serde_json::{Value, json};
use test_model::{Script, ScriptedEmbeddings, ScriptedFault, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::server::ServeProcess;

const SECRET: &str = "ghp_1aB2cD3eF4gH5iJ6kL7mN8oP9qR0sT1uV2wX";

/// Starts an embedding model that knows that a lease is a kind of lock.
fn embedding_server(fault: Option<ScriptedFault>) -> ScriptedServer {
    let concepts = vec![["lease", "lock", "mutual", "exclusion"].map(str::to_owned).to_vec()];
    let embeddings = Some(ScriptedEmbeddings { concepts, words_max: None, fault, answers_before_fault: 0 });
    ScriptedServer::start(Script { embeddings, ..Script::default() }).unwrap()
}

/// Returns a sandbox with an imported session of which one message is about a lease.
fn sandbox_with(url: &str, budget: u64) -> TestSandbox {
    let sandbox = TestSandbox::new();
    let config =
        format!("[search.embeddings]\nurl = \"{url}/v1\"\nmodel = \"tiny\"\ndaily_tokens = {budget}\n");
    std::fs::create_dir_all(sandbox.home()).unwrap();
    std::fs::write(sandbox.home().join("config.toml"), config).unwrap();
    let mut messages = vec![
        json!({"role": "user", "content": format!("the worker keeps its lease after a crash, token {SECRET}")}),
        json!({"role": "assistant", "content": "I have read the worker."}),
    ];
    for number in 0..12 {
        messages.push(json!({"role": "user", "content": format!("rename field {number} of the form")}));
        messages.push(json!({"role": "assistant", "content": format!("Field {number} is renamed.")}));
    }
    let file = sandbox.write_file("session.json", json!(messages).to_string());
    assert_eq!(sandbox.run(&["import", &file]).code, 0);
    sandbox
}

fn search(sandbox: &TestSandbox, text: &str) -> Value {
    sandbox.json(&["search", text, "--everywhere", "--json"])
}

#[test]
fn a_search_finds_a_message_by_its_meaning_after_messages_are_embedded() {
    let server = embedding_server(None);
    let sandbox = sandbox_with(server.url(), 100_000);
    let question = "how is mutual exclusion done";
    let before = search(&sandbox, question);
    assert_eq!(before["hits"], json!([]));
    assert_eq!(before["meaning"], json!({"state": "compared", "missing": 26}));
    let output = sandbox.run(&["search", question, "--everywhere"]);
    let note = "Up to 26 messages have no embedding yet: only their words were compared. `segue memory embed` embeds them.";
    assert!(output.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(note), "{output:?}");

    let output = sandbox.run(&["memory", "embed"]);
    assert_eq!(output.stdout, "26 messages embedded. All messages have embeddings now.\n", "{output:?}");
    assert_eq!(
        sandbox.json(&["memory", "embed", "--json"]),
        json!({"state": "complete", "embedded": 0, "tokens_of_day": null})
    );
    let found = search(&sandbox, question);
    assert_eq!(found["hits"][0]["seq"], 1, "{found}");
    assert_eq!(found["meaning"], json!({"state": "compared", "missing": 0}));
    let recalled = sandbox.json(&["recall", "last", "mutual exclusion", "--json"]);
    assert_eq!(recalled["excerpts"][0][0]["seq"], 1, "{recalled}");
    assert_eq!(recalled["meaning"]["state"], "compared");
    let sent = server.requests().iter().map(|request| request.body.to_string()).collect::<String>();
    assert!(sent.contains("keeps its lease") && !sent.contains("1aB2cD3eF4gH5iJ6"), "{sent}");
    let doctor = sandbox.run(&["doctor"]).stdout;
    assert!(doctor.contains("tiny at http://127.0.0.1:") && doctor.contains("embeddings: 26"), "{doctor}");
}

#[test]
fn a_search_answers_by_words_if_the_embedding_model_fails() {
    let fault = ScriptedFault::Status { status: 401, headers: [].into(), body: "bad key".to_owned() };
    let server = embedding_server(Some(fault));
    let sandbox = sandbox_with(server.url(), 100_000);
    let found = search(&sandbox, "the lease of the worker");
    assert_eq!(found["hits"][0]["seq"], 1, "{found}");
    assert_eq!(found["meaning"]["state"], "unavailable");
    let output = sandbox.run(&["search", "the lease of the worker", "--everywhere"]);
    assert!(
        output
            .stderr
            .replace('\n', " ")
            .contains("Only words were compared: failed to use the embedding model"),
        "{output:?}"
    );
    let output = sandbox.run(&["memory", "embed"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("(401): bad key") && output.stderr.contains("key_variable"), "{output:?}");
}

#[test]
fn embedding_without_a_model_says_how_to_configure_one() {
    let sandbox = TestSandbox::new();
    let output = sandbox.run(&["memory", "embed"]);
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.stderr.contains("[search.embeddings]"), "{output:?}");
    std::fs::write(
        sandbox.home().join("config.toml"),
        "[search.embeddings]\nurl = \"tiny\"\nmodel = \"m\"\n",
    )
    .unwrap();
    let output = sandbox.run(&["memory", "embed"]);
    assert!(output.stderr.contains("`search.embeddings.url` is not an http or https URL"), "{output:?}");
    std::fs::write(sandbox.home().join("config.toml"), "[search]\nembeddings = \"http://a m\"\n").unwrap();
    let output = sandbox.run(&["memory", "embed"]);
    assert!(output.stderr.contains("expected a table with `url` and `model`"), "{output:?}");
}

#[test]
fn the_budget_of_a_day_stops_the_embedding() {
    let server = embedding_server(None);
    let sandbox = sandbox_with(server.url(), 60);
    let stopped = sandbox.json(&["memory", "embed", "--json"]);
    assert_eq!(stopped["state"], "budget_used", "{stopped}");
    let number = |name: &str| stopped[name].as_u64().unwrap();
    assert!((1..26).contains(&number("embedded")) && number("tokens_of_day") <= 60, "{stopped}");
    let output = sandbox.run(&["memory", "embed"]).stdout;
    assert!(output.contains("`search.embeddings.daily_tokens` allows 60"), "{output}");
}

#[test]
fn a_server_embeds_in_the_background() {
    let server = embedding_server(None);
    let sandbox = sandbox_with(server.url(), 100_000);
    let process = ServeProcess::start(&sandbox);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.wait_for_calls(1));
    drop(process);
    assert!(server.requests()[0].path.ends_with("/v1/embeddings"));
}

#[test]
fn two_processes_do_not_embed_the_same_messages() {
    let server = embedding_server(None);
    let sandbox = sandbox_with(server.url(), 100_000);
    let lock = std::fs::File::create(sandbox.home().join("embedding.lock")).unwrap();
    lock.lock().unwrap();
    let refused = sandbox.run(&["memory", "embed"]);
    refused.assert_error(1, "another process embeds them at present");
    assert_eq!(server.call_count(), 0);
    drop(lock);
    assert_eq!(sandbox.json(&["memory", "embed", "--json"])["embedded"], 26);
}

#[test]
fn a_hit_without_a_word_of_the_question_says_so() {
    let server = embedding_server(None);
    let sandbox = sandbox_with(server.url(), 100_000);
    assert_eq!(sandbox.run(&["memory", "embed"]).code, 0);
    let found = search(&sandbox, "how is mutual exclusion done");
    assert_eq!(found["hits"][0]["matched_by"], "meaning", "{found}");
    assert_eq!(search(&sandbox, "the lease of the worker")["hits"][0]["matched_by"], "words");
    let output = sandbox.run(&["search", "how is mutual exclusion done", "--everywhere"]);
    assert!(output.stdout.lines().next().unwrap().contains(" by meaning"), "{output:?}");
    let nothing = search(&sandbox, "exclusion");
    assert_eq!((&nothing["hits"], &nothing["meaning"]["state"]), (&json!([]), &json!("off")));
}
