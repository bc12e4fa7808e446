//! Tests of the forms in which secrets stand: file names, headers in sentences, command lines, cut keys, files of tools.

use test_secrets::RandomSource;

use super::*;

/// Fills the parts `«…»` of each text with random values, and checks that exactly these parts are redacted.
#[track_caller]
fn check_redacted(texts: &[&str]) {
    let mut random = RandomSource::new(SEED);
    let mut missed = Vec::new();
    for template in texts {
        let (mut text, mut expected) = (String::new(), String::new());
        for (index, part) in template.split(['«', '»']).enumerate() {
            match index % 2 {
                0 => (text, expected) = (text + part, expected + part),
                _ => (text, expected) = (text + &random.fill_template(part), expected + REDACTED),
            }
        }
        let redacted = redact(&text);
        if redacted != expected {
            missed.push(format!("{text:?} -> {redacted:?}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Checks that none of the texts is changed.
#[track_caller]
fn check_unchanged(texts: &[&str]) {
    let changed: Vec<_> = texts.iter().filter(|text| redact(text) != **text).collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

#[test]
fn m16_a_secret_in_a_path_or_file_name_is_redacted() {
    for token in ["AKIA{x16}", "ghp_{A36}", "sk-ant-api03-{w93}AA", "dapi{h32}", "sk_live_{A24}", "hvs.{w95}"]
    {
        for context in [
            "keys/«T».json",
            "/tmp/«T».env",
            "«T».txt",
            "x/«T».yml: no such file",
            "mv «T».pem old",
            "«T».tar.gz",
            "docs/«T»/notes.md",
            "(«T»)",
            "«T», and",
            "«T»: it",
            "«T»?page=2",
            "«T»#top",
            "?key=«T»&page=2",
            "C:\\keys\\«T».txt",
        ] {
            check_redacted(&[&context.replace("«T»", &format!("«{token}»"))]);
        }
    }
    check_redacted(&["backup_«ghp_{A36}».json", "_«AKIA{x16}»_"]);
    check_unchanged(&[
        "keys/prod.json",
        "secret.yml",
        "task_sk-1234.json",
        "disk_usage_of_the_host_0001.txt",
    ]);
}

#[test]
fn m16_a_header_in_a_sentence_or_a_command_is_redacted() {
    check_redacted(&[
        "I set Cookie: sessionid=«{A24}» and got 401",
        "the Cookie: sessionid=«{A24}», which",
        "Cookie:sessionid=«abc{d3}»",
        "curl -H \"Cookie: a=b; sid=«{A24}»\" -v https://x.test",
        "curl -b session=«{A24}» https://x.test",
        "curl --cookie \"session=«{A24}»; theme=dark\" https://x.test",
        "{\"Cookie\": \"sessionid=«{A24}»\"}",
        "{\\\"cookie\\\": \\\"sessionid=«{A24}»\\\"}",
        "I sent Authorization: Basic «dXNlcjpwYXNz» and got 401",
        "curl -H \"Authorization: Basic «YWxhZGRpbjpvcGVuc2VzYW1l»\" https://x.test",
        "{\"Authorization\": \"Basic «YWRtaW46YWRtaW4=»\"}",
        "I sent Authorization: Bearer «{A24}» and got 401",
        "Authorization: Bearer: «{A24}»",
        "Authorization: Bot «{A40}»",
        "Authorization: ApiKey «{a32}»",
        "{\"authorization\": \"«{A32}»\"}",
        "curl -H \"X-Api-Key: «{A24}»\" https://x.test",
        "I sent X-Api-Key: «{A24}» and got 401",
        "x-functions-key: «{h40}»",
        "X-Auth: «{A24}»",
    ]);
    check_unchanged(&[
        "Authorization: Basic auth",
        "Authorization: Bearer token required",
        "Basic configuration of the host",
        "Cookie: theme=dark; lang=de",
        "the cookie: session=none",
        "curl -b cookies.txt https://x.test",
        "cookies = dict(session_id=session1.id)",
        "authorization: RBAC",
        "Win32_Authorization = [\"Win32_Security\"]",
        "\"AWS::EndpointAuthorization\": \"e72be424d109da1d\"",
        "see `Basic Operations` and `Basic Options`",
        "usage: [ExtendedKeyUsageOID.CLIENT_AUTH]",
    ]);
}

#[test]
fn m16_a_discord_token_is_redacted() {
    check_redacted(&[
        "MY_BOT is «MTk4NjIy{A18}.{w6}.{w27}».",
        "client.login(\"«NzAxMTEx{A18}.{w6}.{w38}»\")",
        "keys/«OTk4NjIy{A16}.{w6}.{w27}».json",
        "Authorization: Bot «MTk4NjIy{A18}.{w6}.{w27}»",
    ]);
    check_unchanged(&["MTIzNDU2Nzg5MDEyMzQ1Njc4", "com.example.Modern.widget", "NTQ3.abcdef.ghijklm"]);
}

#[test]
fn m16_a_password_on_a_command_line_is_redacted() {
    for password in ["hunter2", "swordfish", "Sommer2024!", "{A16}"] {
        for context in [
            "mysql -p«P»",
            "mysql -u root -p'«P»' app",
            "mysqldump -uroot -p«P» app > app.sql",
            "mysql --password=«P» app",
            "psql \"host=db user=me password=«P»\"",
            "PGPASSWORD=«P» psql",
            "sshpass -p «P» ssh host",
            "SSHPASS=«P» sshpass -e ssh host",
            "redis-cli -a «P» ping",
            "curl -u me:«P» https://x.test",
            "curl \\\n  -u \"me:«P»\" https://x.test",
            "docker login -p «P» registry.test",
            "echo «P» | docker login -u me --password-stdin",
            "mongosh -u me -p «P»",
            "unzip -P «P» x.zip",
            "openssl rsa -passin pass:«P» -in x",
            "ldapsearch -x -w «P»",
            "smbclient //x/y -U me%«P»",
            "sqlplus me/«P»@db",
            "htpasswd -bc file me «P»",
            "ALTER ROLE me PASSWORD '«P»'",
            "CREATE USER me IDENTIFIED BY '«P»'",
        ] {
            check_redacted(&[&context.replace("«P»", &format!("«{password}»"))]);
        }
    }
    check_redacted(&["deploy --token «{A24}»", "deploy --api-key=«{h32}»", "deploy --api-key «{A24}»"]);
    check_unchanged(&[
        "mysql -p app",
        "mysql -p$PASSWORD",
        "mysql -P 3306 -h db",
        "docker run -p 8080:80 nginx",
        "docker login && mkdir -p data2024",
        "redis-cli -p 6379; cp -a from2024 to",
        "mysql-client -pedantic2",
        "--token string  the token",
        "echo $TOKEN | docker login --password-stdin",
    ]);
}

#[test]
fn m16_a_private_key_on_one_line_whose_end_was_cut_is_redacted() {
    check_redacted(&[
        "Bash cat > key <<E «-----BEGIN RSA PRIVATE KEY----- {b64} {b64} {b20}»",
        "- Deploy with key «-----BEGIN OPENSSH PRIVATE KEY----- {b64}»",
    ]);
    check_unchanged(&[
        "grep -----BEGIN RSA PRIVATE KEY----- in the files",
        "-----BEGIN PRIVATE KEY----- begins each of the configuration files",
    ]);
}

#[test]
fn m16_a_private_key_without_its_first_line_is_redacted() {
    for (lines, line_break) in [
        ("some text ends\n«{b40}~{b64}~{b20}==~-----END RSA PRIVATE KEY-----»\nafter", "\n"),
        ("{\"key\": \"«{b64}~{b64}~{b20}==~-----END PRIVATE KEY-----»\\n\"}", "\\n"),
        ("  «{b64}~{b64}~{b20}==~-----END OPENSSH PRIVATE KEY-----»\r\n", "\r\n  "),
        ("«+{b64}~{b64}~-----END EC PRIVATE KEY-----»", "\n+"),
        ("   12\t«{b64}~{b64}~-----END PRIVATE KEY-----»", "\n   13\t"),
        ("x\n\n«{b64}~{b64}~={b4}~-----END PGP PRIVATE KEY BLOCK-----»", "\n"),
    ] {
        check_redacted(&[&lines.replace('~', line_break)]);
    }
    check_unchanged(&[
        "the line\n-----END PRIVATE KEY----- closes it",
        "if line == \"-----END PRIVATE KEY-----\" {",
        "/usr/local/share/keys\n-----END PRIVATE KEY-----",
        "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAx7Q2\n-----END PUBLIC KEY-----",
    ]);
}

#[test]
fn m16_a_password_in_a_sentence_is_redacted() {
    check_redacted(&[
        "password is «swordfish»",
        "The password is «swordfish».",
        "my password is «swordfish», thanks",
        "my password: «hunter2»",
        "my password: «swordfish»",
        "my pass is «hunter2»",
        "pw: «hunter2»",
        "the password was «hunter2», I think",
        "I changed the password to «hunter2»",
        "password (staging): «hunter2»",
        "log in with password «Sommer2024!» as me",
        "credentials: admin / «hunter2»",
        "unlock it with the passphrase \"«Tr0ub4dor»\"",
        "use the password '«hunter2hunter2»' there",
        "call it with token '«{A24}»'",
        "user: admin pass: «hunter2xy9»",
        "GET https://x.test/a?sv=2020&sig=«{A43}»&se=1",
        "GET https://x.test/maps?key=«{A24}»&zoom=2",
        "Always use AccountKey=«/{A40}/{A43}==» for the blobs.",
        "Always use this for cookie: Cookie: sessionid=«{A24}» and never another one.",
    ]);
    check_unchanged(&[
        "the password is required",
        "password is wrong.",
        "The password is stored in plain text",
        "The password is correct, thanks",
        "the password is case-sensitive",
        "Das Passwort ist falsch.",
        "the password should be long",
        "use password field1 and field2",
        "use password authentication",
        "the backward pass of the previous step is complete. And",
        "the password to provide, possibly empty",
        "pw: __uint64,",
        "password SHA256 hash",
        "Unexpected token '<' in JSON",
        "unexpected token 'identifier1'",
        "the password \"field\" is empty",
        "--- PASS: TestLogin2 (0.00s)",
        "login_test.go:12: PASS: TestLogin2",
        "the password \"field1\" is empty",
        "https://x.test/list?key=created_at&order=desc",
    ]);
}

#[test]
fn m16_secrets_in_the_files_of_tools_are_redacted() {
    check_redacted(&[
        "kind: Secret\nstringData:\n  password: «swordfish»\n",
        "kind: Secret\ndata:\n  password: «aHVudGVyMg==»\n",
        "tls.key: «LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t{A80}»",
        "machine x login me password «hunter2»",
        "machine imap port 993 login carol password «swordfish»",
        "machine x.test\n  password «swordfish»\n  login me\n",
        "db.test:5432:app:me:«hunter2»",
        "*:*:*:me:«swordfish»",
        "//r.test/:_authToken=«{A36}»",
        "_auth=«{A28}»",
        "https://me:«swordfish»@x.test/y",
        "postgres://me:«pa@ss1»@db/app",
        "jdbc:postgresql://h/d?user=me&password=«hunter2»&ssl=1",
        "jdbc:oracle:thin:scott/«hunter2»@h:1521:x",
        "it returned «IQoJb3JpZ2luX2Vj{b120}»",
        "{\\\"password\\\": \\\"«hunter2»\\\"}",
        "variable \"db_password\" {\n  default = \"«hunter2»\"\n}",
        "{\"auths\": {\"r.test\": {\"auth\": \"«{A28}»\"}}}",
        "https://hooks.slack.com/workflows/T0AAA/A0BBB/123/«{A24}»",
        "Client(\"AC0123456789abcdef0123456789abcdef\", \"«{h32}»\")",
        "https://api.telegram.org/bot1234567890:«AA{w33}»/sendMessage",
        "requirepass «hunter2»",
    ]);
    check_unchanged(&[
        "ports: 5432:5432",
        "src/lib.rs:5432:10: error: x",
        "cpe:2.3:a:x:y:1.0:*:*:*:*:node.js:*:*",
        "the login page password reset",
        "machine learning login password",
        "https://user:pass@host",
        "variable \"db_password\" {\n  type = string\n}",
        "the requirepass directive",
        "\"arn:aws:logs:*:*:log-group:/aws/config/x\"",
        "a library identified by 'name'",
    ]);
}

#[test]
fn m16_tokens_of_more_services_are_redacted() {
    for token in [
        "hvs.{w24}",
        "hvb.{w30}",
        "hvr.{w24}",
        "M{A23}.{w6}.{w27}",
        "N{A25}.{w6}.{w38}",
        "NRAK-{u27}",
        "ntn_{A46}",
        "cio{A32}",
        "key-{h32}",
        "{h32}-us12",
        "{h32}-us6",
        "squ_{h40}",
        "sqp_{h40}",
        "sqa_{h40}",
        "api_org_{A34}",
        "api_org_{l34}",
        "sl.{w130}",
        "sl.u.{w150}",
    ] {
        for context in
            ["I pasted «T» there.", "\"«T»\"", "x=«T»\n", "keys/«T»", "(«T»)", "«T»", "A «T»,«T» Z"]
        {
            check_redacted(&[&context.replace("«T»", &format!("«{token}»"))]);
        }
    }
    check_unchanged(&[
        "hvs.config and hvs.some_long_module_name_of_it",
        "cio and ciorganizationofthewholecommitteeab",
        "key-0123456789abcdef",
        "in us-east-1 and eu-us1",
        "sqp_test_helper",
        "api_org_settings_of_the_first_page",
        "sl.configuration.of.the.slider",
        "MyVeryLongComponentName24.config.someOtherLongMethodNameHere1",
        "ModuleNotFoundErrorHandler.create.anotherLongNameOfSomethingElse",
        "2.123456.7 and a.abcdef.g",
    ]);
}

#[test]
fn m16_an_openssh_key_without_its_first_line_is_redacted() {
    for (lines, line_break) in [
        ("text\n«b3BlbnNzaC1rZXktdjE{b51}~{b70}~{b70}~{b16}==»\nafter it", "\n"),
        ("«b3BlbnNzaC1rZXktdjE{b51}~{b70}~{b70}~{b18}==»\r\nafter", "\r\n"),
        ("key: |\n  «b3BlbnNzaC1rZXktdjE{b51}~{b70}~{b58}==»\n  other: x", "\n  "),
        ("{\"key\": \"«b3BlbnNzaC1rZXktdjE{b51}~{b70}~{b58}==»\\n\"}", "\\n"),
        ("+«b3BlbnNzaC1rZXktdjE{b51}~{b70}~{b58}==»\n+x", "\n+"),
        ("> «b3BlbnNzaC1rZXktdjE{b51}~{b70}~{b58}==»\n> x", "\n> "),
        ("«b3BlbnNzaC1rZXktdjE{b51}~{b70}~{b20}»", " "),
        ("key=«b3BlbnNzaC1rZXktdjE{b500}»", ""),
        ("«b3BlbnNzaC1rZXktdjE{b6000}==» and", ""),
    ] {
        check_redacted(&[&lines.replace('~', line_break)]);
    }
    check_unchanged(&["the body begins with b3BlbnNzaC1rZXkt"]);
}

#[test]
fn m16_a_password_with_a_space_or_an_exclamation_mark_is_redacted() {
    check_redacted(&[
        "{\"password\": \"«xK9 eZ0qypTn»\"}",
        "{\\\"password\\\": \\\"«xK9 eZ0qypTn»\\\"}",
        "password: \"«Q ufSFoO qwUAKcq6!»\"",
        "DB_PASSWORD='«Q ufSFoO qwUAKcq6!»'",
        "login --password \"«xK9 eZ0qypTn»\"",
        "the password is \"«xK9 eZ0qypTn»\"",
        "pw: «ZqXpqdLxHU!»",
        "password: \"«ZqXpqdLxHU!»\"",
        "my password is «ZqXpqdLxHU!»",
    ]);
    check_unchanged(&[
        "password: \"at least eight characters\"",
        "{\"password\": \"min. 8 characters, a-z0-9\"}",
        "{\"password\": \"Enter the 2FA code\", \"x\": 1}",
        "{\"password\": \"Password 1\"}",
        "password: 'Must contain P4ssw0rd rules'",
        "url = \"&password=\" + getX1y2() + \"&user=\"",
        "token: \"expected 3 args in xK9 eZ0qypTn\"",
        "@IBOutlet var password: UITextField!",
        "var password: NSString!",
        "pw: required!",
        "t(\"password\", \"PostgreSQL 16\")",
    ]);
}

#[test]
fn m16_a_hash_of_a_password_is_redacted() {
    check_redacted(&[
        "root:«$6${A16}${A86}»:19000:0:99999:7:::",
        "root:«$6$rounds=5000${A8}${A86}»:19000",
        "me:«$5${A8}${A43}»",
        "me:«$1${A8}${A22}»:x",
        "me:«$y$j9T${A22}${A43}»:19000",
        "admin:«$apr1${A8}${A22}»",
        "admin:«$2y$05${A53}»",
        "hash «$2b$12${A53}», ok",
        "\"«$2a$10${A53}»\"",
        "admin:$«$2y$$05$${A53}»",
        "«$argon2id$v=19$m=65536,t=3,p=4${A22}${A43}»",
        "\"«$argon2i$m=4096,t=3,p=1${A22}${A43}»\"",
        "«$pbkdf2-sha256$29000${A22}${A43}»",
        "«pbkdf2_sha256$600000${A22}${A43}=»",
    ]);
    let hash = RandomSource::new(SEED).fill_template("{A32}");
    assert_eq!(redact(&format!("x: {{SSHA}}{hash}=")), "x: [redacted]");
    check_unchanged(&[
        "$1$2 and $6$",
        "echo $1$5$HOME",
        "hash: argon2id",
        "$argon2id$ is a prefix",
        "bcrypt hashes begin with $2b$12$",
        "s/a\\(b\\)/$1$2$3/",
    ]);
}

#[test]
fn m16_a_token_that_marks_interrupt_is_redacted() {
    check_redacted(&[
        "the «ghp_**{A10}**{A26}» there",
        "the «ghp_{A10}**{A10}**{A16}» there",
        "«ghp___{A10}__{A26}»",
        "«gh`p_`{A36}»",
        "(«AKIA`{x8}`{x8}»)",
        "x\n«sk-ant-api03-**{A40}**{A53}»\n**bold**",
        "token «hvs.`{A12}`{A16}», and «npm_*{A6}*{A30}».",
    ]);
    check_unchanged(&[
        "hf_transformers__configuration2 and npm_run__build_all_of_the_packages",
        "a**b**c `x`y **bold**text, `sk-`prefix__of__keys",
        "ghp_**token**",
        "x = a**2*b**3; user__profile__id = 1",
        "self.__init__(sk_**kwargs)",
    ]);
    let key = "ghp_**aB3dE5gH\u{200b}aB3dE5gH**7jK9mN1pQ2rS4tU6vW8x";
    assert_eq!(redact(&format!("é {key} é")), "é [redacted] é");
}

#[test]
fn classes_in_words_are_expanded() {
    assert_eq!(rule_set::expand_classes("a[bc]d[ef]"), ["abde", "abdf", "acde", "acdf"]);
    assert_eq!(rule_set::expand_classes("plain"), ["plain"]);
}
