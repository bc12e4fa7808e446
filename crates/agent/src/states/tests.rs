//! What of a state is decided without a journal.

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

#[test]
fn the_id_of_a_task_is_a_uuid_that_follows_from_the_point_and_the_node() {
    let (one, other) = (CheckpointId::generate(), CheckpointId::generate());
    let id = task_id(one, "tools");
    assert!(Uuid::try_parse(&id).is_ok());
    assert_eq!(id, task_id(one, "tools"));
    assert_ne!(id, task_id(one, "model"));
    assert_ne!(id, task_id(other, "tools"));
}
