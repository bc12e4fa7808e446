//! Tests of the endpoints for assistants.

use serde_json::json;

use crate::fixture::ServerFixture;

const UUID: &str = "fe096781-5601-53d2-b2f6-0d3403f7e9ca";

#[tokio::test(flavor = "multi_thread")]
async fn the_assistant_is_found_by_name_id_and_metadata() {
    let server = ServerFixture::start_default().await;
    for search in [
        json!({}),
        json!({"graph_id": "agent", "limit": 100, "offset": 0}),
        json!({"metadata": {"created_by": "system"}, "name": "AG"}),
    ] {
        let (status, assistants) = server.post("/assistants/search", &search).await;
        assert_eq!(status, 200, "{assistants}");
        assert_eq!(
            (&assistants[0]["assistant_id"], &assistants[0]["graph_id"], &assistants[0]["version"]),
            (&json!(UUID), &json!("agent"), &json!(1))
        );
        assert_eq!(assistants[0]["metadata"], json!({"created_by": "system"}));
        assert_eq!(server.post("/assistants/count", &search).await.1, json!(1));
    }
    assert_eq!(server.post("/assistants/search", &json!({"graph_id": "other"})).await.1, json!([]));
    let (_, by_id) = server.get(&format!("/assistants/{UUID}")).await;
    assert_eq!(server.get("/assistants/agent").await.1, by_id);
    assert_eq!(server.get("/assistants/018f0000-0000-7000-8000-00000000000a").await.0, 404);
    let (status, body) = server.get("/assistants/other").await;
    assert_eq!(status, 422);
    assert!(body["detail"].as_str().unwrap().contains("Invalid assistant"), "{body}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_has_a_start_and_an_end_and_its_edges_have_only_known_fields() {
    let server = ServerFixture::start_default().await;
    for path in [format!("/assistants/{UUID}/graph?xray=true"), "/assistants/agent/graph?xray=1".to_owned()] {
        let (status, graph) = server.get(&path).await;
        assert_eq!(status, 200, "{graph}");
        let ids: Vec<&str> =
            graph["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
        assert!(["__start__", "__end__", "model", "tools"].iter().all(|id| ids.contains(id)), "{ids:?}");
        for edge in graph["edges"].as_array().unwrap() {
            let edge = edge.as_object().unwrap();
            assert!(
                edge.keys().all(|key| ["source", "target", "conditional", "data"].contains(&key.as_str())),
                "{edge:?}"
            );
            assert!(
                ids.contains(&edge["source"].as_str().unwrap())
                    && ids.contains(&edge["target"].as_str().unwrap())
            );
        }
    }
    let (_, schemas) = server.get(&format!("/assistants/{UUID}/schemas")).await;
    assert_eq!(schemas["input_schema"]["properties"]["messages"]["type"], "array");
    assert_eq!(server.get("/assistants/agent/subgraphs?recurse=true").await.1, json!({}));
    server.stop().await;
}
