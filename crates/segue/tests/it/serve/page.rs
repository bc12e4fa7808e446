//! `segue page`: opening the web page from the terminal.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::sandbox::TestSandbox;
use crate::serve::anonymous_client;
use crate::server::ServeProcess;
use crate::terminal::PtyTerminal;

#[test]
fn k2_a_terminal_gets_the_page_address_with_the_token_and_a_file_gets_it_without() {
    let sandbox = TestSandbox::new();
    let terminal = PtyTerminal::start(&sandbox, 160, &["serve", "--addr", "127.0.0.1:0"]);
    let token = || std::fs::read_to_string(sandbox.home().join("token")).unwrap();
    let screen = terminal.wait_for("Docs");
    assert!(screen.contains(&format!("/#token={}", token().trim())), "{screen}");
    terminal.kill();
    let serving = ServeProcess::start(&sandbox);
    assert_eq!(serving.announcement["page"], format!("{}/", serving.url()));
    assert!(!serving.announcement.to_string().contains(token().trim()));
    let page = anonymous_client(&serving).send("GET", "/", &["accept: text/html"], b"");
    assert!(page.status == 200 && page.header("content-security-policy").is_some(), "{page:?}");
}

#[test]
fn k2_the_browser_opens_the_page_without_the_token_in_its_arguments() {
    let mut sandbox = TestSandbox::new();
    let (folder, opened) = (sandbox.work_folder().join("bin"), sandbox.work_folder().join("opened"));
    std::fs::create_dir(&folder).unwrap();
    assert!(Command::new("mkfifo").arg(&opened).status().unwrap().success());
    let opener = folder.join(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    std::fs::write(&opener, format!("#!/bin/sh\necho \"$1\" > '{}'\n", opened.display())).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.set_variable("PATH", &format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    let mut serving =
        sandbox.command(&["serve", "--addr", "127.0.0.1:0", "--open", "--json"]).spawn().unwrap();
    let opened_path = std::fs::read_to_string(&opened).unwrap();
    let page_file = std::path::Path::new(opened_path.trim());
    assert_eq!(std::fs::metadata(page_file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(sandbox.home().join("token")).unwrap();
    let document = std::fs::read_to_string(page_file).unwrap();
    assert!(document.contains(&format!("/#token={}\"", token.trim())), "{document}");
    serving.kill().unwrap();
    serving.wait().unwrap();
}
