//! `segue ping`: the health of a running server, asked without a key and without a home folder.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;
use test_postgres::{Proxy, TestDatabase};

use crate::sandbox::TestSandbox;
use crate::server::ServeProcess;

#[test]
fn a_ping_of_a_healthy_server_succeeds_without_a_key_and_creates_nothing() {
    let server_sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&server_sandbox);
    let sandbox = TestSandbox::new().with_file_database();
    let address = serving.announcement["addr"].as_str().unwrap();
    for name in [serving.url(), address] {
        let output = sandbox.run(&["ping", name]);
        let line = format!("The server at {} works and can read its database.\n", serving.url());
        assert_eq!((output.code, output.stdout, output.stderr), (0, line, String::new()), "{name}");
    }
    assert_eq!(sandbox.json(&["ping", address, "--json"]), json!({"url": serving.url(), "ok": true}));
    assert!(!sandbox.home().exists());
}

#[test]
fn serve_and_ping_take_the_address_from_the_environment() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_variable("SEGUE_ADDR", "127.0.0.1:0");
    let serving = ServeProcess::spawn(sandbox.command(&["serve", "--json"]));
    assert_ne!(serving.announcement["addr"], "127.0.0.1:2024");
    sandbox.set_variable("SEGUE_ADDR", serving.announcement["addr"].as_str().unwrap());
    assert_eq!(sandbox.run(&["ping"]).code, 0);
    sandbox.set_variable("SEGUE_ADDR", "ftp://nowhere");
    sandbox.run(&["ping"]).assert_error(2, "neither an http or https URL nor HOST:PORT");
}

#[test]
fn a_ping_without_a_server_fails_with_one_line_and_a_hint() {
    let sandbox = TestSandbox::new().with_file_database();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    sandbox.run(&["ping", &address]).assert_error(1, &format!("reach the server at http://{address}: "));
    let output = sandbox.run(&["ping", &address, "--json"]);
    let error: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
    assert_eq!((output.code, &error["error"]["code"]), (1, &json!("store")), "{error}");
    assert!(error["error"]["hint"].as_str().unwrap().contains("segue serve"), "{error}");
    let invalid = sandbox.run(&["ping", "ftp://127.0.0.1"]);
    assert!(invalid.code == 2 && invalid.stderr.contains("neither an http or https URL"), "{invalid:?}");
}

#[test]
fn a_ping_of_a_server_that_lost_its_database_fails() {
    let database = TestDatabase::create().unwrap();
    let proxy = Proxy::start(database.address()).unwrap();
    let mut sandbox = TestSandbox::new().with_file_database();
    sandbox.set_variable("SEGUE_DATABASE_URL", &database.url_through(proxy.address()));
    std::fs::create_dir(sandbox.home()).unwrap();
    std::fs::write(sandbox.home().join("config.toml"), "[database]\nwait_seconds = 1\n").unwrap();
    let serving = ServeProcess::start(&sandbox);
    assert_eq!(sandbox.run(&["ping", serving.url()]).code, 0);
    proxy.refuse();
    proxy.cut();
    let output = sandbox.run(&["ping", serving.url()]);
    output.assert_error(1, &format!("use the server at {}: the database cannot be read", serving.url()));
    proxy.restore();
    while sandbox.run(&["ping", serving.url()]).code != 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_ping_of_another_program_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
    });
    let output = TestSandbox::new().with_file_database().run(&["ping", &address]);
    output.assert_error(1, "it answered with status 404, as no server of Segue does");
    answering.join().unwrap();
}
