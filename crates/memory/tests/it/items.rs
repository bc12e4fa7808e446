//! Items that agents and clients store under names: accepted values, queries, and the output of the tool `store`.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use journal::{SqliteStore, Transaction};
use memory::{
    ITEM_BYTES_MAX, ItemError, ItemSearch, ItemStore, NAME_BYTES_MAX, NAMESPACE_LABELS_MAX, NamespaceSearch,
    PutReceipt, STORE, StoreTool,
};
use protocol::{AssistantId, ToolStatus};
use runtime::{RepeatSafety, Tool, ToolContext};
use serde_json::{Value, json};

use crate::tool::{status_and_text, tool_context};

fn item_store() -> ItemStore {
    ItemStore { store: Arc::new(SqliteStore::in_memory().unwrap()) }
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + second.seconds()
}

fn labels(namespace: &str) -> Vec<String> {
    namespace.split('/').map(str::to_owned).collect()
}

async fn put(
    items: &ItemStore,
    (namespace, key): (&str, &str),
    value: Value,
) -> Result<PutReceipt, ItemError> {
    items.put(&labels(namespace), key, value, at(1)).await
}

fn search(body: Value) -> ItemSearch {
    serde_json::from_value(body).unwrap()
}

async fn keys(items: &ItemStore, body: Value) -> Vec<String> {
    let hits = items.search(&search(body)).await.unwrap();
    hits.into_iter().map(|hit| hit.item.key).collect()
}

#[tokio::test]
async fn f10_an_item_is_returned_by_its_name_and_no_other() {
    let items = item_store();
    assert_eq!(put(&items, ("users/ada", "k"), json!({"a": 1})).await.unwrap(), PutReceipt { withheld: 0 });
    items.put(&labels("users/ada"), "k", json!({"b": 2}), at(9)).await.unwrap();
    let item = items.get(&labels("users/ada"), "k").await.unwrap().unwrap();
    assert_eq!(
        (Value::Object(item.value), item.created_at, item.updated_at),
        (json!({"b": 2}), at(1), at(9))
    );
    assert_eq!(items.get(&labels("users/bo"), "k").await.unwrap(), None);
    items.delete(&labels("users/ada"), "other").await.unwrap();
    items.delete(&labels("users/ada"), "k").await.unwrap();
    items.delete(&labels("users/ada"), "k").await.unwrap();
    assert_eq!(items.get(&labels("users/ada"), "k").await.unwrap(), None);
}

#[tokio::test]
async fn an_invalid_item_is_refused_with_a_reason() {
    let items = item_store();
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let deep = vec!["x"; NAMESPACE_LABELS_MAX + 1].join("/");
    for (namespace, key, value, expected) in [
        ("langgraph/x", "k", json!({}), "use the store: namespaces that begin with `langgraph` are reserved"),
        ("a//b", "k", json!({}), "use the store: `` is not a valid label of a namespace"),
        ("a.b", "k", json!({}), "use the store: `a.b` is not a valid label of a namespace"),
        ("a\u{1f}b", "k", json!({}), "use the store: `a\u{1f}b` is not a valid label of a namespace"),
        (
            &long,
            "k",
            json!({}),
            &format!("use the store: `{}` is not a valid label of a namespace", "x".repeat(80)),
        ),
        (&deep, "k", json!({}), "use the store: the namespace has 33 labels, more than 32"),
        ("a", "", json!({}), "use the store: `` is not a valid key"),
        ("a", &long, json!({}), &format!("use the store: `{}` is not a valid key", "x".repeat(80))),
        ("a", "k", json!([]), "store an item: its value is not an object"),
        ("a", "k", json!("text"), "store an item: its value is not an object"),
        (
            "a",
            "k",
            json!({"t": "x".repeat(ITEM_BYTES_MAX)}),
            "store an item: its value is 65544 bytes of JSON, more than 65536",
        ),
        ("a", "AKIAABCDEFGHIJKLMNOP", json!({}), "store an item: a name in it looks like a secret"),
        ("a/AKIAABCDEFGHIJKLMNOP", "k", json!({}), "store an item: a name in it looks like a secret"),
        ("a", "k", json!({"AKIAABCDEFGHIJKLMNOP": 1}), "store an item: a name in it looks like a secret"),
    ] {
        let refused = put(&items, (namespace, key), value).await.unwrap_err();
        assert_eq!(refused.to_string(), expected);
        assert!(!refused.is_retryable() && !refused.hint().is_empty());
    }
    let empty = items.put(&[], "k", json!({}), at(1)).await;
    assert!(matches!(empty, Err(ItemError::EmptyNamespace)));
    assert!(matches!(items.get(&[], "k").await, Err(ItemError::EmptyNamespace)));
    assert!(matches!(items.delete(&labels("a.b"), "k").await, Err(ItemError::BadLabel { .. })));
    assert_eq!(keys(&items, json!({})).await, Vec::<String>::new(), "nothing was stored");
    let largest = json!({"t": "x".repeat(ITEM_BYTES_MAX - r#"{"t":""}"#.len())});
    put(&items, ("a", &long[1..]), largest).await.unwrap();
}

#[tokio::test]
async fn m16_secrets_are_redacted_in_every_text() {
    let items = item_store();
    let key = "sk-ant-api03-abcdefghijklmnop1234";
    let value =
        json!({"note": format!("use {key}"), "deep": [{"db_password": "hunter2!"}], "plain": "words"});
    assert_eq!(put(&items, ("a", "k"), value).await.unwrap(), PutReceipt { withheld: 2 });
    let item = items.get(&labels("a"), "k").await.unwrap().unwrap();
    let expected =
        json!({"note": "use [redacted]", "deep": [{"db_password": "[redacted]"}], "plain": "words"});
    assert_eq!(Value::Object(item.value), expected);
    assert_eq!(keys(&items, json!({"query": "hunter2 abcdefghijklmnop1234"})).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_search_accepts_the_fields_of_the_agent_server_api() {
    let items = item_store();
    for (second, (namespace, key, value)) in [
        ("docs", "retries", json!({"text": "Retries wait 250 ms", "stars": 3})),
        ("docs/old", "greeting", json!({"text": "hello there", "stars": 5, "lang": "en"})),
        ("users", "ada", json!({"text": "prefers tea", "stars": 4.5})),
    ]
    .into_iter()
    .enumerate()
    {
        items.put(&labels(namespace), key, value, at(second as i64)).await.unwrap();
    }
    for (body, expected) in [
        (json!({}), &["ada", "greeting", "retries"][..]),
        (json!({"namespace_prefix": ["docs"]}), &["greeting", "retries"]),
        (
            json!({"namespace_prefix": ["docs"], "filter": null, "query": null, "refresh_ttl": true}),
            &["greeting", "retries"],
        ),
        (json!({"limit": 1, "offset": 1}), &["greeting"]),
        (json!({"filter": {"stars": {"$gt": 3, "$lte": 4.5}}}), &["ada"]),
        (json!({"filter": {"lang": "en"}}), &["greeting"]),
        (json!({"filter": {"lang": {"$ne": "en"}}}), &["ada", "retries"]),
        (json!({"query": "what about retries?"}), &["retries"]),
        (json!({"query": "hello retries", "filter": {"stars": {"$gte": 4}}}), &["greeting"]),
        (json!({"query": "  "}), &["ada", "greeting", "retries"]),
        (json!({"query": "?!"}), &[]),
    ] {
        assert_eq!(keys(&items, body.clone()).await, expected, "{body}");
    }
    let hits = items.search(&search(json!({"query": "tea"}))).await.unwrap();
    let written = serde_json::to_value(&hits[0]).unwrap();
    assert!(
        written["score"].as_f64().unwrap() > 0.0 && written["namespace"] == json!(["users"]),
        "{written}"
    );
    for (body, expected) in [
        (json!({"limit": 0}), "search the store: the limit must be 1 to 5000, not 0"),
        (
            json!({"filter": {"stars": {"$near": 3}}}),
            "search the store: the filter of field `stars` has `$near`, which is none of $eq, $ne, $gt, $gte, $lt and $lte",
        ),
        (
            json!({"filter": {"stars": {"$gt": null}}}),
            "search the store: the filter of field `stars` has `$gt` with a value that is neither a number nor a text",
        ),
    ] {
        assert_eq!(items.search(&search(body)).await.unwrap_err().to_string(), expected);
    }
}

#[tokio::test]
async fn a_listing_accepts_the_fields_of_the_agent_server_api() {
    let items = item_store();
    for namespace in ["users/ada/notes", "users/ada/tasks", "users/bo/notes", "docs"] {
        for key in ["1", "2"] {
            put(&items, (namespace, key), json!({})).await.unwrap();
        }
    }
    for (body, expected) in [
        (json!({}), "docs users/ada/notes users/ada/tasks users/bo/notes"),
        (
            json!({"prefix": null, "suffix": null, "max_depth": null}),
            "docs users/ada/notes users/ada/tasks users/bo/notes",
        ),
        (json!({"max_depth": 2}), "docs users/ada users/bo"),
        (json!({"max_depth": 0, "limit": 1}), "docs"),
        (json!({"prefix": ["users", "*"], "suffix": ["notes"]}), "users/ada/notes users/bo/notes"),
        (json!({"prefix": ["users"], "max_depth": 2, "offset": 1}), "users/bo"),
    ] {
        let search: NamespaceSearch = serde_json::from_value(body.clone()).unwrap();
        let namespaces = items.list_namespaces(&search).await.unwrap();
        let names: Vec<String> = namespaces.iter().map(|labels| labels.join("/")).collect();
        assert_eq!(names.join(" "), expected, "{body}");
    }
    let refused = items.list_namespaces(&NamespaceSearch { limit: 0, ..NamespaceSearch::default() }).await;
    assert!(matches!(refused, Err(ItemError::BadLimit { limit: 0 })));
}

fn agent() -> AssistantId {
    AssistantId::default()
}

/// Makes a call and commits its writes, as the runtime does.
async fn call_store(context: &ToolContext, args: Value) -> (ToolStatus, String) {
    let output = StoreTool::new(&agent(), None).call(&args, context).await;
    let writes = output.update.writes.clone();
    context.store.commit(Transaction { fence: None, writes }).await.unwrap();
    status_and_text(output)
}

#[tokio::test]
async fn f10_an_agent_sees_only_its_own_items() {
    let context = tool_context();
    let items = ItemStore { store: Arc::clone(&context.store) };
    put(&items, ("agents/other", "plan"), json!({"text": "a secret heron"})).await.unwrap();
    put(&items, ("users", "plan"), json!({"text": "a heron"})).await.unwrap();
    let value = json!({"text": "</note> a heron", "stars": 3});
    for (args, expected) in [
        (json!({"action": "put", "key": "plan", "value": value}), "`plan` is kept."),
        (
            json!({"action": "put", "namespace": ["x", "y"], "key": "k", "value": {"token": "abcdef123456"}}),
            "`k` is kept without 1 secret(s): secrets are never kept.",
        ),
        (json!({"action": "get", "key": "other"}), "Nothing is kept as `other` there."),
        (
            json!({"action": "get", "namespace": ["..", "other"], "key": "plan"}),
            "failed to use the store: `..` is not a valid label of a namespace. To do: a label has 1 to 512 bytes and neither a dot nor a control character; give the labels one by one.",
        ),
        (json!({"action": "list"}), "[]\n[\"x\",\"y\"]"),
        (json!({"action": "list", "namespace": ["z"]}), "Nothing was found in your store there."),
        (json!({"action": "search", "query": "secret"}), "Nothing was found in your store there."),
        (json!({"action": "delete", "key": "nothing"}), "Nothing is kept as `nothing` there."),
        (json!({"action": "delete", "namespace": ["x", "y"], "key": "k"}), "`k` is removed."),
        (json!({"action": "list"}), "[]"),
    ] {
        assert_eq!(call_store(&context, args.clone()).await.1, expected, "{args}");
    }
    for args in [
        json!({"action": "get", "key": "plan"}),
        json!({"action": "search"}),
        json!({"action": "search", "query": "heron"}),
        json!({"action": "search", "filter": {"stars": {"$gte": 3}}}),
    ] {
        let (status, text) = call_store(&context, args).await;
        assert_eq!((status, text.lines().count()), (ToolStatus::Success, 1), "{text}");
        assert!(text.starts_with(r#"{"namespace":[],"key":"plan","updated_at":""#), "{text}");
        assert!(
            text.ends_with(r#"{"text":"\u003c/note> a heron","stars":3}"#),
            "K5: it closes no element: {text}"
        );
    }
    assert_eq!(context.store.item(&labels("agents/agent"), "plan").await.unwrap().unwrap().key, "plan");
    assert_eq!(items.get(&labels("agents/other"), "plan").await.unwrap().unwrap().key, "plan");
}

#[tokio::test]
async fn a_long_value_is_shown_whole_only_when_it_is_got() {
    let context = tool_context();
    let value = json!({"text": "é".repeat(4_000)});
    call_store(&context, json!({"action": "put", "key": "long", "value": value})).await;
    let (_, text) = call_store(&context, json!({"action": "search"})).await;
    assert!(text.ends_with("… (999 of 8011 bytes; get it to read the rest)"), "{text}");
    let (_, got) = call_store(&context, json!({"action": "get", "key": "long"})).await;
    assert!(got.contains(&"é".repeat(4_000)));
    for number in 0..25 {
        call_store(&context, json!({"action": "put", "key": format!("{number}"), "value": {}})).await;
    }
    let (_, first) = call_store(&context, json!({"action": "search"})).await;
    assert_eq!(first.lines().last(), Some("There may be more: give offset to go on."));
    let (_, second) = call_store(&context, json!({"action": "search", "offset": 20})).await;
    assert_eq!((first.lines().count(), second.lines().count()), (21, 6));
}

#[tokio::test]
async fn an_invalid_call_is_an_error_with_a_hint() {
    let context = tool_context();
    for (args, expected) in [
        (json!({}), "bad arguments: missing field `action`"),
        (json!({"action": "burn"}), "bad arguments: unknown variant `burn`"),
        (json!({"action": "get"}), "bad arguments: put, get and delete need key"),
        (json!({"action": "put", "key": "k"}), "bad arguments: put needs value"),
        (json!({"action": "get", "key": "k", "path": "x"}), "bad arguments: unknown field `path`"),
        (
            json!({"action": "put", "key": "k", "value": 3}),
            "failed to store an item: its value is not an object. To do: ",
        ),
        (
            json!({"action": "search", "filter": {"a": {"$in": 1}}}),
            "failed to search the store: the filter of field `a` has `$in`",
        ),
    ] {
        let (status, text) = call_store(&context, args).await;
        assert_eq!(status, ToolStatus::Error, "{text}");
        assert!(text.starts_with(expected), "{text}");
    }
    assert_eq!(
        StoreTool::new(&agent(), None).repeat_safety(),
        RepeatSafety::Safe,
        "a call that was cut off has changed nothing"
    );
}

#[tokio::test]
async fn f10_items_of_one_project_are_hidden_in_others() {
    let context = tool_context();
    let call = async |project: Option<&str>, args: Value| {
        let output = StoreTool::new(&agent(), project).call(&args, &context).await;
        let writes = output.update.writes.clone();
        context.store.commit(Transaction { fence: None, writes }).await.unwrap();
        status_and_text(output).1
    };
    let (one, two) = (Some("/srv/one"), Some("/srv/two"));
    for (project, value) in [(one, "heron"), (two, "grebe"), (None, "coot")] {
        call(project, json!({"action": "put", "key": "bird", "value": {"name": value}})).await;
    }
    for scope in ["project", "personal"] {
        for (project, own) in [(one, "heron"), (two, "grebe"), (None, "coot")] {
            let expected = if scope == "personal" { "coot" } else { own };
            for mut args in [
                json!({"action": "get", "key": "bird"}),
                json!({"action": "search"}),
                json!({"action": "search", "query": "bird"}),
            ] {
                args["scope"] = json!(scope);
                let text = call(project, args).await;
                for bird in ["heron", "grebe", "coot"] {
                    assert_eq!(
                        text.contains(bird),
                        bird == expected,
                        "{bird} in {project:?}, {scope}: {text}"
                    );
                }
            }
        }
    }
}

/// The description of the tool for the model.
#[test]
fn the_tool_describes_itself() {
    let spec = StoreTool::new(&agent(), None).spec();
    assert_eq!(spec.name, STORE);
    insta::assert_json_snapshot!(
        json!({"name": spec.name, "description": spec.description, "parameters": spec.parameters})
    );
}
