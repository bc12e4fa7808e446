//! News from the server.

use postgres::{Error, Listener};
use test_postgres::Proxy;

use crate::scene;

#[tokio::test(flavor = "multi_thread")]
async fn news_are_heard_in_order_until_the_connection_is_lost() {
    let (database, pool) = scene().await;
    let proxy = Proxy::start(database.address()).unwrap();
    let target = database.url_through(proxy.address()).parse().unwrap();
    let mut listener = Listener::open(&target, "told").await.unwrap();
    pool.with(|db| (0..100).try_for_each(|n| db.batch(&format!("NOTIFY told, '{n}'")))).await.unwrap();
    for expected in 0..100 {
        assert_eq!(listener.next().await, Some(expected.to_string()));
    }
    proxy.cut();
    assert_eq!(listener.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_not_listened_to_for_ever() {
    let (database, _pool) = scene().await;
    let proxy = Proxy::start(database.address()).unwrap();
    proxy.silence();
    let target = format!("{}?connect_timeout=1", database.url_through(proxy.address())).parse().unwrap();
    assert!(matches!(Listener::open(&target, "told").await, Err(Error::Unreachable(_))));
}
