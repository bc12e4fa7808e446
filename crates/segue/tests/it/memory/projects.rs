//! Memory of one project in the folders of that project and of others.

use serde_json::Value;

use super::{SUMMARY, over_budget_sandbox, summarizing_server};
use crate::compact::conversation_requests;
use crate::sandbox::{ProgramOutput, TestSandbox};

/// Runs the program in a folder beside or below the working folder. Creates the folder.
fn run_in(sandbox: &TestSandbox, folder: &str, args: &[&str]) -> ProgramOutput {
    let folder = sandbox.work_folder().join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    sandbox.command(args).current_dir(folder).output().unwrap().into()
}

fn json_in(sandbox: &TestSandbox, folder: &str, args: &[&str]) -> Value {
    run_in(sandbox, folder, args).json()
}

/// Makes the working folder a repository.
fn make_repository(sandbox: &TestSandbox) {
    std::fs::create_dir_all(sandbox.work_folder().join(".git")).unwrap();
    sandbox.write_file(".git/HEAD", "ref: refs/heads/main\n");
}

#[test]
fn f10_summaries_reach_requests_of_their_project_only_unless_the_configuration_says_so() {
    let server = summarizing_server();
    let sandbox = over_budget_sandbox(&server);
    make_repository(&sandbox);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let first_request = |folder: &str| {
        let output = run_in(&sandbox, folder, &["run", "-p", "Good morning."]);
        assert_eq!(output.code, 0, "{output:?}");
        conversation_requests(&server).pop().unwrap().to_string()
    };
    assert!(first_request(".").contains(SUMMARY));
    assert!(first_request("src/deep").contains(SUMMARY), "a folder of the repository");
    let other = first_request("../other");
    assert!(!other.contains(SUMMARY) && !other.contains("Question"), "{other}");

    let config = sandbox.home().join("config.toml");
    let settings = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{settings}scope = \"assistant\"\n")).unwrap();
    assert!(first_request("../other").contains(SUMMARY));
}

#[test]
fn f10_listings_and_searches_cover_the_project_unless_everywhere_is_requested() {
    let server = summarizing_server();
    let sandbox = over_budget_sandbox(&server);
    make_repository(&sandbox);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let summaries = |folder: &str, more: &[&str]| {
        let args = [&["memory", "summaries", "--json"], more].concat();
        json_in(&sandbox, folder, &args)["summaries"].as_array().unwrap().clone()
    };
    assert_eq!(summaries("src", &[]).len(), 1);
    assert_eq!(summaries("../other", &[]).len(), 0);
    let elsewhere = summaries("../other", &["--everywhere"]);
    let project = sandbox.work_folder().canonicalize().unwrap();
    assert_eq!(elsewhere[0]["project"], project.to_str().unwrap());
    let hits = |folder: &str, more: &[&str]| {
        let args = [&["search", "module", "line", "--limit", "50", "--json"], more].concat();
        json_in(&sandbox, folder, &args)["hits"].as_array().unwrap().len()
    };
    let found = hits(".", &[]);
    assert!(found > 10, "{found}");
    assert_eq!((hits("src", &[]), hits("../other", &[])), (found, 0));
    assert_eq!(hits("../other", &["--everywhere"]), found);
    assert!(hits("../other", &["--thread", "last"]) > 10, "a named thread is searched wherever it is");
    let output = run_in(&sandbox, "../other", &["search", "module"]);
    assert!(output.stdout.contains("--everywhere"), "{output:?}");
    let output = run_in(&sandbox, "../other", &["memory", "summaries"]);
    assert!(output.stdout.contains("--everywhere"), "{output:?}");
    let output = run_in(&sandbox, "../other", &["memory", "summaries", "--everywhere"]);
    assert!(output.stdout.contains("work"), "the project is named: {output:?}");

    // A thread without a folder is personal.
    sandbox.execute_sql("UPDATE summaries SET project_key = 0");
    assert_eq!(summaries(".", &[]).len(), 0);
    assert_eq!(summaries(".", &["--everywhere"])[0]["project"], Value::Null);
}
