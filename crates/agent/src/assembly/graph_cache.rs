//! A cache of assembled graphs. A graph is reused as long as its inputs are the same.
//!
//! Limits and breakpoints of a single run are not part of a graph. Files that change while the process runs, such
//! as permission rules, `agent.md` and skills, are read by the nodes when they need them. The parent module
//! `assembly` builds the graphs.

use std::sync::Arc;

use model::ChatModel;
use parking_lot::Mutex;
use protocol::AssistantId;
use runtime::{ActivityRegistry, Graph, Tool};

use super::RunPurpose;

/// Maximum number of graphs in the cache. A new graph then replaces the oldest one.
const CACHED_GRAPHS_MAX: usize = 16;

/// The inputs from which a graph is assembled. They are the key of the cache.
#[derive(Clone)]
pub(super) struct GraphInputs {
    /// The assistant whose memory and threads the graph uses.
    pub(super) assistant_id: AssistantId,
    /// The model; `None` if none is usable.
    pub(super) model: Option<Arc<dyn ChatModel>>,
    /// The purpose of the runs.
    pub(super) purpose: RunPurpose,
    /// The current tools of the process; `None` if runs of this purpose do not call tools.
    pub(super) tools: Option<Arc<[Arc<dyn Tool>]>>,
}

/// A graph, and the activities that its nodes request.
#[derive(Clone)]
pub(super) struct AssembledGraph {
    /// The nodes and edges.
    pub(super) graph: Arc<Graph>,
    /// The activities, by name.
    pub(super) activities: ActivityRegistry,
}

/// The assembled graphs of an agent, oldest first.
#[derive(Default)]
pub(crate) struct GraphCache {
    /// At most [`CACHED_GRAPHS_MAX`] graphs with their inputs.
    entries: Mutex<Vec<(GraphInputs, AssembledGraph)>>,
}

impl GraphCache {
    /// Returns the graph that was assembled from these inputs.
    pub(super) fn get(&self, inputs: &GraphInputs) -> Option<AssembledGraph> {
        let entries = self.entries.lock();
        entries.iter().find(|(cached, _)| cached.is_same_as(inputs)).map(|(_, assembly)| assembly.clone())
    }

    /// Stores a graph. It replaces the graph that differs only in its tools, because those tools are out of date.
    pub(super) fn insert(&self, inputs: GraphInputs, assembly: AssembledGraph) {
        let mut entries = self.entries.lock();
        entries.retain(|(cached, _)| !cached.is_same_except_tools(&inputs));
        if entries.len() >= CACHED_GRAPHS_MAX {
            entries.remove(0);
        }
        entries.push((inputs, assembly));
    }
}

impl GraphInputs {
    /// Returns whether a graph for one of the inputs can be used for the other. Models and tools are compared by
    /// identity, because a reopened model or a new list of tools may behave differently.
    fn is_same_as(&self, other: &Self) -> bool {
        let is_same_tools = match (&self.tools, &other.tools) {
            (Some(tools), Some(others)) => Arc::ptr_eq(tools, others),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same_tools && self.is_same_except_tools(other)
    }

    /// Returns whether the inputs have the same assistant, model and purpose. Their tools may differ.
    fn is_same_except_tools(&self, other: &Self) -> bool {
        let is_same_model = match (&self.model, &other.model) {
            (Some(model), Some(other_model)) => Arc::ptr_eq(model, other_model),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same_model && self.purpose == other.purpose && self.assistant_id == other.assistant_id
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use journal::SqliteStore;
    use protocol::OwnerScope;

    use super::*;
    use crate::agent::{Agent, AgentSettings};
    use crate::home::HomeFolder;

    /// Returns an agent over an empty journal in memory, with a model that is never called.
    fn test_agent(folder: &Path) -> Agent {
        let home = HomeFolder::locate(Some(folder.join("home").as_os_str())).unwrap();
        home.create().unwrap();
        std::fs::write(home.config_path(), "[providers.anthropic]\napi_key = \"test\"\n").unwrap();
        let settings =
            AgentSettings { model: Some("anthropic/test".to_owned()), ..AgentSettings::new(home, folder) };
        Agent::with_store(settings, Arc::new(SqliteStore::in_memory().unwrap())).unwrap()
    }

    /// Returns the graph that the agent uses for a purpose.
    async fn assembled_graph(agent: &Agent, purpose: RunPurpose) -> Arc<Graph> {
        let model = agent.models.open_selected().unwrap();
        agent.driver(agent.assistant_id(), model.as_ref(), purpose).await.unwrap().graph
    }

    /// Returns the graph that the agent uses for turns.
    async fn assembled_turn_graph(agent: &Agent) -> Arc<Graph> {
        assembled_graph(agent, RunPurpose::Turn).await
    }

    #[tokio::test]
    async fn a_graph_is_reused_until_one_of_its_inputs_changes() {
        let folder = tempfile::tempdir().unwrap();
        let mut agent = test_agent(folder.path());
        let first = assembled_turn_graph(&agent).await;
        assert!(Arc::ptr_eq(&first, &assembled_turn_graph(&agent.clone()).await), "the same agent");
        let handoff = assembled_graph(&agent, RunPurpose::Handoff).await;
        assert!(handoff.get(runtime::TOOLS_NODE).is_none(), "a handoff needs no tools");
        assert!(Arc::ptr_eq(&first, &assembled_turn_graph(&agent).await), "graphs of two purposes coexist");
        assert!(
            !Arc::ptr_eq(&first, &assembled_turn_graph(&agent.scoped(OwnerScope::Everyone)).await),
            "an agent with another owner scope does not share the cache"
        );

        let skill = folder.path().join(".segue/skills/release");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: release\ndescription: How to.\n---\nTag it.\n")
            .unwrap();
        let with_skills = assembled_turn_graph(&agent).await;
        assert!(!Arc::ptr_eq(&first, &with_skills), "a tool was added");
        assert!(Arc::ptr_eq(&with_skills, &assembled_turn_graph(&agent).await));
        std::fs::remove_dir_all(&skill).unwrap();
        let without = assembled_turn_graph(&agent).await;
        assert!(!Arc::ptr_eq(&with_skills, &without), "a tool was removed");

        agent.use_model(Some("anthropic/other".to_owned()));
        assert!(!Arc::ptr_eq(&without, &assembled_turn_graph(&agent).await), "another model");
    }

    #[tokio::test]
    async fn outdated_graphs_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let agent = test_agent(folder.path());
        assembled_turn_graph(&agent).await;
        let cache = Arc::clone(&agent.graph_cache);
        let inputs = cache.entries.lock()[0].0.clone();
        let with_new_tools = GraphInputs { tools: Some(Arc::new([])), ..inputs.clone() };
        assert!(cache.get(&inputs).is_some() && cache.get(&with_new_tools).is_none());
        cache.insert(with_new_tools.clone(), cache.get(&inputs).unwrap());
        assert!(cache.get(&inputs).is_none() && cache.get(&with_new_tools).is_some());
        for number in 0..2 * CACHED_GRAPHS_MAX {
            let assistant_id = format!("assistant{number}").parse().unwrap();
            let assembly = cache.entries.lock()[0].1.clone();
            cache.insert(GraphInputs { assistant_id, ..inputs.clone() }, assembly);
        }
        assert_eq!(cache.entries.lock().len(), CACHED_GRAPHS_MAX);
    }
}
