//! The launcher alone, with both mechanisms: namespaces, and Landlock without them.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sandbox::{Isolation, Launcher, NetworkAccess, SandboxPolicy};

use super::support;
use crate::sandbox::binary_path;

/// A user without rights, which most systems call `nobody`.
const UNPRIVILEGED_USER: u32 = 65_534;

/// A workspace and the policy for commands in it.
struct PolicyFixture {
    folder: tempfile::TempDir,
    policy: SandboxPolicy,
}

impl PolicyFixture {
    fn new(isolation: Isolation) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["work", "scratch", "home"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::create_dir(root.join("scratch/tmp")).unwrap();
        fs::write(root.join("outside"), "before").unwrap();
        let policy = SandboxPolicy {
            folder: root.join("work"),
            writable: vec![root.join("work")],
            readable: Vec::new(),
            read_only: Vec::new(),
            hidden: Vec::new(),
            scratch: root.join("scratch"),
            home: Some(root.join("home")),
            network: NetworkAccess::Off,
            isolation,
        };
        Self { folder, policy }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, program: &Path, line: &str) -> Command {
        let prefix = Launcher::at(program).prefix(&self.policy).unwrap();
        let mut command = Command::new(&prefix[0]);
        command.args(&prefix[1..]).args(["/bin/sh", "-c", line]).current_dir("/");
        command
    }

    fn run(&self, line: &str) -> String {
        output_text(self.command(binary_path(), line).output().unwrap())
    }
}

fn output_text(output: Output) -> String {
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Returns the mechanisms of this system.
fn isolations() -> Vec<Isolation> {
    let Some(support) = support() else { return Vec::new() };
    let namespaces = support.has_namespaces.then_some(Isolation::Namespaces);
    [Isolation::Landlock].into_iter().chain(namespaces).collect()
}

#[test]
fn both_mechanisms_confine_files() {
    for isolation in isolations() {
        let fixture = PolicyFixture::new(isolation);
        fs::write(fixture.path("home/secret"), "planted").unwrap();
        let text = fixture
            .run("pwd; echo 1 > made; cat made; cat ../home/secret; echo x > ../outside; rm ../outside");
        assert!(text.contains("/work\n1\n") && !text.contains("planted"), "{isolation:?}: {text}");
        assert_eq!(fs::read_to_string(fixture.path("outside")).unwrap(), "before", "{isolation:?}");
    }
}

#[test]
fn a_file_for_the_user_is_refused_and_not_lost_in_the_private_home_folder() {
    let Some(support) = support().filter(|support| support.has_namespaces) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = folder.path().canonicalize().unwrap();
    if home.starts_with("/tmp") || home.starts_with("/var/tmp") {
        println!(
            "skipped: the tests are built in a folder for temporary files, which commands can write: {support:?}"
        );
        return;
    }
    let mut fixture = PolicyFixture::new(Isolation::Namespaces);
    fixture.policy.home = Some(home.clone());
    let home = home.display();
    let text =
        fixture.run(&format!("echo x > {home}/.cache/x && echo cached; echo x > {home}/report && echo lost"));
    assert!(text.contains("cached") && !text.contains("lost"), "{text}");
}

#[test]
fn k6_dangerous_system_calls_fail_with_both_mechanisms() {
    let calls = [
        ("ptrace", libc::SYS_ptrace, "0, 0, 0, 0"),
        ("process_vm_readv", libc::SYS_process_vm_readv, "$$, 0, 0, 0, 0, 0"),
        ("mount", libc::SYS_mount, "0, 0, 0, 0, 0"),
        ("bpf", libc::SYS_bpf, "0, 0, 0"),
        ("keyctl", libc::SYS_keyctl, "0, 0, 0"),
        ("io_uring_setup", libc::SYS_io_uring_setup, "1, 0"),
        ("userfaultfd", libc::SYS_userfaultfd, "1"),
        ("perf_event_open", libc::SYS_perf_event_open, "0, 0, 0, 0, 0"),
        ("setns", libc::SYS_setns, "0, 0"),
        ("new user namespace", libc::SYS_unshare, "0x10000000"),
        ("new mount namespace", libc::SYS_unshare, "0x20000"),
        ("packet socket", libc::SYS_socket, "17, 3, 0"),
        ("vsock", libc::SYS_socket, "40, 1, 0"),
        ("netfilter", libc::SYS_socket, "16, 3, 12"),
        ("terminal injection", libc::SYS_ioctl, "0, 0x5412, 0"),
    ];
    for isolation in isolations() {
        let fixture = PolicyFixture::new(isolation);
        for (name, number, args) in calls {
            let text = fixture.run(&format!("perl -e 'my $r = syscall({number}, {args}); print \"$r $!\"'"));
            assert_eq!(text, "-1 Operation not permitted", "{name} with {isolation:?}");
        }
        let text = fixture.run(&format!("perl -e 'syscall({}, 0, 0); print $!'", libc::SYS_clone3));
        assert_eq!(text, "Function not implemented", "{isolation:?}");
    }
}

#[test]
fn k6_without_namespaces_no_socket_can_be_connected() {
    if support().is_none() {
        return;
    }
    let fixture = PolicyFixture::new(Isolation::Landlock);
    let path = fixture.path("work/service");
    let _service = UnixListener::bind(path).unwrap();
    let text = fixture.run(
        "perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die; connect($s, pack_sockaddr_un(\"service\")) or \
         print \"refused\"; socket(my $t, PF_INET, SOCK_STREAM, 0) or print \" none\"; my ($u, $v); socketpair($u, $v, AF_UNIX, \
         SOCK_STREAM, 0) and send($u, \"x\", 0) and print \" pair\"'",
    );
    assert_eq!(text, "refused none pair");
}

#[test]
fn the_network_of_the_machine_is_reachable_if_the_policy_says_so() {
    for isolation in isolations() {
        let mut fixture = PolicyFixture::new(isolation);
        fixture.policy.network = NetworkAccess::On;
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = fixture.run(&format!(
            "perl -MSocket -e 'socket(my $s, PF_INET, SOCK_STREAM, 0) or die; connect($s, pack_sockaddr_in({}, \
             inet_aton(\"127.0.0.1\"))) and print \"reached\"'",
            server.local_addr().unwrap().port()
        ));
        assert_eq!(text, "reached", "{isolation:?}");
    }
}

#[test]
fn a_command_that_cannot_be_confined_is_not_executed() {
    let Some(_) = support() else { return };
    let mut fixture = PolicyFixture::new(Isolation::Landlock);
    fixture.policy.folder = fixture.path("missing");
    let output = fixture.command(binary_path(), "echo executed").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(126) && output.stdout.is_empty(), "{output:?}");
    assert!(
        text.starts_with("segue: failed to apply the sandbox: enter the folder of the command"),
        "{text}"
    );
}

#[test]
fn k6_a_user_without_rights_is_confined_like_root() {
    let Some(support) = support() else { return };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start a process of another user");
        return;
    }
    let mut isolations = vec![Isolation::Landlock];
    isolations.extend(support.has_namespaces.then_some(Isolation::Namespaces));
    for isolation in isolations {
        let fixture = PolicyFixture::new(isolation);
        // The program and the workspace must be accessible to the other user.
        let program = fixture.path("segue");
        fs::copy(binary_path(), &program).unwrap();
        for name in ["", "work", "scratch", "scratch/tmp", "home"] {
            std::os::unix::fs::chown(fixture.path(name), Some(UNPRIVILEGED_USER), None).unwrap();
        }
        fs::write(fixture.path("work/.env"), "planted").unwrap();
        let mut fixture = fixture;
        fixture.policy.hidden = vec![fixture.path("work/.env")];
        let line =
            "id -u; echo 1 > made && cat made; cat .env; echo x > ../outside; unshare -U true && echo left";
        let mut command = fixture.command(&program, line);
        let output = command.uid(UNPRIVILEGED_USER).output().unwrap();
        let text = output_text(output);
        if isolation == Isolation::Namespaces && text.contains("create namespaces") {
            println!("skipped: this system permits users no namespaces");
            continue;
        }
        assert!(text.starts_with("65534\n1\n") && !text.contains("left"), "{isolation:?}: {text}");
        assert!(isolation == Isolation::Landlock || !text.contains("planted"), "{text}");
        assert_eq!(fs::read_to_string(fixture.path("outside")).unwrap(), "before", "{isolation:?}");
    }
}
