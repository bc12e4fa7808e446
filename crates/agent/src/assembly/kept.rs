//! The graphs that were assembled last: they are used again while what they were made of is the same. What a run alone is
//! bound by is not part of a graph, and what changes while a process lives, such as the rules about calls, agent.md and the
//! skills, is looked at where it is used. How a graph is assembled is not decided here.

use std::sync::Arc;

use model::ChatModel;
use parking_lot::Mutex;
use protocol::AssistantId;
use runtime::{Activities, Graph, Tool};

use super::Purpose;

/// The most graphs that are kept.
const ASSEMBLIES_MAX: usize = 16;

/// What a graph is made of.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) assistant_id: AssistantId,
    pub(super) model: Option<Arc<dyn ChatModel>>,
    pub(super) purpose: Purpose,
    /// The tools of the process as they are at present; none where no turn is run.
    pub(super) tools: Option<Arc<[Arc<dyn Tool>]>>,
}

/// A graph, and the activities that its nodes ask for.
#[derive(Clone)]
pub(super) struct Assembly {
    pub(super) graph: Arc<Graph>,
    pub(super) activities: Activities,
}

/// The graphs of an agent that were assembled last.
#[derive(Default)]
pub(crate) struct Assemblies {
    kept: Mutex<Vec<(Parts, Assembly)>>,
}

impl Assemblies {
    /// Returns the graph that was made of these parts.
    pub(super) fn get(&self, parts: &Parts) -> Option<Assembly> {
        let kept = self.kept.lock();
        kept.iter().find(|(of, _)| of.is(parts)).map(|(_, assembly)| assembly.clone())
    }

    /// Keeps a graph, in the place of one that was made for the same end of parts that are out of date.
    pub(super) fn keep(&self, parts: Parts, assembly: Assembly) {
        let mut kept = self.kept.lock();
        kept.retain(|(of, _)| !of.is_for_the_same_as(&parts));
        if kept.len() >= ASSEMBLIES_MAX {
            kept.remove(0);
        }
        kept.push((parts, assembly));
    }
}

impl Parts {
    /// Returns whether a graph of one is a graph of the other. Models and tools are the same only if they are the very same:
    /// whoever opens or lists them anew may have others.
    fn is(&self, other: &Self) -> bool {
        let is_same_tools = match (&self.tools, &other.tools) {
            (Some(tools), Some(others)) => Arc::ptr_eq(tools, others),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same_tools && self.is_for_the_same_as(other)
    }

    fn is_for_the_same_as(&self, other: &Self) -> bool {
        let is_same_model = match (&self.model, &other.model) {
            (Some(model), Some(other)) => Arc::ptr_eq(model, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same_model && self.purpose == other.purpose && self.assistant_id == other.assistant_id
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use journal::Sqlite;
    use protocol::Scope;

    use super::*;
    use crate::agent::{Agent, Settings};
    use crate::home::Home;

    fn agent(folder: &Path) -> Agent {
        let home = Home::locate(Some(folder.join("home").as_os_str())).unwrap();
        home.create().unwrap();
        std::fs::write(home.config(), "[providers.anthropic]\napi_key = \"test\"\n").unwrap();
        let settings = Settings { model: Some("anthropic/test".to_owned()), ..Settings::new(home, folder) };
        Agent::with_store(settings, Arc::new(Sqlite::in_memory().unwrap())).unwrap()
    }

    async fn graph_for(agent: &Agent, purpose: Purpose) -> Arc<Graph> {
        let model = agent.models.open().unwrap();
        agent.driver(agent.assistant_id(), model.as_ref(), purpose).await.unwrap().graph
    }

    async fn graph(agent: &Agent) -> Arc<Graph> {
        graph_for(agent, Purpose::Turn).await
    }

    #[tokio::test]
    async fn a_graph_is_used_again_until_what_it_is_made_of_changes() {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = agent(folder.path());
        let first = graph(&agent).await;
        assert!(Arc::ptr_eq(&first, &graph(&agent.clone()).await), "the same agent");
        let handoff = graph_for(&agent, Purpose::Handoff).await;
        assert!(handoff.get(runtime::TOOLS_NODE).is_none(), "a handoff needs no tools");
        assert!(Arc::ptr_eq(&first, &graph(&agent).await), "another purpose stands beside it");
        assert!(!Arc::ptr_eq(&first, &graph(&agent.scoped(Scope::Everyone)).await), "another store");

        let skill = folder.path().join(".segue/skills/release");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: release\ndescription: How to.\n---\nTag it.\n")
            .unwrap();
        let with_skills = graph(&agent).await;
        assert!(!Arc::ptr_eq(&first, &with_skills), "a tool came");
        assert!(Arc::ptr_eq(&with_skills, &graph(&agent).await));
        std::fs::remove_dir_all(&skill).unwrap();
        let without = graph(&agent).await;
        assert!(!Arc::ptr_eq(&with_skills, &without), "a tool went");

        agent.use_model(Some("anthropic/other".to_owned()));
        assert!(!Arc::ptr_eq(&without, &graph(&agent).await), "another model");
    }

    #[tokio::test]
    async fn graphs_that_are_out_of_date_are_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent(folder.path());
        graph(&agent).await;
        let kept = Arc::clone(&agent.assemblies);
        let parts = kept.kept.lock()[0].0.clone();
        let listed_anew = Parts { tools: Some(Arc::new([])), ..parts.clone() };
        assert!(kept.get(&parts).is_some() && kept.get(&listed_anew).is_none());
        kept.keep(listed_anew.clone(), kept.get(&parts).unwrap());
        assert!(kept.get(&parts).is_none() && kept.get(&listed_anew).is_some());
        for number in 0..2 * ASSEMBLIES_MAX {
            let assistant_id = format!("assistant{number}").parse().unwrap();
            let assembly = kept.kept.lock()[0].1.clone();
            kept.keep(Parts { assistant_id, ..parts.clone() }, assembly);
        }
        assert_eq!(kept.kept.lock().len(), ASSEMBLIES_MAX);
    }
}
