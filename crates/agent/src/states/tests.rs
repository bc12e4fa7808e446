//! What of a state is decided without a journal.

use serde_json::json;

use super::*;

#[test]
fn what_only_the_graph_reads_is_no_clients_business() {
    let channels = Map::from_iter(
        ["todos", "files", "tools_wanted", "_start", "child_thread_id", "_asked:tools"]
            .map(|name| (name.to_owned(), json!(1))),
    );
    let shown: Vec<String> = shown_channels(&channels).into_iter().map(|(name, _)| name).collect();
    assert_eq!(shown, ["todos", "files", "child_thread_id"]);
}
