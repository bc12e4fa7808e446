//! Tests of the proxy that records statements.

use test_postgres::{RecordedStatement, StatementRecorder, TestDatabase};

use crate::connect;

#[tokio::test]
async fn statements_are_recorded_with_the_round_trip_in_which_they_were_sent() {
    let database = TestDatabase::create().unwrap();
    let recorder = StatementRecorder::start(database.address()).unwrap();
    let client = connect(&database.url_through(recorder.address())).await;
    let statement = client.prepare("SELECT  $1::bigint + 1").await.unwrap();
    client.query(&statement, &[&1_i64]).await.unwrap();
    let (second, third) =
        tokio::join!(client.query(&statement, &[&2_i64]), client.query(&statement, &[&3_i64]));
    assert_eq!((second.unwrap().len(), third.unwrap().len()), (1, 1));
    client.batch_execute("SELECT 4").await.unwrap();
    let recorded = |round_trip, sql: &str, is_preparation| RecordedStatement {
        connection: 0,
        round_trip,
        sql: sql.to_owned(),
        is_preparation,
    };
    let sum = "SELECT $1::bigint + 1";
    let expected = [
        recorded(1, sum, true),
        recorded(2, sum, false),
        recorded(3, sum, false),
        recorded(3, sum, false),
        recorded(4, "SELECT 4", false),
    ];
    assert_eq!(recorder.take_statements(), expected);
    assert!(recorder.take_statements().is_empty());
}
