//! Requests to run outside the sandbox, and the settings of the sandbox.

use serde_json::json;

use super::{HostileRepository, support};

#[test]
fn a_command_outside_the_sandbox_needs_an_approval_whatever_rule_allows_it() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    fixture.write_config("[permissions]\nallow = [\"execute\", \"execute(touch *)\"]\n");
    let call = json!({
        "command": "touch ../made", "outside_sandbox": true, "description": "the marker belongs next to the project"
    });
    let (output, _) = fixture.run_calls(&[call], "sandboxed");
    assert!(output.code == 3 && !fixture.path("made").exists(), "{output:?}");
    for expected in
        ["Run outside the sandbox: touch", "the model's reason: the marker belongs next to the project"]
    {
        assert!(output.stdout.contains(expected), "{output:?}");
    }
    let output = fixture.sandbox.run(&["decide", "last", "--approve"]);
    assert!(output.code == 0 && fixture.path("made").exists(), "{output:?}");
}

#[test]
fn a_request_to_run_outside_states_its_reason() {
    let mut fixture = HostileRepository::new();
    let call = json!({"command": "touch made", "outside_sandbox": true});
    let (_, results) = fixture.run_calls(&[call], "allow");
    assert!(results[0].contains("outside_sandbox needs the reason in `description`"), "{results:?}");
    assert!(!fixture.path("work/made").exists());
}

#[test]
fn commands_in_the_sandbox_need_no_approval_if_the_settings_say_so() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    let call = || json!({"command": "touch made"});
    assert_eq!(fixture.run_calls(&[call()], "ask").0.code, 3);
    fixture.write_config("[sandbox]\ncommands = \"allow\"\n");
    assert_eq!(fixture.run_calls(&[call()], "ask").0.code, 0);
    assert!(fixture.path("work/made").exists());
    fixture.write_config("[sandbox]\ncommands = \"allow\"\n[permissions]\nask = [\"execute(touch *)\"]\n");
    assert_eq!(fixture.run_calls(&[call()], "ask").0.code, 3, "a rule still asks");
    fixture.write_config("[sandbox]\ncommands = \"allow\"\nmode = \"off\"\n");
    assert_eq!(fixture.run_calls(&[call()], "ask").0.code, 3, "without a sandbox, commands need an approval");
}

#[test]
fn declared_folders_are_accessible_and_wrong_paths_are_refused() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    let shared = fixture.path("shared");
    std::fs::create_dir(&shared).unwrap();
    let shared = shared.display();
    fixture.write_config(&format!("[sandbox]\nwritable = [\"{shared}\"]\nreadable = [\"~/notes.txt\"]\n"));
    let results = fixture
        .run(&[&format!("echo x > {shared}/made; cat ~/notes.txt; echo y >> ~/notes.txt; true $HOME")]);
    assert_eq!(
        (fixture.read("shared/made"), fixture.read("user/notes.txt")),
        ("x\n".into(), super::PLANTED.into())
    );
    assert!(results[0].contains(super::PLANTED), "{results:?}");
    fixture.write_config("[sandbox]\nwritable = [\"shared\"]\n");
    fixture.sandbox.run(&["threads", "list"]).assert_error(1, "`sandbox.writable` has the path \"shared\"");
}

#[test]
fn a_failed_command_gets_a_hint_and_the_doctor_names_the_parts() {
    let Some(support) = support() else { return };
    let mut fixture = HostileRepository::new();
    let results = fixture.run(&["echo x > /usr/x"]);
    assert!(results[0].contains("this may be the cause"), "{results:?}");
    let checks = fixture.sandbox.json(&["doctor", "--json"]);
    let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "sandbox").unwrap();
    let detail = check["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("Landlock ABI {}", support.landlock_abi)), "{detail}");
    assert!(detail.contains("without network"), "{detail}");
    fixture.write_config("[sandbox]\nmode = \"off\"\n");
    let checks = fixture.sandbox.json(&["doctor", "--json"]);
    let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "sandbox").unwrap();
    assert_eq!(check["verdict"], "warn");
}

#[test]
fn an_approved_read_of_a_file_of_secrets_shows_the_file() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    let call = || json!({"command": "cat .env"});
    assert_eq!(fixture.run_calls(&[call()], "sandboxed").0.code, 3);
    let (output, results) = fixture.run_calls(&[call()], "allow");
    assert!(output.code == 0 && results[0].contains(super::PLANTED), "{results:?}");
}
