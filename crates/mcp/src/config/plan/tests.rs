//! The readiness of configured servers.

use super::*;

fn config(server: serde_json::Value) -> BTreeMap<String, ServerConfig> {
    BTreeMap::from([("s".to_owned(), serde_json::from_value(server).unwrap())])
}

fn project(server: serde_json::Value) -> ProjectServers {
    ProjectServers::from([("s".to_owned(), Ok(serde_json::from_value(server).unwrap()))])
}

fn variable(name: &str) -> Option<String> {
    (name == "TOKEN").then(|| "t0".to_owned())
}

fn readiness_text(planned: &PlannedServer) -> String {
    match &planned.readiness {
        ServerReadiness::Ready(definition) => match &definition.transport {
            ServerTransport::Program { command, args, env, .. } => {
                let env: Vec<_> = env.iter().map(|(k, v)| format!("{k}={}", v.expose_secret())).collect();
                format!("run {} {command} {}", env.join(" "), args.join(" "))
            }
            ServerTransport::Http { url, .. } => format!("reach {url}"),
        },
        ServerReadiness::Invalid(reason) => reason.clone(),
        other => format!("{other:?}"),
    }
}

fn check(server: serde_json::Value, expected: &str) {
    let planned =
        plan_servers(&config(server), &ProjectServers::new(), &ProjectConsents::default(), &variable);
    assert_eq!(readiness_text(&planned[0]), expected);
}

#[test]
fn a_configuration_becomes_a_program_an_address_or_an_error() {
    check(
        json!({"command": "npx", "args": ["-y", "${NAME:-x}"], "env": {"K": "${TOKEN}"}}),
        "run K=t0 npx -y x",
    );
    check(json!({"url": "https://h.example/mcp?k=${TOKEN}"}), "reach https://h.example/mcp?k=t0");
    check(json!({"command": "npx", "env": {"K": "${NONE}"}}), "the variable `NONE` is not set");
    check(json!({"command": "npx", "url": "https://h.example"}), "it has both `command` and `url`");
    check(json!({}), "it has neither `command` nor `url`");
    check(json!({"url": "ftp://h.example"}), "`url` must begin with http:// or https://");
    check(json!({"url": "not an address"}), "`url` is not a valid URL: invalid uri character");
    check(json!({"command": "npx", "enabled": false}), "Disabled");
    check(json!({"url": "https://h.example", "sandbox": true}), "`sandbox` needs a `command`");
    check(json!({"command": "npx", "network": true}), "`network` needs `sandbox = true`");
}

#[test]
fn a_program_runs_in_the_sandbox_that_its_settings_ask_for() {
    let check = |server: serde_json::Value, sandbox: Option<NetworkAccess>, target: &str| {
        let consents = ProjectConsents::default();
        let planned = plan_servers(&config(server), &ProjectServers::new(), &consents, &variable);
        let ServerReadiness::Ready(definition) = &planned[0].readiness else { panic!("{planned:?}") };
        assert_eq!((definition.sandbox, planned[0].target.as_str()), (sandbox, target));
        planned[0].sha256.clone()
    };
    let without = check(json!({"command": "npx"}), None, "npx");
    let off = json!({"command": "npx", "sandbox": true});
    let off = check(off, Some(NetworkAccess::Off), "npx (in the sandbox)");
    let on = json!({"command": "npx", "sandbox": true, "network": true});
    let on = check(on, Some(NetworkAccess::On), "npx (in the sandbox, with network)");
    assert!(without != off && off != on, "the cached tools of another sandbox are not used");
}

#[test]
fn an_unknown_key_is_an_error() {
    assert!(serde_json::from_value::<ServerConfig>(json!({"comand": "npx"})).is_err());
}

#[test]
fn a_projects_server_needs_consent_to_its_exact_configuration() {
    let no_config = BTreeMap::new();
    let mut consents = ProjectConsents::default();
    let first = project(json!({"command": "./serve", "args": ["a b", "${TOKEN}"]}));
    let planned = plan_servers(&no_config, &first, &consents, &variable);
    assert_eq!(readiness_text(&planned[0]), "ConsentPending");
    assert_eq!(planned[0].target, "./serve \"a b\" ${TOKEN}");
    assert_eq!(planned[0].variables, ["TOKEN"]);

    consents.record_decision(&planned[0], ConsentDecision::Allow);
    assert_eq!(
        readiness_text(&plan_servers(&no_config, &first, &consents, &variable)[0]),
        "run  ./serve a b t0"
    );

    let changed = project(json!({"command": "./serve", "args": ["a b", "${TOKEN}", "--all"]}));
    assert_eq!(
        readiness_text(&plan_servers(&no_config, &changed, &consents, &variable)[0]),
        "ConsentPending"
    );

    consents.record_decision(&planned[0], ConsentDecision::Refuse);
    assert_eq!(readiness_text(&plan_servers(&no_config, &first, &consents, &variable)[0]), "ConsentRefused");
}

#[test]
fn the_target_shows_everything_that_determines_the_started_program() {
    let server =
        json!({"command": "npx", "args": ["a\u{202e}b"], "env": {"PATH": "./evil:${PATH}"}, "cwd": "sub"});
    let no_config = BTreeMap::new();
    let theirs = plan_servers(&no_config, &project(server.clone()), &ProjectConsents::default(), &variable);
    assert_eq!(theirs[0].target, r#"PATH=./evil:${PATH} npx "a\u{202e}b" (in sub)"#);
    let own = plan_servers(&config(server), &ProjectServers::new(), &ProjectConsents::default(), &variable);
    assert_eq!(own[0].target, r#"PATH=… npx "a\u{202e}b" (in sub)"#);
    let reached = project(json!({"url": "https://h.example/${A}", "headers": {"X": "${TOKEN}"}}));
    let theirs = plan_servers(&no_config, &reached, &ProjectConsents::default(), &variable);
    assert_eq!(theirs[0].target, "https://h.example/${A} X=${TOKEN}");
    assert_eq!(theirs[0].variables, ["A", "TOKEN"]);
}

#[test]
fn the_users_server_takes_precedence_over_the_projects() {
    let own = config(json!({"command": "mine"}));
    let theirs = project(json!({"command": "theirs"}));
    let planned = plan_servers(&own, &theirs, &ProjectConsents::default(), &variable);
    let actual: Vec<_> = planned.iter().map(|p| (p.origin, readiness_text(p))).collect();
    assert_eq!(
        actual,
        [(ConfigOrigin::Config, "run  mine ".to_owned()), (ConfigOrigin::Project, "Shadowed".to_owned())]
    );
}

#[test]
fn decisions_are_stored_by_project() {
    let folder = tempfile::tempdir().unwrap();
    let mut consents = ProjectConsents::read(folder.path()).unwrap();
    let theirs = project(json!({"command": "theirs"}));
    let planned = plan_servers(&BTreeMap::new(), &theirs, &consents, &variable);
    consents.record_decision(&planned[0], ConsentDecision::Allow);
    consents.write(folder.path()).unwrap();
    consents.write(folder.path()).unwrap();
    let stored = ProjectConsents::read(folder.path()).unwrap();
    assert_eq!(
        readiness_text(&plan_servers(&BTreeMap::new(), &theirs, &stored, &variable)[0]),
        "run  theirs "
    );
    let elsewhere = ProjectConsents::read(&folder.path().join("elsewhere")).unwrap();
    assert_eq!(
        readiness_text(&plan_servers(&BTreeMap::new(), &theirs, &elsewhere, &variable)[0]),
        "ConsentPending"
    );
    std::fs::write(folder.path().join("consent.json"), "{").unwrap();
    assert!(ProjectConsents::read(folder.path()).is_err());
    assert!(consents.write(folder.path()).is_err());
}

#[test]
fn concurrent_decisions_are_all_stored() {
    let folder = tempfile::tempdir().unwrap();
    let servers =
        ["a", "b", "c"].map(|name| (name.to_owned(), serde_json::from_value(json!({"command": name}))));
    let project: ProjectServers =
        servers.into_iter().map(|(name, server)| (name, Ok(server.unwrap()))).collect();
    let readiness = |consents: &ProjectConsents| -> Vec<String> {
        plan_servers(&BTreeMap::new(), &project, consents, &variable).iter().map(readiness_text).collect()
    };
    let planned = plan_servers(&BTreeMap::new(), &project, &ProjectConsents::default(), &variable);
    let mut both = [(); 2].map(|()| ProjectConsents::read(folder.path()).unwrap());
    for (consents, server) in both.iter_mut().zip(&planned) {
        consents.record_decision(server, ConsentDecision::Allow);
        consents.write(folder.path()).unwrap();
    }
    assert_eq!(
        readiness(&ProjectConsents::read(folder.path()).unwrap()),
        ["run  a ", "run  b ", "ConsentPending"]
    );
    // Many processes write at once.
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (server, folder) = (&planned[number % 3], folder.path());
            scope.spawn(move || {
                let mut consents = ProjectConsents::read(folder).unwrap();
                consents.record_decision(server, ConsentDecision::Refuse);
                consents.write(folder).unwrap();
            });
        }
    });
    assert_eq!(readiness(&ProjectConsents::read(folder.path()).unwrap()), ["ConsentRefused"; 3]);
}
