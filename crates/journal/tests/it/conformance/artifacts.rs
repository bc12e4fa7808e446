//! Artifacts: bytes that are stored under their SHA-256 hash.

use journal::{ARTIFACT_BYTES_MAX, Artifact, Error, HealthCheckDepth, Write};
use protocol::ThreadId;

use super::SharedStore;
use super::fixtures::{artifact, at, commit, create};

pub async fn the_same_bytes_are_stored_once(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let stored = artifact(one, 1, &bytes);
    let repeated = Artifact { media_type: "text/plain".to_owned(), created_at: at(9), ..stored.clone() };
    let writes = [stored.clone(), repeated, artifact(two, 1, &bytes), artifact(one, 2, b"")];
    commit(&*store, writes.map(Write::PutArtifact).to_vec()).await.unwrap();
    assert_eq!(store.artifact(one, &stored.sha256).await.unwrap(), Some(stored.clone()));
    let empty = artifact(one, 2, b"");
    assert_eq!(store.artifact(one, &empty.sha256).await.unwrap(), Some(empty.clone()));
    assert_eq!(store.artifact(two, &empty.sha256).await.unwrap(), None, "it belongs to the other thread");
    let different = commit(&*store, vec![Write::PutArtifact(artifact(two, 1, b"different"))]).await;
    assert!(matches!(different, Err(Error::Conflict { what: "artifact", .. })), "{different:?}");
}

pub async fn a_name_may_be_shortened_to_eight_digits(store: SharedStore) {
    let thread_id = create(&*store).await;
    let named = |name: String| Artifact { sha256: name, ..artifact(thread_id, 0, b"x") };
    let name = |beginning: &str| format!("{beginning:0<64}");
    let writes = ["abcdef0123", "abcdef0124", "abcdef02", "00"].map(|it| Write::PutArtifact(named(name(it))));
    commit(&*store, writes.to_vec()).await.unwrap();
    for (prefix, expected) in [
        ("abcdef0123", Some("abcdef0123")),
        ("ABCDEF0124", Some("abcdef0124")),
        ("abcdef02", Some("abcdef02")),
        ("abcdef020", Some("abcdef02")),
        ("abcdef03", None),
        ("00000000", Some("00")),
        ("ffffffff", None),
    ] {
        let artifact = store.artifact(thread_id, prefix).await.unwrap().map(|artifact| artifact.sha256);
        assert_eq!(artifact, expected.map(name), "{prefix}");
    }
    let long = "a".repeat(65);
    for prefix in ["abcdef01", "abcdef012", "abcdef0", "", "abcdefgh", "ääääääää", &long] {
        let refused = store.artifact(thread_id, prefix).await;
        assert!(
            matches!(refused, Err(Error::InvalidRequest { what: "artifact", .. })),
            "{prefix}: {refused:?}"
        );
    }
    assert_eq!(store.artifact(ThreadId::generate(), "abcdef02").await.unwrap(), None);
}

pub async fn an_invalid_artifact_is_refused(store: SharedStore) {
    let thread_id = create(&*store).await;
    let good = artifact(thread_id, 1, b"x");
    let large = Artifact { bytes: vec![0; ARTIFACT_BYTES_MAX + 1], ..good.clone() };
    let named = |sha256: &str| Artifact { sha256: sha256.to_owned(), ..good.clone() };
    for bad in [large, named(""), named("abcdef01"), named(&"A".repeat(64)), named(&"g".repeat(64))] {
        let refused = commit(&*store, vec![Write::PutArtifact(bad)]).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{refused:?}");
    }
    let unknown = Artifact { thread_id: ThreadId::generate(), ..good };
    let unknown = commit(&*store, vec![Write::PutArtifact(unknown)]).await;
    assert!(matches!(unknown, Err(Error::NotFound { what: "thread", .. })), "{unknown:?}");
}

pub async fn the_largest_artifact_is_stored_and_read(store: SharedStore) {
    let thread_id = create(&*store).await;
    let largest = artifact(thread_id, 1, &vec![7; ARTIFACT_BYTES_MAX]);
    commit(&*store, vec![Write::PutArtifact(largest.clone())]).await.unwrap();
    assert!(store.artifact(thread_id, &largest.sha256).await.unwrap() == Some(largest));
}

pub async fn h3_an_artifact_is_deleted_with_its_last_thread(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    let writes = [artifact(one, 1, b"shared"), artifact(two, 1, b"shared"), artifact(one, 2, b"own")];
    commit(&*store, writes.map(Write::PutArtifact).to_vec()).await.unwrap();
    commit(&*store, vec![Write::DeleteThread { thread_id: one }]).await.unwrap();
    let shared = artifact(two, 1, b"shared");
    assert_eq!(store.artifact(one, &shared.sha256).await.unwrap(), None);
    assert_eq!(store.artifact(two, &shared.sha256).await.unwrap(), Some(shared.clone()));
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
    commit(&*store, vec![Write::DeleteThread { thread_id: two }]).await.unwrap();
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
    // The old artifact was deleted, so the name is free for other bytes.
    let three = create(&*store).await;
    commit(&*store, vec![Write::PutArtifact(artifact(three, 1, b"other"))]).await.unwrap();
}
