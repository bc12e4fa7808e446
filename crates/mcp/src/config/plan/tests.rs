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
fn a_description_becomes_a_program_or_an_address_or_a_reason() {
    check(
        json!({"command": "npx", "args": ["-y", "${NAME:-x}"], "env": {"K": "${TOKEN}"}}),
        "run K=t0 npx -y x",
    );
    check(json!({"url": "https://h.example/mcp?k=${TOKEN}"}), "reach https://h.example/mcp?k=t0");
    check(json!({"command": "npx", "env": {"K": "${NONE}"}}), "the variable `NONE` is not set");
    check(json!({"command": "npx", "url": "https://h.example"}), "it has both `command` and `url`");
    check(json!({}), "it has neither `command` nor `url`");
    check(json!({"url": "ftp://h.example"}), "`url` must begin with http:// or https://");
    check(json!({"url": "not an address"}), "`url` is no address: invalid uri character");
    check(json!({"command": "npx", "enabled": false}), "Disabled");
}

#[test]
fn an_unknown_key_is_noticed() {
    assert!(serde_json::from_value::<ServerConfig>(json!({"comand": "npx"})).is_err());
}

#[test]
fn a_projects_server_needs_consent_to_exactly_what_it_starts() {
    let nobody = BTreeMap::new();
    let mut consents = ProjectConsents::default();
    let first = project(json!({"command": "./serve", "args": ["a b", "${TOKEN}"]}));
    let asked = plan_servers(&nobody, &first, &consents, &variable);
    assert_eq!(readiness_text(&asked[0]), "ConsentPending");
    assert_eq!(asked[0].target, "./serve \"a b\" ${TOKEN}");
    assert_eq!(asked[0].variables, ["TOKEN"]);

    consents.record_decision(&asked[0], ConsentDecision::Allow);
    assert_eq!(
        readiness_text(&plan_servers(&nobody, &first, &consents, &variable)[0]),
        "run  ./serve a b t0"
    );

    let changed = project(json!({"command": "./serve", "args": ["a b", "${TOKEN}", "--all"]}));
    assert_eq!(readiness_text(&plan_servers(&nobody, &changed, &consents, &variable)[0]), "ConsentPending");

    consents.record_decision(&asked[0], ConsentDecision::Refuse);
    assert_eq!(readiness_text(&plan_servers(&nobody, &first, &consents, &variable)[0]), "ConsentRefused");
}

#[test]
fn a_person_is_shown_all_that_decides_what_is_started() {
    let server =
        json!({"command": "npx", "args": ["a\u{202e}b"], "env": {"PATH": "./evil:${PATH}"}, "cwd": "sub"});
    let nobody = BTreeMap::new();
    let theirs = plan_servers(&nobody, &project(server.clone()), &ProjectConsents::default(), &variable);
    assert_eq!(theirs[0].target, r#"PATH=./evil:${PATH} npx "a\u{202e}b" (in sub)"#);
    let own = plan_servers(&config(server), &ProjectServers::new(), &ProjectConsents::default(), &variable);
    assert_eq!(own[0].target, r#"PATH=… npx "a\u{202e}b" (in sub)"#);
    let reached = project(json!({"url": "https://h.example/${A}", "headers": {"X": "${TOKEN}"}}));
    let theirs = plan_servers(&nobody, &reached, &ProjectConsents::default(), &variable);
    assert_eq!(theirs[0].target, "https://h.example/${A} X=${TOKEN}");
    assert_eq!(theirs[0].variables, ["A", "TOKEN"]);
}

#[test]
fn the_users_own_server_counts_before_the_projects() {
    let own = config(json!({"command": "mine"}));
    let theirs = project(json!({"command": "theirs"}));
    let planned = plan_servers(&own, &theirs, &ProjectConsents::default(), &variable);
    let found: Vec<_> = planned.iter().map(|p| (p.origin, readiness_text(p))).collect();
    assert_eq!(
        found,
        [(ConfigOrigin::Config, "run  mine ".to_owned()), (ConfigOrigin::Project, "Shadowed".to_owned())]
    );
}

#[test]
fn answers_are_kept_and_only_for_their_project() {
    let folder = tempfile::tempdir().unwrap();
    let mut consents = ProjectConsents::read(folder.path()).unwrap();
    let theirs = project(json!({"command": "theirs"}));
    let planned = plan_servers(&BTreeMap::new(), &theirs, &consents, &variable);
    consents.record_decision(&planned[0], ConsentDecision::Allow);
    consents.write(folder.path()).unwrap();
    consents.write(folder.path()).unwrap();
    let kept = ProjectConsents::read(folder.path()).unwrap();
    assert_eq!(readiness_text(&plan_servers(&BTreeMap::new(), &theirs, &kept, &variable)[0]), "run  theirs ");
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
fn answers_given_at_the_same_time_are_both_kept() {
    let folder = tempfile::tempdir().unwrap();
    let servers =
        ["a", "b", "c"].map(|name| (name.to_owned(), serde_json::from_value(json!({"command": name}))));
    let project: ProjectServers =
        servers.into_iter().map(|(name, server)| (name, Ok(server.unwrap()))).collect();
    let answered = |consents: &ProjectConsents| -> Vec<String> {
        plan_servers(&BTreeMap::new(), &project, consents, &variable).iter().map(readiness_text).collect()
    };
    let asked = plan_servers(&BTreeMap::new(), &project, &ProjectConsents::default(), &variable);
    let mut both = [(); 2].map(|()| ProjectConsents::read(folder.path()).unwrap());
    for (consents, server) in both.iter_mut().zip(&asked) {
        consents.record_decision(server, ConsentDecision::Allow);
        consents.write(folder.path()).unwrap();
    }
    assert_eq!(
        answered(&ProjectConsents::read(folder.path()).unwrap()),
        ["run  a ", "run  b ", "ConsentPending"]
    );
    // And many processes at once.
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (server, folder) = (&asked[number % 3], folder.path());
            scope.spawn(move || {
                let mut consents = ProjectConsents::read(folder).unwrap();
                consents.record_decision(server, ConsentDecision::Refuse);
                consents.write(folder).unwrap();
            });
        }
    });
    assert_eq!(answered(&ProjectConsents::read(folder.path()).unwrap()), ["ConsentRefused"; 3]);
}
