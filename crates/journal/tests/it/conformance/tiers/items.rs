//! Items that agents and clients store under names: single reads, pages, search by words, by fields and by namespaces.

use journal::{
    Error, FieldComparison, FieldCondition, HitLocation, IndexHitKind, ItemQuery, NamespaceQuery,
    SearchQuery, Store, Write,
};
use protocol::StoredItem;
use serde_json::{Value, json};

use crate::conformance::SharedStore;
use crate::conformance::fixtures::{at, commit};

fn labels(namespace: &str) -> Vec<String> {
    if namespace.is_empty() { Vec::new() } else { namespace.split('/').map(str::to_owned).collect() }
}

fn item((namespace, key): (&str, &str), value: Value, second: i64) -> StoredItem {
    let Value::Object(value) = value else { panic!("an object") };
    StoredItem {
        namespace: labels(namespace),
        key: key.to_owned(),
        value,
        created_at: at(second),
        updated_at: at(second),
    }
}

async fn put(store: &dyn Store, name: (&str, &str), value: Value, second: i64) {
    commit(store, vec![Write::PutItem(item(name, value, second))]).await.unwrap();
}

async fn keys(store: &dyn Store, query: ItemQuery) -> Vec<String> {
    store.items(query).await.unwrap().into_iter().map(|hit| hit.item.key).collect()
}

fn all() -> ItemQuery {
    ItemQuery { limit: 100, ..ItemQuery::default() }
}

pub async fn f10_an_item_is_stored_and_replaced_under_its_name(store: SharedStore) {
    let namespace = labels("users/ada");
    assert_eq!(store.item(&namespace, "k").await.unwrap(), None);
    let value = json!({"z": 1, "a": ["\u{0}", "𝄞", null, 1.5, -3], "deep": {"": {}}});
    put(&*store, ("users/ada", "k"), value.clone(), 1).await;
    assert_eq!(store.item(&namespace, "k").await.unwrap(), Some(item(("users/ada", "k"), value, 1)));
    put(&*store, ("users/ada", "k"), json!({"b": 2}), 7).await;
    let expected = StoredItem { created_at: at(1), ..item(("users/ada", "k"), json!({"b": 2}), 7) };
    assert_eq!(store.item(&namespace, "k").await.unwrap(), Some(expected.clone()));
    for other in [("users", "k"), ("users/ada/k", "k"), ("users/bo", "k"), ("users/ada", "K")] {
        assert_eq!(store.item(&labels(other.0), other.1).await.unwrap(), None, "{other:?}");
        let delete = Write::DeleteItem { namespace: labels(other.0), key: other.1.to_owned() };
        commit(&*store, vec![delete]).await.unwrap();
    }
    assert_eq!(store.items(all()).await.unwrap()[0].item, expected);
    let delete = Write::DeleteItem { namespace: namespace.clone(), key: "k".to_owned() };
    commit(&*store, vec![delete.clone(), delete]).await.unwrap();
    assert_eq!(store.item(&namespace, "k").await.unwrap(), None);
    put(&*store, ("users/ada", "k"), json!({}), 9).await;
    assert_eq!(
        store.item(&namespace, "k").await.unwrap().unwrap().created_at,
        at(9),
        "a deleted item is created anew"
    );
}

pub async fn f10_a_namespace_prefix_matches_whole_labels(store: SharedStore) {
    let spaces = ["a", "a/b", "a/b/c", "ab", "a b", "A", "a\"", "é", "*", "a/bb", "a-b"];
    for (second, space) in spaces.into_iter().enumerate() {
        put(&*store, (space, space), json!({"n": second}), second as i64).await;
    }
    for (prefix, expected) in [
        ("a", &["a/bb", "a/b/c", "a/b", "a"][..]),
        ("a/b", &["a/b/c", "a/b"]),
        ("a/b/c", &["a/b/c"]),
        ("a/b/c/d", &[]),
        ("A", &["A"]),
        ("*", &["*"]),
        ("é", &["é"]),
        ("x", &[]),
    ] {
        let query = ItemQuery { prefix: labels(prefix), ..all() };
        assert_eq!(keys(&*store, query.clone()).await, expected, "{prefix}");
        let filtered =
            ItemQuery { filter: vec![condition("n", FieldComparison::Less, json!(99))], ..query.clone() };
        assert_eq!(keys(&*store, filtered).await, expected, "{prefix}, filtered");
        let mut names = keys(&*store, ItemQuery { words: vec!["n".to_owned()], ..query }).await;
        names.sort();
        let mut sorted = expected.to_vec();
        sorted.sort_unstable();
        assert_eq!(names, sorted, "{prefix}, by words");
    }
    assert_eq!(keys(&*store, all()).await.len(), spaces.len());
}

pub async fn items_are_listed_by_their_latest_update(store: SharedStore) {
    for (key, second) in [("one", 1), ("two", 2), ("three", 3), ("four", 2)] {
        put(&*store, ("n", key), json!({}), second).await;
    }
    assert_eq!(keys(&*store, all()).await, ["three", "four", "two", "one"]);
    put(&*store, ("n", "one"), json!({}), 4).await;
    assert_eq!(keys(&*store, all()).await, ["one", "three", "four", "two"]);
    let hits = store.items(all()).await.unwrap();
    assert!(hits.iter().all(|hit| hit.score.is_none()));
    assert_eq!(
        serde_json::to_value(&hits[0]).unwrap(),
        json!({"namespace": ["n"], "key": "one", "value": {}, "created_at": at(1), "updated_at": at(4), "score": null})
    );
}

pub async fn items_are_found_by_words(store: SharedStore) {
    let words = |text: &str| ItemQuery { words: text.split(' ').map(str::to_owned).collect(), ..all() };
    put(&*store, ("n", "retry-policy"), json!({"text": "Retries wait\n250 ms.", "tags": ["network"]}), 1)
        .await;
    put(&*store, ("n", "greeting"), json!({"text": "Say hello to the network"}), 2).await;
    put(&*store, ("n", "language"), json!({"code": {"primary": "会議は火曜日"}, "count": 42}), 3).await;
    for (query, expected) in [
        ("retry", &["retry-policy"][..]),
        ("waiting", &["retry-policy"]),
        ("250", &["retry-policy"]),
        ("会議", &["language"]),
        ("primary 42", &["language"]),
        ("absent hello", &["greeting"]),
        ("?!", &[]),
        ("absent", &[]),
        ("\" OR NEAR( *", &[]),
    ] {
        assert_eq!(keys(&*store, words(query)).await, expected, "{query}");
    }
    let hits = store.items(words("network hello")).await.unwrap();
    assert_eq!(
        hits.iter().map(|hit| hit.item.key.as_str()).collect::<Vec<_>>(),
        ["greeting", "retry-policy"]
    );
    let scores: Vec<f64> = hits.iter().map(|hit| hit.score.unwrap()).collect();
    assert!(scores[0] > scores[1] && scores[1] > 0.0, "{scores:?}");
    put(&*store, ("n", "greeting"), json!({"text": "Say nothing"}), 4).await;
    assert_eq!(
        keys(&*store, words("network hello")).await,
        ["retry-policy"],
        "what was replaced is not found"
    );
    let delete = Write::DeleteItem { namespace: labels("n"), key: "retry-policy".to_owned() };
    commit(&*store, vec![delete]).await.unwrap();
    assert_eq!(keys(&*store, words("network")).await, Vec::<String>::new());
    let query = SearchQuery {
        words: vec!["nothing".to_owned()],
        kinds: vec![IndexHitKind::Item],
        limit: 5,
        ..SearchQuery::default()
    };
    let hits = store.search(query.clone()).await.unwrap().hits;
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].location, HitLocation::Item { namespace: labels("n"), key: "greeting".to_owned() });
    let everything = store.search(SearchQuery { kinds: Vec::new(), ..query }).await.unwrap().hits;
    assert_eq!(everything, [], "items are found only on request");
}

fn condition(field: &str, comparison: FieldComparison, with: Value) -> FieldCondition {
    FieldCondition { field: field.to_owned(), comparison, value: with }
}

pub async fn items_are_filtered_by_their_fields(store: SharedStore) {
    use FieldComparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let values = [
        ("a", json!({"price": 1, "name": "x", "tags": ["t"]})),
        ("b", json!({"price": 2.5, "name": "y", "open": true})),
        ("c", json!({"price": "2", "name": null})),
        ("d", json!({"other": 0})),
    ];
    for (key, value) in values {
        put(&*store, ("n", key), value, 1).await;
    }
    for (filter, expected) in [
        (vec![condition("price", Equal, json!(1.0))], &["a"][..]),
        (vec![condition("price", NotEqual, json!(1))], &["b", "c", "d"]),
        (vec![condition("price", Greater, json!(1))], &["b"]),
        (vec![condition("price", GreaterOrEqual, json!(1))], &["a", "b"]),
        (vec![condition("price", Less, json!("3"))], &["c"]),
        (
            vec![condition("price", GreaterOrEqual, json!(1)), condition("price", LessOrEqual, json!(2))],
            &["a"],
        ),
        (vec![condition("name", Equal, json!(null))], &["c"]),
        (vec![condition("open", Equal, json!(true))], &["b"]),
        (vec![condition("open", Equal, json!(1))], &[]),
        (vec![condition("tags", Equal, json!(["t"]))], &["a"]),
        (vec![condition("name", Greater, json!("w")), condition("open", NotEqual, json!(true))], &["a"]),
        (vec![], &["a", "b", "c", "d"]),
    ] {
        let mut names = keys(&*store, ItemQuery { filter: filter.clone(), ..all() }).await;
        names.sort();
        assert_eq!(names, expected, "{filter:?}");
    }
}

pub async fn a_filtered_page_of_items_is_exact(store: SharedStore) {
    for number in 0..60 {
        let space = if number % 3 == 0 { "n/sub" } else { "n" };
        let value = json!({"number": number, "even": number % 2 == 0, "word": "heron"});
        put(&*store, (space, &format!("{number:02}")), value, number % 7).await;
    }
    put(&*store, ("m", "other"), json!({"even": true, "word": "heron"}), 9).await;
    let even = vec![condition("even", FieldComparison::Equal, json!(true))];
    let base = ItemQuery { prefix: labels("n"), ..all() };
    for query in [
        base.clone(),
        ItemQuery { filter: even.clone(), ..base.clone() },
        ItemQuery { words: vec!["heron".to_owned()], ..base.clone() },
        ItemQuery { words: vec!["heron".to_owned()], filter: even, prefix: labels("n/sub"), ..base },
    ] {
        let all_keys = keys(&*store, query.clone()).await;
        assert!(all_keys.len() >= 10 && !all_keys.contains(&"other".to_owned()));
        for limit in [1, 7, 10] {
            let mut paged = Vec::new();
            loop {
                let page = keys(&*store, ItemQuery { offset: paged.len(), limit, ..query.clone() }).await;
                let is_last = page.len() < limit;
                paged.extend(page);
                if is_last {
                    break;
                }
            }
            assert_eq!(paged, all_keys, "pages of {limit}: {query:?}");
        }
        assert_eq!(keys(&*store, ItemQuery { offset: all_keys.len(), ..query }).await, Vec::<String>::new());
    }
    for limit in [0, journal::PAGE_ROWS_MAX + 1] {
        let refused = store.items(ItemQuery { limit, ..ItemQuery::default() }).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })));
        let refused = store.namespaces(NamespaceQuery { limit, ..NamespaceQuery::default() }).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })));
    }
    let words = vec!["w".to_owned(); journal::QUERY_WORDS_MAX + 1];
    assert!(matches!(store.items(ItemQuery { words, ..all() }).await, Err(Error::InvalidRequest { .. })));
}

pub async fn namespaces_are_listed_once_in_order(store: SharedStore) {
    let spaces = ["a/b/c", "a", "a/b", "a b", "a/z", "b/b/c", "b", "c/x/y/z", "c/x/y", "a/b/d"];
    for space in spaces {
        for key in ["1", "2"] {
            put(&*store, (space, key), json!({}), 1).await;
        }
    }
    let every = NamespaceQuery { limit: 100, ..NamespaceQuery::default() };
    let of = |prefix: &str, suffix: &str, depth_max| NamespaceQuery {
        prefix: labels(prefix),
        suffix: labels(suffix),
        depth_max,
        ..every.clone()
    };
    for (query, expected) in [
        (every.clone(), "a a/b a/b/c a/b/d a/z a_b b b/b/c c/x/y c/x/y/z"),
        (of("", "", Some(1)), "a a_b b c"),
        (of("", "", Some(2)), "a a/b a/z a_b b b/b c/x"),
        (of("a", "", None), "a a/b a/b/c a/b/d a/z"),
        (of("a/b", "", Some(2)), "a/b"),
        (of("*/b", "", None), "a/b a/b/c a/b/d b/b/c"),
        (of("*/b", "", Some(1)), "a b"),
        (of("", "c", None), "a/b/c b/b/c"),
        (of("", "b/*", None), "a/b/c a/b/d b/b/c"),
        (of("a", "c", Some(1)), "a"),
        (of("a/b/c", "b/c", None), "a/b/c"),
        (of("a/b/c/d", "", None), ""),
        (of("x", "", None), ""),
        (of("c", "", Some(3)), "c/x/y"),
        (NamespaceQuery { offset: 2, limit: 3, ..every.clone() }, "a/b/c a/b/d a/z"),
        (NamespaceQuery { offset: 1, limit: 2, ..of("", "", Some(1)) }, "a_b b"),
        (NamespaceQuery { offset: 99, ..every.clone() }, ""),
    ] {
        let namespaces = store.namespaces(query.clone()).await.unwrap();
        let names =
            namespaces.iter().map(|labels| labels.join("/").replace(' ', "_")).collect::<Vec<_>>().join(" ");
        assert_eq!(names, expected, "{query:?}");
    }
}

pub async fn ambiguous_names_of_items_are_refused(store: SharedStore) {
    let item_in = |namespace: Vec<&str>| StoredItem {
        namespace: namespace.into_iter().map(str::to_owned).collect(),
        ..item(("n", "k"), json!({}), 1)
    };
    for namespace in [vec![], vec![""], vec!["a", ""], vec!["a\u{1f}b"], vec!["a\n"]] {
        let refused = commit(&*store, vec![Write::PutItem(item_in(namespace.clone()))]).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{namespace:?}");
    }
    let dotted = item_in(vec!["a.b", " "]);
    commit(&*store, vec![Write::PutItem(dotted.clone())]).await.unwrap();
    assert_eq!(store.items(all()).await.unwrap()[0].item, dotted);
}
