//! Tests of notifications from the server.

use postgres::{Error, NotificationListener};
use test_postgres::Proxy;

use crate::open_database_and_pool;

#[tokio::test(flavor = "multi_thread")]
async fn notifications_arrive_in_order_until_the_connection_is_lost() {
    let (database, pool) = open_database_and_pool().await;
    let proxy = Proxy::start(database.address()).unwrap();
    let target = database.url_through(proxy.address()).parse().unwrap();
    let mut listener = NotificationListener::open(&target, "test_channel").await.unwrap();
    pool.with_connection(|db| {
        (0..100).try_for_each(|n| db.batch_execute(&format!("NOTIFY test_channel, '{n}'")))
    })
    .await
    .unwrap();
    for expected in 0..100 {
        assert_eq!(listener.next_notification().await, Some(expected.to_string()));
    }
    proxy.cut();
    assert_eq!(listener.next_notification().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_to_an_unresponsive_server_fails() {
    let (database, _pool) = open_database_and_pool().await;
    let proxy = Proxy::start(database.address()).unwrap();
    proxy.silence();
    let target = format!("{}?connect_timeout=1", database.url_through(proxy.address())).parse().unwrap();
    assert!(matches!(NotificationListener::open(&target, "test_channel").await, Err(Error::Unreachable(_))));
}
