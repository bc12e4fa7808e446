//! `segue store`: a value is read back as it was put.

use serde_json::json;

use crate::sandbox::TestSandbox;

#[test]
fn a_stored_value_is_read_listed_and_removed() {
    let sandbox = TestSandbox::new();
    let put = sandbox.json(&["store", "put", "users.ada", "tea", r#"{"kind":"green","cups":3}"#, "--json"]);
    assert_eq!(put, json!({"namespace": ["users", "ada"], "key": "tea", "withheld": 0}));
    let file = sandbox.write_file("coffee.json", r#"{"kind": "none", "cups": 0}"#);
    let output = sandbox.run(&["store", "put", "users.ada", "coffee", "--file", &file]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "Stored `coffee` in `users.ada`.\n"), "{output:?}");
    let output =
        sandbox.run_with(&["store", "put", "users.bob", "tea", "-"], r#"{"kind": "black", "cups": 7}"#);
    assert_eq!(output.code, 0, "{output:?}");

    let item = sandbox.json(&["store", "get", "users.ada", "tea", "--json"]);
    assert_eq!(item["value"], json!({"kind": "green", "cups": 3}), "{item}");
    let value = sandbox.run(&["store", "get", "users.ada", "tea"]).stdout;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&value).unwrap(), item["value"]);

    let keys = |args: &[&str]| -> Vec<String> {
        let found = sandbox.json(&[&["store", "search", "--json"], args].concat());
        let name = |item: &serde_json::Value| {
            format!("{}/{}", item["namespace"][1].as_str().unwrap(), item["key"].as_str().unwrap())
        };
        found["items"].as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(keys(&[]), ["bob/tea", "ada/coffee", "ada/tea"], "put last first");
    assert_eq!(keys(&["--in", "users.ada", "--where", "cups>=1"]), ["ada/tea"]);
    assert_eq!(keys(&["--where", "cups>0", "--where", "cups<7", "--where", "kind!=black"]), ["ada/tea"]);
    assert_eq!(keys(&["green"]), ["ada/tea"]);
    assert_eq!(keys(&["--limit", "1", "--offset", "1"]), ["ada/coffee"]);
    let output = sandbox.run(&["store", "search"]).stdout;
    assert!(output.starts_with("NAMESPACE ") && output.contains("users.ada"), "{output}");
    assert_eq!(sandbox.run(&["store", "namespaces"]).stdout, "users.ada\nusers.bob\n");
    let cut = sandbox.json(&["store", "namespaces", "--depth", "1", "--json"]);
    assert_eq!(cut, json!({"namespaces": [["users"]]}));
    assert_eq!(sandbox.run(&["store", "namespaces", "--suffix", "bob"]).stdout, "users.bob\n");
    let hit = &sandbox.json(&["search", "black", "--kind", "item", "--json"])["hits"][0];
    assert_eq!((&hit["namespace"], &hit["key"]), (&json!(["users", "bob"]), &json!("tea")), "{hit}");

    assert_eq!(sandbox.json(&["store", "delete", "users.ada", "tea", "--json"]), json!({"deleted": true}));
    assert_eq!(sandbox.json(&["store", "delete", "users.ada", "tea", "--json"]), json!({"deleted": false}));
    sandbox.run(&["store", "get", "users.ada", "tea"]).assert_error(2, "find `tea` in `users.ada`");
}

#[test]
fn m16_a_secret_is_redacted_from_the_store_and_counted() {
    let sandbox = TestSandbox::new();
    let key = format!("sk-ant-api03-{}", "abcdefghij0123456789".repeat(4));
    let output = sandbox.run(&["store", "put", "users.ada", "key", &json!({"key": key}).to_string()]);
    assert!(output.code == 0 && output.stderr.contains("1 secret was redacted."), "{output:?}");
    assert!(!sandbox.run(&["store", "get", "users.ada", "key"]).stdout.contains(&key));
}

#[test]
fn invalid_store_arguments_are_refused_with_the_reason() {
    let sandbox = TestSandbox::new();
    let put = |args: &[&str]| sandbox.run(&[&["store", "put"], args].concat());
    put(&["users", "a", "[1]"]).assert_error(2, "its value is not an object");
    put(&["users", "a", "{"]).assert_error(2, "it is not JSON");
    put(&["langgraph.x", "a", "{}"]).assert_error(2, "reserved");
    put(&["users..x", "a", "{}"]).assert_error(2, "is not a valid label");
    put(&["users", "a", "--file", "nowhere.json"]).assert_error(2, "nowhere.json");
    assert_eq!(put(&["users", "a"]).code, 2);
    assert_eq!(put(&["users", "a", "{}", "--file", "x"]).code, 2);
    sandbox.run(&["store", "search", "--where", "cups"]).assert_error(2, "read the condition `cups`");
    let none = sandbox.run(&["store", "search"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "There are no items.\n"), "{none:?}");
}
