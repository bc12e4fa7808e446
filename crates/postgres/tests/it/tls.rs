//! How the way to a server is secured.

use postgres::Error;
use test_postgres::{Cluster, Database, Settings, Tls};

use crate::{SETTINGS, pool};

/// Whether the session is encrypted.
async fn entered(url: &str) -> Result<bool, Error> {
    let is_encrypted = "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let rows = pool(url, SETTINGS).await.with(move |db| db.query(is_encrypted, &[])).await?;
    Ok(rows[0].text(0)?.as_deref() == Some("true"))
}

fn url(database: &Database, host: &str, query: &str) -> String {
    format!("{}?{query}", database.url().replace("127.0.0.1", host))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_is_as_secure_as_it_was_asked_to_be() {
    let cluster = Cluster::start_with(&Settings { tls: Tls::Offered, ..Settings::default() }).unwrap();
    let database = cluster.create_database().unwrap();
    let certificate = cluster.certificate();
    let right = format!("sslrootcert={}", certificate.display());
    let is_encrypted = async |host: &str, query: &str| entered(&url(&database, host, query)).await;
    assert!(!is_encrypted("localhost", "sslmode=disable").await.unwrap());
    for query in ["", "sslmode=prefer", "sslmode=require"] {
        assert!(is_encrypted("127.0.0.1", query).await.unwrap(), "{query}");
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        assert!(is_encrypted("localhost", &format!("sslmode={mode}&{right}")).await.unwrap(), "{mode}");
    }
    for (host, query) in [
        ("localhost", "sslmode=verify-full".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-full&{right}")),
        ("localhost", "sslmode=verify-full&sslrootcert=/nowhere.pem".to_owned()),
    ] {
        let told = is_encrypted(host, &query).await.unwrap_err();
        assert!(matches!(told, Error::Refused(_)), "{query}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_entered_only_by_who_does_not_ask_for_it() {
    let database = Database::create().unwrap();
    assert!(!entered(&url(&database, "127.0.0.1", "sslmode=prefer")).await.unwrap());
    let told = entered(&url(&database, "127.0.0.1", "sslmode=require")).await.unwrap_err();
    assert!(matches!(told, Error::Refused(_)), "{told:?}");
}
