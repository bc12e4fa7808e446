//! API keys of clients are stored and revoked once.

use journal::{Error, Write};
use protocol::ApiKey;

use crate::conformance::SharedStore;
use crate::conformance::fixtures::{at, commit};

pub async fn k2_a_key_is_stored_once_and_revoked_once(store: SharedStore) {
    let key = |key_id: &str, second: i64| ApiKey {
        key_id: key_id.to_owned(),
        user_id: "alice".parse().unwrap(),
        label: Some("laptop".to_owned()),
        sha256: "0".repeat(64),
        created_at: at(second),
        revoked_at: None,
    };
    let (late, early) = (key("a", 2), key("b", 1));
    let writes = [&late, &early, &late].map(|key| Write::PutApiKey(key.clone()));
    commit(&*store, writes.to_vec()).await.unwrap();
    assert_eq!(store.api_keys().await.unwrap(), [early.clone(), late.clone()]);
    let other = ApiKey { sha256: "1".repeat(64), ..late.clone() };
    let refused = commit(&*store, vec![Write::PutApiKey(other)]).await;
    assert!(matches!(refused, Err(Error::Conflict { what: "key", .. })), "{refused:?}");
    for second in [5, 9] {
        let revoke = Write::RevokeApiKey { key_id: "a".to_owned(), at: at(second) };
        commit(&*store, vec![revoke]).await.unwrap();
    }
    assert_eq!(store.api_key("a").await.unwrap(), Some(ApiKey { revoked_at: Some(at(5)), ..late }));
    assert_eq!(store.api_key("b").await.unwrap(), Some(early));
    assert_eq!(store.api_key("c").await.unwrap(), None);
    let unknown = commit(&*store, vec![Write::RevokeApiKey { key_id: "c".to_owned(), at: at(1) }]).await;
    assert!(matches!(unknown, Err(Error::NotFound { what: "key", .. })), "{unknown:?}");
}
