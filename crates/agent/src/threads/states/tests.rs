//! Tests of snapshots that need no journal.

use serde_json::json;

use super::*;

#[test]
fn channels_that_only_the_graph_reads_are_hidden_from_clients() {
    let channels = Map::from_iter(
        ["todos", "files", "tools_wanted", "_start", "child_thread_id", "_asked:tools"]
            .map(|name| (name.to_owned(), json!(1))),
    );
    let public: Vec<String> = client_channels(&channels).into_iter().map(|(name, _)| name).collect();
    assert_eq!(public, ["todos", "files", "child_thread_id"]);
}
