//! Isolation of memory over two projects, two assistants and two owners, as the model's requests show it.

use agent::{AgentSettings, ProjectScope, SearchRequest};
use journal::{Transaction, Write, assistant_label};
use memory::{SummarizationHandoff, TurnWindow};
use protocol::{OwnerScope, StoredItem};
use serde_json::json;

use super::*;

/// The message on which the model uses its tools.
const QUESTION: &str = "Which one is ours?";

/// One word for each combination of project, assistant and owner.
const BIRDS: [&str; 8] = ["avocet", "bittern", "curlew", "dunlin", "egret", "fulmar", "godwit", "heron"];

/// Returns the agents of all combinations. The folders of the projects have notes.
fn all_agents(environment: &TestEnvironment) -> Vec<Agent> {
    let store = environment.store();
    let mut agents = Vec::new();
    for project in ["one", "two"] {
        let workspace = environment.folder().join(project);
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::write(workspace.join("AGENTS.md"), format!("Notes of project {project}.")).unwrap();
        for assistant in ["agent", "gardener"] {
            let settings = AgentSettings {
                workspace: workspace.clone(),
                assistant_id: assistant.parse().unwrap(),
                ..environment.settings(TEST_MODEL)
            };
            let agent = Agent::with_store(settings, store.clone()).unwrap();
            let of_alice = agent.scoped(OwnerScope::Owner(Some("alice".parse().unwrap())));
            agents.extend([agent, of_alice]);
        }
    }
    agents
}

/// Stores the word in a message, a summary, an item and a note.
async fn teach(agent: &Agent, bird: &str) {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    send_message(agent, thread, &format!("Our bird is the {bird}.")).await;
    let messages = agent.memory().task_trace(thread, None, 10).await.unwrap();
    let window = TurnWindow::from_indexes(messages.iter().map(|message| message.turn_index));
    let summarization = SummarizationHandoff {
        store: agent.store().clone(),
        summarizer: None,
        settings: Default::default(),
        agent_md: None,
    };
    let summary = summarization.transfer(agent.assistant_id(), &window.in_thread(thread)).await.unwrap();
    assert!(summary.unwrap().summary_text.contains(bird));
    let note = format!("note of the {bird}");
    agent.memory().remember(agent.notes_scope(), &note).await.unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let item = StoredItem {
        namespace: vec!["agents".to_owned(), assistant_label(agent.assistant_id(), Some(&agent.project()))],
        key: "bird".to_owned(),
        value: json!({"item": format!("item of the {bird}")}).as_object().unwrap().clone(),
        created_at: now,
        updated_at: now,
    };
    let writes = vec![Write::PutItem(item)];
    agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
}

#[tokio::test]
async fn f10_memory_reaches_only_requests_of_its_project_assistant_and_owner() {
    let environment = TestEnvironment::new();
    let look = ScriptedReply::call("c1", "recall", json!({"query": "our bird", "scope": "project"}))
        .with_call("c2", "store", json!({"action": "search"}));
    let server = ScriptedServer::start(Script::new([
        without_usage(look).when_body_contains(QUESTION).when_turn_is(1, 1).with_repeat(),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ]))
    .unwrap();
    configure(&environment, &server, (200_000, ""));
    let agents = all_agents(&environment);
    for (agent, bird) in agents.iter().zip(BIRDS) {
        teach(agent, bird).await;
    }
    for (index, (agent, own)) in agents.iter().zip(BIRDS).enumerate() {
        let before = server.call_count();
        let thread = agent.threads().create(None).await.unwrap().thread_id;
        send_message(agent, thread, QUESTION).await;
        let requests: Vec<String> =
            server.requests()[before..].iter().map(|request| request.body.to_string()).collect();
        assert_eq!(requests.len(), 2, "{requests:?}");
        assert!(requests[0].contains("recent_memory") && requests[0].contains(own), "{}", requests[0]);
        assert!(requests[0].contains(&format!("note of the {own}")), "{}", requests[0]);
        let answer = &requests[1];
        assert!(answer.contains("<recalled>") && answer.contains(&format!("item of the {own}")), "{answer}");
        for other in BIRDS.into_iter().filter(|bird| *bird != own) {
            assert!(requests.iter().all(|request| !request.contains(other)), "{other} for {own}: {answer}");
        }
        let is_local = agent.user().is_none();
        for (number, project) in ["one", "two"].into_iter().enumerate() {
            let notes = format!("Notes of project {project}.");
            assert_eq!(answer.contains(&notes), is_local && number == index / 4, "{own}: {answer}");
        }
        let request = SearchRequest {
            project: agent.default_project_scope(),
            assistant_id: Some(agent.assistant_id().clone()),
            ..SearchRequest::new("our bird")
        };
        let found = format!("{:?}", agent.memory().search(&request).await.unwrap().hits);
        let elsewhere = SearchRequest { project: ProjectScope::Any, ..request };
        let everywhere = format!("{:?}", agent.memory().search(&elsewhere).await.unwrap().hits);
        for (other_index, other) in BIRDS.into_iter().enumerate() {
            assert_eq!(found.contains(other), other == own, "{other} for {own}: {found}");
            // The same assistant of the same owner in the other project.
            let is_same_assistant = other_index % 4 == index % 4;
            assert_eq!(everywhere.contains(other), is_same_assistant, "{other} for {own}: {everywhere}");
        }
    }
}

#[tokio::test]
async fn folders_of_an_earlier_version_become_projects_when_the_agent_is_opened() {
    let environment = TestEnvironment::new();
    let root = environment.folder().join("repository");
    let folder = root.join("src");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let thread = environment.agent().threads().create(None).await.unwrap().thread_id;
    // The migration leaves the recorded folder until its project is known.
    let recorded = folder.canonicalize().unwrap().display().to_string();
    environment.execute_sql(&format!(
        "INSERT INTO projects (path, is_resolved) VALUES ('{recorded}', 0);
         UPDATE thread_heads SET project_key = (SELECT project_key FROM projects WHERE path = '{recorded}')
         WHERE thread_id = '{thread}'"
    ));
    for _ in 0..2 {
        let settings =
            AgentSettings { database: environment.server_address(), ..environment.settings("none") };
        let agent = Agent::open(settings).await.unwrap();
        let stored = agent.store().thread(thread).await.unwrap().unwrap();
        assert_eq!(stored.project, Some(root.canonicalize().unwrap().display().to_string()));
    }
}
