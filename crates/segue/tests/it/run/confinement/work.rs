//! The ordinary work of a developer, which the sandbox must not disturb.

use super::{HostileRepository, namespaces, support};

#[test]
fn a_developer_can_commit_build_and_use_temporary_files() {
    let Some(_) = support() else { return };
    let mut fixture = HostileRepository::new();
    std::fs::write(fixture.path("work/Makefile"), "made: src.txt\n\tcp src.txt made\n").unwrap();
    let results = fixture.run(&[
        "git add src.txt && git -c user.name=t -c user.email=t@example.invalid commit -qm first && git log --oneline",
        "make made 2>&1 || cp src.txt made; cat made; echo $SEGUE_SANDBOX",
        "f=$(mktemp) && echo kept > $f && cat $f && echo $f > name; echo x > $TMPDIR/between; true $HOME",
        "cat $TMPDIR/between; echo a | cat | tee /dev/null > /dev/stderr; : > /dev/null; head -c 4 /dev/urandom | wc -c",
        "mkdir -p a/b && echo 1 > a/b/c && mv a/b/c a/d && ln -s d a/e && cat a/e && rm -r a; true $HOME",
        "echo '#!/bin/sh\necho ran' > script && chmod +x script && ./script",
        "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) and print \"paired\"'",
        "perl -e 'open(my $t, \"+<\", \"/dev/ptmx\") or die $!; print \"terminal\"'",
        "(exit 7)",
        "kill -9 $$",
    ]);
    let expected = [
        "first",
        "open",
        "kept",
        "x\\na\\n4",
        "1",
        "ran",
        "paired",
        "terminal",
        "[exit status 7]",
        "[ended by a signal]",
    ];
    for (result, expected) in results.iter().zip(expected) {
        assert!(result.contains(expected), "{expected}: {results:?}");
    }
}

#[test]
fn a_command_has_a_loopback_interface_a_home_folder_and_temporary_files_of_its_own() {
    let Some(_) = namespaces() else { return };
    let mut fixture = HostileRepository::new();
    let talk = r#"perl -MSocket -e '
        socket(my $server, PF_INET, SOCK_STREAM, 0) or die $!;
        bind($server, pack_sockaddr_in(0, inet_aton("127.0.0.1"))) or die $!;
        listen($server, 1) or die $!;
        socket(my $client, PF_INET, SOCK_STREAM, 0) or die $!;
        connect($client, getsockname($server)) or die $!;
        print "talked"'"#;
    let results = fixture.run(&[
        talk,
        "perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un(\"s\")) or die; listen($s, 1); \
         socket(my $c, PF_UNIX, SOCK_STREAM, 0); connect($c, pack_sockaddr_un(\"s\")) or die $!; print \"local\"'",
        "echo cached > ~/.cache/file && mkdir -p ~/.config/tool && echo x > /tmp/literal && echo y > /var/tmp/other; true",
        "cat ~/.cache/file /tmp/literal; ls ~; true $HOME",
    ]);
    assert!(results[0].contains("talked") && results[1].contains("local"), "{results:?}");
    assert!(results[3].contains("cached\\nx"), "{results:?}");
    assert!(!fixture.path("user/.cache").exists() && !fixture.path("user/.config").exists());
}
