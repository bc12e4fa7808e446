//! The formats of secrets on command lines, in sentences, and in the files of tools.

use crate::formats::Placement::{Bare, In};
use crate::formats::{SecretFormat, format};

/// All formats of command lines, sentences and files.
pub const COMMAND_FORMATS: &[SecretFormat] = &[
    format("discord-bot", "MTk4NjIy{A18}.{w6}.{w27}", Bare),
    format("discord-bot-long", "OTk4NjIy{A18}.{w6}.{w38}", Bare),
    format("aws-session", "IQoJb3JpZ2luX2Vj{b200}", Bare),
    format("atlassian-long", "ATATT3xFfGF0{w180}={H8}", Bare),
    format("tailscale", "tskey-auth-{A12}-{A32}", Bare),
    format("google-refresh", "1//0{A60}", Bare),
    format(
        "mysql-option",
        "{p}",
        In(&[
            "mysql -p{} app",
            "mysql -u root -p'{}' -h db",
            "docker exec db mysqldump -uroot -p{} app > app.sql",
            "mysqladmin -u root -p{} status, then wait",
        ]),
    ),
    format(
        "login-option",
        "{p}",
        In(&[
            "docker login -u me -p {} registry.test",
            "podman login -p '{}' registry.test",
            "az login -u me -p {}",
            "mongodump -u me -p {} --out x",
            "helm registry login -u me -p \"{}\" registry.test",
        ]),
    ),
    format(
        "client-option",
        "{p}",
        In(&[
            "redis-cli -h cache -a {} ping",
            "redis-cli -a '{}'",
            "ldapsearch -x -D cn=me -w {} -b dc=test",
            "sqlcmd -S db -U sa -P {}",
            "unzip -P {} x.zip",
            "openssl enc -aes-256-cbc -k {} -in x",
            "openssl rsa -in x -passin pass:{}",
            "keytool -list -storepass {} -keystore x",
            "smbclient //host/share -U me%{}",
            "lftp -u me,{} ftp.test",
            "curl \\\n  -u me:{} https://api.test",
            "curl --user=me:{} https://api.test",
            "http -a me:{} https://api.test",
        ]),
    ),
    format(
        "piped-password",
        "{p}",
        In(&[
            "echo {} | docker login -u me --password-stdin registry.test",
            "echo '{}' | sudo -S ls",
            "echo \"root:{}\" | chpasswd",
            "htpasswd -bc file me {}",
            "setx DB_PASSWORD \"{}\"",
            "ConvertTo-SecureString \"{}\" -AsPlainText -Force",
            "rabbitmqctl add_user me {}",
        ]),
    ),
    format(
        "sql-password",
        "{p}",
        In(&[
            "CREATE USER 'x'@'%' IDENTIFIED BY '{}';",
            "ALTER ROLE app PASSWORD '{}'",
            "create role app with password '{}'",
            "define('DB_PASSWORD', '{}');",
        ]),
    ),
    format(
        "file-password",
        "{p}",
        In(&[
            "db.test:5432:app:me:{}",
            "*:*:*:me:{}",
            "machine api.test login me account x password {}",
            "machine api.test\n  password {}\n  login me",
            "requirepass {}",
            "variable \"db_password\" {\n  default = \"{}\"\n}",
        ]),
    ),
    format(
        "sentence-password",
        "{l4}7{a8}",
        In(&[
            "the password was {}, I think",
            "I changed the password to {}.",
            "log in with password {} and go on",
            "my pass is {}",
            "pw: {}",
            "password (staging): {}",
            "credentials: admin / {}",
        ]),
    ),
    format(
        "header-in-a-sentence",
        "{A32}",
        In(&[
            "I sent Cookie: sessionid={} and got 401",
            "curl -b \"session={}; theme=dark\" https://api.test",
            "{\"Cookie\": \"sessionid={}\"}",
            "I sent Authorization: Bearer {} and got 401",
            "Authorization: Bot {}",
            "-H \"Authorization: {}\"",
            "I set X-Api-Key: {} as the page says",
            "X-Auth: {}",
        ]),
    ),
    format(
        "private-key-without-first-line",
        "{b64}\n{b64}\n{b43}=",
        In(&[
            "the log was cut\n{}\n-----END RSA PRIVATE KEY-----\nafter",
            "key: |\n{}\n-----END PRIVATE KEY-----",
        ]),
    ),
    format(
        "openssh-key-body",
        "b3BlbnNzaC1rZXktdjE{b51}\n{b70}\n{b70}\n{b58}==",
        In(&["the log was cut\n{}\nafter it", "{}", "```\n{}\n```"]),
    ),
    format(
        "spaced-password",
        "{A3} {A5}7q{l3}",
        In(&[
            "{\"password\": \"{}\"}",
            "password: \"{}\"",
            "DB_PASSWORD='{}'",
            "login --password \"{}\" --user me",
        ]),
    ),
    format(
        "exclaimed-password",
        "Zq{l2}XpWk{l2}!",
        In(&["pw: {}", "password: {}", "password: \"{}\"", "pwd: {}"]),
    ),
    format(
        "crypt-hash",
        "$6${A16}${A86}",
        In(&["root:{}:19000:0:99999:7:::", "usermod -p '{}' me", "hash = \"{}\""]),
    ),
    format("htpasswd-hash", "$apr1${A8}${A22}", In(&["admin:{}", "auth.users=me:{}", "me {}"])),
    format("bcrypt-hash", "$2b$12${A53}", In(&["{}", "me:{}", "hash: \"{}\"", "stored {}, as always"])),
    format(
        "argon2-hash",
        "$argon2id$v=19$m=65536,t=3,p=4${A22}${A43}",
        In(&["{}", "me:{}", "{\"hash\": \"{}\"}"]),
    ),
    format("interrupted-github", "ghp_**{A8}**{A28}", In(&["the {} there", "{}", "({})", "- {}, which"])),
    format("interrupted-vault", "hvs.`{A12}`{A16}", In(&["the {} there", "{}", "({})", "- {}, which"])),
];
