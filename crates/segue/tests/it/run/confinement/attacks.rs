//! Attacks: each tries to read, change or reach something that the sandbox excludes.

use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::{HostileRepository, PLANTED, namespaces, support};

/// Perl code that connects to a TCP port, sends a UDP datagram, and connects to an abstract socket. It prints `reached`
/// for each that works.
const CONNECT: &str = r#"perl -MSocket -e '
    my ($tcp, $udp, $name) = @ARGV;
    my ($first, $second, $third);
    my $address = sub { pack_sockaddr_in($_[0], inet_aton("127.0.0.1")) };
    socket($first, PF_INET, SOCK_STREAM, 0) && connect($first, $address->($tcp)) && print "reached tcp\n";
    socket($second, PF_INET, SOCK_DGRAM, 0) && send($second, "x", 0, $address->($udp)) && print "sent\n";
    socket($third, PF_UNIX, SOCK_STREAM, 0) && connect($third, pack_sockaddr_un("\0$name")) && print "reached abstract\n";
    print "tried\n"'"#;

#[test]
fn k4_secrets_of_the_user_and_of_the_program_cannot_be_read() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    fixture.write_config(&format!("# {PLANTED}\n"));
    let home = fixture.sandbox.home().display().to_string();
    let results = fixture.run(&[
        "cat ~/.ssh/id_ed25519; cat ~/.aws/credentials ~/notes.txt; ls -la ~/.ssh; true $HOME",
        &format!("cat {home}/config.toml {home}/segue.db; true $HOME"),
        "cat ../user/notes.txt; cd ..; cat user/.ssh/id_ed25519; true $HOME",
        "ln -s ../user/.ssh keys; cat keys/id_ed25519; true $HOME",
        "ln ../user/notes.txt hard && cat hard; true $HOME",
        "cat /proc/self/root/$HOME/notes.txt; cat /proc/self/cwd/../user/notes.txt; true $HOME",
        "tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/$PPID/root/$HOME/notes.txt; ls -l /proc/$PPID/fd; true $HOME",
        "dd if=/proc/$PPID/mem bs=1 count=1 2>&1; true $HOME",
    ]);
    for result in &results {
        assert!(!result.contains(PLANTED) && !result.contains("test-key-of-the-model"), "{result}");
    }
    assert!(!results[6].contains("socket:") && results[7].contains("ermission denied"), "{results:?}");
}

#[test]
fn k4_files_of_secrets_in_the_workspace_cannot_be_read() {
    let Some(_) = namespaces() else { return };
    let mut fixture = HostileRepository::new();
    let results = fixture.run(&[
        "cat .env config/server.key; cat < src.txt; true $HOME",
        "cp .env copy; mv .env moved; ln .env linked; cat copy moved linked .env; true $HOME",
        "mv config renamed; cat renamed/server.key; true $HOME",
    ]);
    for result in &results {
        assert!(!result.contains(PLANTED), "{result}");
    }
    assert!(results[0].contains("open") && results[0].contains("denied"), "{}", results[0]);
    assert_eq!(fixture.read("work/.env"), PLANTED);
}

#[test]
fn k6_nothing_outside_the_workspace_can_be_changed() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    fixture.write_config("# before\n");
    let home = fixture.sandbox.home().display().to_string();
    let outside = fixture.path("outside").display().to_string();
    fixture.run(&[
        &format!("echo x > {outside}; echo x >> ../outside; truncate -s 0 {outside}; rm -f {outside}; true $HOME"),
        &format!("mv {outside} {outside}2; ln -f src.txt {outside}; chmod 777 {outside}; true $HOME"),
        &format!("echo x > {home}/config.toml; rm -rf {home}/*; mkdir {home}/x; true $HOME"),
        "echo x > ~/.bashrc; echo x > ../user/.bashrc; true $HOME",
        &format!("ln -s {outside} link; echo x > link; true $HOME"),
        "for i in $(seq 100); do ln -sfn .. swap; echo x > swap/outside; ln -sfn . swap; echo x > swap/outside; done",
        &format!("perl -e 'chmod 0777, \"{outside}\"; utime 1, 1, \"{outside}\"; unlink \"{outside}\"'"),
    ]);
    assert_eq!((fixture.read("outside"), fixture.read("user/.bashrc")), ("before".into(), "before".into()));
    assert_eq!(fixture.read("home/config.toml"), "# before\n");
    assert!(!fixture.path("home/x").exists() && !fixture.path("outside2").exists());
}

#[test]
fn k6_a_command_leaves_no_program_for_git_to_start() {
    let Some(_) = namespaces() else { return };
    let mut fixture = HostileRepository::new();
    let config = fixture.read("work/.git/config");
    let trap = fixture.path("sprung").display().to_string();
    let results = fixture.run(&[
        &format!("git config core.fsmonitor 'touch {trap}'; echo '[core]' >> .git/config; true $HOME"),
        &format!("printf '#!/bin/sh\\ntouch {trap}' > .git/hooks/post-commit; chmod +x .git/hooks/*; true $HOME"),
        "mv .git moved; mv .git/hooks .git/other; rm -rf .git/hooks .git/config; cp src.txt .git/config; true $HOME",
        "ln -sfn /tmp .git/hooks; mkdir .git/modules; mv .git/config .git/c; true $HOME",
        &format!("git -c core.fsmonitor='touch {trap}' status --short; git -c core.pager='touch {trap}' -p log; true $HOME"),
    ]);
    assert_eq!(fixture.read("work/.git/config"), config, "{results:?}");
    assert!(!fixture.path("work/.git/hooks/post-commit").exists() && !fixture.path("sprung").exists());
    assert!(fixture.path("work/.git/HEAD").is_file() && !fixture.path("work/moved").exists());
}

#[test]
fn k6_no_socket_outside_can_be_reached() {
    let Some(support) = support() else { return };
    let mut fixture = HostileRepository::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = format!("segue-test-{}", std::process::id());
    let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let path = fixture.path("service.sock");
    let service = UnixListener::bind(&path).unwrap();
    let line =
        format!("{CONNECT} {} {} {name}", tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let to_path = format!(
        "perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un(\"{}\")) && print \
         \"reached\"; print \"tried\"'",
        path.display()
    );
    let results = fixture.run(&[&line, &to_path]);
    for result in &results {
        assert!(result.contains("tried"), "the tests need perl: {result}");
    }
    let has_scopes = support.landlock_abi >= 6 || support.has_namespaces;
    assert!(!results[0].contains("reached tcp"), "{results:?}");
    assert!(!has_scopes || !results[0].contains("reached abstract"), "{results:?}");
    assert!(!results[1].contains("reached"), "{results:?}");
    let is_empty =
        |result: io::Result<()>| result.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    service.set_nonblocking(true).unwrap();
    abstract_socket.set_nonblocking(true).unwrap();
    assert!(is_empty(tcp.accept().map(drop)) && is_empty(udp.recv(&mut [0; 8]).map(drop)));
    assert!(is_empty(service.accept().map(drop)));
    assert!(!has_scopes || is_empty(abstract_socket.accept().map(drop)));
}

#[test]
fn k6_a_process_outside_can_be_neither_traced_nor_stopped() {
    let Some(support) = support() else { return };
    let mut fixture = HostileRepository::new();
    // The parent of the command is the program itself.
    let results = fixture.run(&[
        "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; true $HOME",
        "kill -0 $PPID && echo reached; kill -CONT $PPID && echo reached; true $HOME",
        "echo x > /proc/$PPID/oom_score_adj && echo reached; echo 0 > /proc/$PPID/clear_refs && echo reached; true $HOME",
    ]);
    assert!(results[0].contains("NoNewPrivs:\\t1\\nSeccomp:\\t2"), "{results:?}");
    assert!(support.landlock_abi < 6 || !results[1].contains("reached"), "{results:?}");
    assert!(!results[2].contains("reached"), "{results:?}");
}

#[test]
fn k6_a_preloaded_library_is_in_the_sandbox_too() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    let outside = fixture.path("outside").display().to_string();
    let source = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void run(void) {{\n\
         FILE *file = fopen(\"{outside}\", \"r+\");\nputs(file ? \"reached\" : \"refused\");\n}}\n"
    );
    fs::write(fixture.path("work/evil.c"), source).unwrap();
    let results =
        fixture.run(&["cc -shared -fPIC -o evil.so evil.c && LD_PRELOAD=$PWD/evil.so /bin/echo loaded"]);
    assert!(results[0].contains("refused") && results[0].contains("loaded"), "{results:?}");
    assert_eq!(fixture.read("outside"), "before");
}

#[test]
fn k6_a_background_process_stays_in_the_sandbox() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    let attack =
        "until [ -e go ]; do :; done; echo x > ../outside; cat ../user/notes.txt > stolen; echo > finished";
    let results = fixture.run(&[
        &format!("sh -c '{attack}' > log 2>&1 & echo started"),
        "touch go; until [ -e finished ]; do :; done; cat stolen log; true $HOME",
    ]);
    assert!(results[0].contains("started") && !results[1].contains(PLANTED), "{results:?}");
    assert_eq!(fixture.read("outside"), "before");
}
