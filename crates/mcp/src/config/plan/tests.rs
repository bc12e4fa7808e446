//! What becomes of a server that is written down.

use super::*;

fn config(server: serde_json::Value) -> BTreeMap<String, ServerConfig> {
    BTreeMap::from([("s".to_owned(), serde_json::from_value(server).unwrap())])
}

fn project(server: serde_json::Value) -> Project {
    Project::from([("s".to_owned(), Ok(serde_json::from_value(server).unwrap()))])
}

fn variable(name: &str) -> Option<String> {
    (name == "TOKEN").then(|| "t0".to_owned())
}

fn standing_of(planned: &Planned) -> String {
    match &planned.standing {
        Standing::Ready(definition) => match &definition.transport {
            Transport::Program { command, args, env, .. } => {
                let env: Vec<_> = env.iter().map(|(k, v)| format!("{k}={}", v.expose_secret())).collect();
                format!("run {} {command} {}", env.join(" "), args.join(" "))
            }
            Transport::Http { url, .. } => format!("reach {url}"),
        },
        Standing::Broken(reason) => reason.clone(),
        other => format!("{other:?}"),
    }
}

fn check(server: serde_json::Value, expected: &str) {
    let planned = plan(&config(server), &Project::new(), &Consents::default(), &variable);
    assert_eq!(standing_of(&planned[0]), expected);
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
    let mut consents = Consents::default();
    let first = project(json!({"command": "./serve", "args": ["a b", "${TOKEN}"]}));
    let asked = plan(&nobody, &first, &consents, &variable);
    assert_eq!(standing_of(&asked[0]), "Unasked");
    assert_eq!(asked[0].what, "./serve \"a b\" ${TOKEN}");
    assert_eq!(asked[0].variables, ["TOKEN"]);

    consents.record(&asked[0], Answer::Allow);
    assert_eq!(standing_of(&plan(&nobody, &first, &consents, &variable)[0]), "run  ./serve a b t0");

    let changed = project(json!({"command": "./serve", "args": ["a b", "${TOKEN}", "--all"]}));
    assert_eq!(standing_of(&plan(&nobody, &changed, &consents, &variable)[0]), "Unasked");

    consents.record(&asked[0], Answer::Refuse);
    assert_eq!(standing_of(&plan(&nobody, &first, &consents, &variable)[0]), "Refused");
}

#[test]
fn a_person_is_shown_all_that_decides_what_is_started() {
    let server =
        json!({"command": "npx", "args": ["a\u{202e}b"], "env": {"PATH": "./evil:${PATH}"}, "cwd": "sub"});
    let nobody = BTreeMap::new();
    let theirs = plan(&nobody, &project(server.clone()), &Consents::default(), &variable);
    assert_eq!(theirs[0].what, r#"PATH=./evil:${PATH} npx "a\u{202e}b" (in sub)"#);
    let own = plan(&config(server), &Project::new(), &Consents::default(), &variable);
    assert_eq!(own[0].what, r#"PATH=… npx "a\u{202e}b" (in sub)"#);
    let reached = project(json!({"url": "https://h.example/${A}", "headers": {"X": "${TOKEN}"}}));
    let theirs = plan(&nobody, &reached, &Consents::default(), &variable);
    assert_eq!(theirs[0].what, "https://h.example/${A} X=${TOKEN}");
    assert_eq!(theirs[0].variables, ["A", "TOKEN"]);
}

#[test]
fn the_users_own_server_counts_before_the_projects() {
    let own = config(json!({"command": "mine"}));
    let theirs = project(json!({"command": "theirs"}));
    let planned = plan(&own, &theirs, &Consents::default(), &variable);
    let found: Vec<_> = planned.iter().map(|p| (p.source, standing_of(p))).collect();
    assert_eq!(found, [(Source::Config, "run  mine ".to_owned()), (Source::Project, "Shadowed".to_owned())]);
}

#[test]
fn answers_are_kept_and_only_for_their_project() {
    let folder = tempfile::tempdir().unwrap();
    let mut consents = Consents::read(folder.path()).unwrap();
    let theirs = project(json!({"command": "theirs"}));
    let planned = plan(&BTreeMap::new(), &theirs, &consents, &variable);
    consents.record(&planned[0], Answer::Allow);
    consents.write(folder.path()).unwrap();
    consents.write(folder.path()).unwrap();
    let kept = Consents::read(folder.path()).unwrap();
    assert_eq!(standing_of(&plan(&BTreeMap::new(), &theirs, &kept, &variable)[0]), "run  theirs ");
    let elsewhere = Consents::read(&folder.path().join("elsewhere")).unwrap();
    assert_eq!(standing_of(&plan(&BTreeMap::new(), &theirs, &elsewhere, &variable)[0]), "Unasked");
    std::fs::write(folder.path().join("consent.json"), "{").unwrap();
    assert!(Consents::read(folder.path()).is_err());
    assert!(consents.write(folder.path()).is_err());
}

#[test]
fn answers_given_at_the_same_time_are_both_kept() {
    let folder = tempfile::tempdir().unwrap();
    let servers =
        ["a", "b", "c"].map(|name| (name.to_owned(), serde_json::from_value(json!({"command": name}))));
    let project: Project = servers.into_iter().map(|(name, server)| (name, Ok(server.unwrap()))).collect();
    let answered = |consents: &Consents| -> Vec<String> {
        plan(&BTreeMap::new(), &project, consents, &variable).iter().map(standing_of).collect()
    };
    let asked = plan(&BTreeMap::new(), &project, &Consents::default(), &variable);
    let mut both = [(); 2].map(|()| Consents::read(folder.path()).unwrap());
    for (consents, server) in both.iter_mut().zip(&asked) {
        consents.record(server, Answer::Allow);
        consents.write(folder.path()).unwrap();
    }
    assert_eq!(answered(&Consents::read(folder.path()).unwrap()), ["run  a ", "run  b ", "Unasked"]);
    // And many processes at once.
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (server, folder) = (&asked[number % 3], folder.path());
            scope.spawn(move || {
                let mut consents = Consents::read(folder).unwrap();
                consents.record(server, Answer::Refuse);
                consents.write(folder).unwrap();
            });
        }
    });
    assert_eq!(answered(&Consents::read(folder.path()).unwrap()), ["Refused"; 3]);
}
