//! Tests of the TLS modes and of the verification of the server's certificate.

use postgres::Error;
use test_postgres::{Cluster, ClusterSettings, TestDatabase, TlsMode};

use crate::{SETTINGS, pool};

/// Connects and returns whether the session is encrypted.
async fn is_session_encrypted(url: &str) -> Result<bool, Error> {
    let is_encrypted = "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let rows = pool(url, SETTINGS).await.with_connection(move |db| db.query(is_encrypted, &[])).await?;
    Ok(rows[0].text(0)?.as_deref() == Some("true"))
}

fn url(database: &TestDatabase, host: &str, query: &str) -> String {
    format!("{}?{query}", database.url().replace("127.0.0.1", host))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sslmode_encrypts_and_verifies_as_documented() {
    let cluster =
        Cluster::start_with(&ClusterSettings { tls: TlsMode::Offered, ..ClusterSettings::default() })
            .unwrap();
    let database = cluster.create_database().unwrap();
    let certificate = cluster.certificate();
    let trusted_root = format!("sslrootcert={}", certificate.display());
    let is_encrypted =
        async |host: &str, query: &str| is_session_encrypted(&url(&database, host, query)).await;
    assert!(!is_encrypted("localhost", "sslmode=disable").await.unwrap());
    for query in ["", "sslmode=prefer", "sslmode=require"] {
        assert!(is_encrypted("127.0.0.1", query).await.unwrap(), "{query}");
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        assert!(
            is_encrypted("localhost", &format!("sslmode={mode}&{trusted_root}")).await.unwrap(),
            "{mode}"
        );
    }
    for (host, query) in [
        ("localhost", "sslmode=verify-full".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-full&{trusted_root}")),
        ("localhost", "sslmode=verify-full&sslrootcert=/nowhere.pem".to_owned()),
    ] {
        let error = is_encrypted(host, &query).await.unwrap_err();
        assert!(matches!(error, Error::ConnectionRejected(_)), "{query}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_refuses_only_connections_that_require_it() {
    let database = TestDatabase::create().unwrap();
    assert!(!is_session_encrypted(&url(&database, "127.0.0.1", "sslmode=prefer")).await.unwrap());
    let error = is_session_encrypted(&url(&database, "127.0.0.1", "sslmode=require")).await.unwrap_err();
    assert!(matches!(error, Error::ConnectionRejected(_)), "{error:?}");
}
