//! Texts that look as if they had secrets and have none: hashes, ids, paths, images, lock files, code, documentation.

use crate::random::RandomSource;

/// Templates of lines with random values that are no secrets, in the fields of [`RandomSource::fill_template`].
const RANDOM_LINES: &[&str] = &[
    "commit {h40}",
    "Merge: {h7} {h7}",
    "index {h7}..{h7} 100644",
    "tree {h40}\nparent {h40}\nauthor A <a@b.test> 1700000000 +0000",
    "{h40} refs/heads/main",
    "git checkout {h12}",
    "{h64}  target/release/app.tar.gz",
    "sha256:{h64}",
    "image: registry.test/app@sha256:{h64}",
    "FROM rust:1.95@sha256:{h64}",
    "md5 {h32}",
    "ETag: \"{h32}\"",
    "etag = W/\"{A27}\"",
    "checksum = \"{h64}\"",
    "\"integrity\": \"sha512-{b86}==\",",
    "  resolved \"https://registry.test/x/-/x-1.2.3.tgz#{h40}\"",
    "  integrity sha512-{b86}==",
    "github.com/acme/x v1.2.3 h1:{b43}=",
    "github.com/acme/x v1.2.3/go.mod h1:{b43}=",
    "    --hash=sha256:{h64} \\",
    "    {file = \"x-1.2.3-py3-none-any.whl\", hash = \"sha256:{h64}\"},",
    "source = \"git+https://git.acme.test/x?rev={h7}#{h40}\"",
    "integrity=\"sha384-{b64}\" crossorigin=\"anonymous\"",
    "data:image/png;base64,iVBORw0KGgo{b400}",
    "<img src=\"data:image/jpeg;base64,/9j/4AAQ{b600}\">",
    "url(data:font/woff2;base64,d09GMgAB{b500})",
    "{\"type\": \"image\", \"source\": {\"media_type\": \"image/png\", \"data\": \"iVBORw0KGgo{b800}\"}}",
    "thread {U} has a run",
    "run_id={U} thread_id={U}",
    "{\"id\": \"{U}\", \"handoff_id\": \"{U}\", \"seq\": {d3}}",
    "GET /api/threads/{U}/runs/{U} 200 12ms",
    "request_id: {U}",
    "x-request-id: {h32}",
    "traceparent: 00-{h32}-{h16}-01",
    "trace_id={h32} span_id={h16}",
    "call_{A24} returned 3 rows",
    "toolu_{A22}",
    "msg_{A24} ended with end_turn",
    "chatcmpl-{A29}",
    "{\"tool_call_id\": \"call_{A24}\", \"name\": \"bash\"}",
    "/srv/app/.cache/{h16}/{h40}/out.json",
    "/tmp/build-{A8}/src/main.rs:{d3}:{d2}",
    "target/debug/deps/segue-{h16}.d",
    "node_modules/.cache/{h32}.js",
    "/nix/store/{a32}-hello-2.12.1/bin/hello",
    "s3://bucket/2026/01/{U}/part-00000-{h32}.parquet",
    "https://cdn.test/assets/index-{A8}.js",
    "https://example.test/watch?v={w11}&list={w34}",
    "blob:https://app.test/{U}",
    "object {h40} is 12 bytes",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} me@host",
    "SHA256:{b43} me@host (ED25519)",
    "-----BEGIN CERTIFICATE-----\n{b64}\n{b64}\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\n{b64}\n{b40}\n-----END PUBLIC KEY-----",
    "0x{h40} sent 3 tokens",
    "mac {h2}:{h2}:{h2}:{h2}:{h2}:{h2}",
    "pod api-7d9f{h4}-{a5} restarted",
    "arn:aws:iam::{d12}:role/app-{d4}",
    "cache key: deps-linux-{h64}",
    "key: cargo-${{ hashFiles('Cargo.lock') }}-{h8}",
    "\"cacheKey\": \"{h32}\"",
    "primary_key = '{U}'",
    "\"key\": \"{h40}\"",
    "key={h16}",
    "sort_key: {A12}#2026-01-{d2}",
    "next_page_token: {A24}",
    "\"nextPageToken\": \"{b30}\"",
    "idempotency_key: {U}",
    "max_tokens: {d4}",
    "\"prompt_tokens\": {d4}, \"completion_tokens\": {d3}, \"total_tokens\": {d5}",
    "tokens: {d5} (of 200000)",
    "used {d5} tokens in {d2}.{d1} s",
    "token_count={d5}",
    "0 passed; {d2} failed; key metrics follow",
    "[{d10}.{d3}] app: started",
    "2026-01-{d2}T12:{d2}:{d2}.{d6}Z INFO handled request",
    "#{h6}",
    "color: #{h6}; background: #{h8};",
    "M{d2} {d2}L{d3} {d2}Z",
    "Content-Length: {d6}",
    "nonce-{b22}==",
    "-rw-r--r-- 1 me me {d6} Jan {d2} 12:00 token.rs",
    "{h8}: 55 48 89 e5 48 83 ec 10",
    "uuid = \"{U}\"",
    "build {h7} ({d4}-{d2}-{d2})",
    "password_reset_at: 2026-01-{d2}T00:00:00Z",
    "secret_version: projects/{d9}/secrets/db/versions/{d1}",
    "token_id={U}",
    "api_key_id: {A20}",
    "public_key: {b43}=",
    "\"fingerprint\": \"{H2}:{H2}:{H2}:{H2}\"",
    "csrf_token_name: _csrf_{d3}",
    "/srv/app/{h40}.json",
    "/static/{A20}.js",
    "/var/backups/{A24}.env.gz",
    "{w11}.{w6}.{w27}.map",
    "cpe:2.3:a:acme:app:{d1}.{d2}:*:*:*:*:node.js:*:*",
    "ports: 127.0.0.1:5432:5432",
    "src/lib.rs:5432:10: error: mismatched types",
    "mkdir -p /tmp/{A12}",
    "docker run -p 8{d3}:80 -u 1000:1000 nginx",
    "docker login registry.test && mkdir -p data{d3}",
    "mysql -P 3{d3} -h db -p",
    "redis-cli -p 6{d3} ping",
    "curl -b cookies{d2}.txt https://api.test",
    "Cookie: theme=dark{d1}; lang=de",
    "ssh -p 2{d3} host",
    "ps -p {d5}",
    "AC{h32} sent 2 messages",
    "{b64}\n{b64}\n-----END CERTIFICATE-----",
    "{b64}\n{b40}\n-----END PUBLIC KEY-----",
    "the build {h32} failed\n-----END PRIVATE KEY-----",
];

/// Lines about tokens, keys and passwords without a secret. `N` stands for a name of a secret, `W` for a word.
const PROSE_LINES: &[&str] = &[
    "The N is stored in the W.",
    "The N is required.",
    "Rotate the N every 90 days.",
    "N: required",
    "N: string",
    "N: String,",
    "N?: string;",
    "N: Option<String>,",
    "N: &str) -> Result<(), Error> {",
    "N = os.environ[\"N\"]",
    "N = os.getenv(\"N\")",
    "N: process.env.N,",
    "const N = process.env.N;",
    "N=$N",
    "N=${N}",
    "N: ${{ secrets.N }}",
    "N: {{ vault_N }}",
    "N = config.N",
    "N = self.N",
    "connect(host=host, N=N, port=5432)",
    "login(user, N=W.N)",
    "N = getpass.getpass()",
    "N = input(\"N: \")",
    "if N == None:",
    "if (!N) throw new Error('N missing');",
    "let N = read_N(&W)?;",
    "let N = W.N.clone();",
    "def check_N(N: str) -> bool:",
    "fn parse_N(text: &str) -> Option<N> {",
    "\"N\": null,",
    "\"N\": \"\",",
    "\"N\": true,",
    "\"N\": {\"type\": \"string\"},",
    "N=",
    "N=<your N>",
    "N=your_N_here",
    "N: xxxxxxxxxxxxxxxx",
    "N=********",
    "N: \"********\"",
    "N=changeme",
    "N: <redacted>",
    "N=[redacted]",
    "export N=...",
    "--N <VALUE>  the N to use",
    "pass the N with --N",
    "the N for W is missing",
    "error: invalid N for W",
    "401 Unauthorized: bad N",
    "What is the N? It is in the W.",
    "N is not the same as W",
    "N is optional and W is not",
    "the N is wrong; use another W",
    "N_file: /run/secrets/W",
    "N-file = /etc/app/W.txt",
    "N_path=./config/W.json",
    "cat ~/.config/W/N",
    "src/W/N.rs",
    "rename N to W_N in src/W.rs",
    "N.split(\".\")",
    "N.len() > 0",
    "assert_eq!(N, W);",
    "SELECT N FROM W WHERE id = 1",
    "N VARCHAR(255) NOT NULL,",
    "// N: see W.md",
    "# the N comes from W",
    "test_N_is_redacted ... ok",
    "N_type: oauth2",
    "N hash: argon2id",
    "N_algorithm = sha256",
    "Enter N:",
    "Passwort vergessen?",
    "Das Passwort ist falsch.",
    "password is case-sensitive",
    "password is at least 12 characters long",
    "Bearer token authentication",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer ${TOKEN}",
    "Authorization: Basic <credentials>",
    "use basic authentication for W",
    "Cookie: theme=dark; lang=de",
    "Cookie: <session>",
    "postgres://USER:<password>@HOST/DB",
    "https://$USER:$TOKEN@git.acme.test/W.git",
    "https://git.acme.test:8443/W",
    "ssh://git@git.acme.test:22/W.git",
    "docker run -u 1000:1000 W",
    "curl -u \"$USER:$N\" https://api.test",
    "sk-learn and task-runner-with-a-long-name",
    "pk_customer_orders_history",
    "CONSTRAINT pk_user_accounts_archive PRIMARY KEY (id)",
    "if text.starts_with(\"-----BEGIN RSA PRIVATE KEY-----\") { return N; }",
    "a PEM file begins with -----BEGIN PRIVATE KEY----- and is W",
    "xoxb-your-token-here",
    "press any key: the W",
    "key: value",
    "key: W-2",
    "keyboard shortcuts for W",
    "monkey patching the W",
    "{\"key\": \"ArrowDown\", \"code\": \"KeyW\"}",
    "author: W <w@example.test>",
    "authority = W.example.test",
    "the lexer returns Token::Ident(W)",
    "let token = tokens.next();",
    "token = Token(kind=IDENT, value=W)",
    "expected token `}` but found `W`",
    "passed: 12, failed: 0",
    "compass = W",
    "bypass: W",
    "secretary: W Miller",
    "the secret of W is practice",
    "auth: W",
    "auth: basic",
    "auth_method = password",
    "grant_type=password",
    "type=\"password\" name=\"W\"",
    "<input type=\"password\" placeholder=\"Password\">",
    "\"password\": \"Passwort\",",
    "\"api_key\": \"API-Schlüssel\",",
    "the password is stored.",
    "the password is required, and N too",
    "The password is correct.",
    "The password was rejected.",
    "the password should be long",
    "password is optional",
    "password is not set",
    "use password authentication for W",
    "with password protection and a N",
    "the password is different.",
    "Das Passwort ist korrekt.",
    "mysql -u root -p W",
    "mysql -p$N",
    "docker login -u me -p $N",
    "echo $N | docker login --password-stdin",
    "redis-cli -a \"$N\" ping",
    "  -p, --password string   the N",
    "--token string  the N",
    "--api-key=<N>",
    "curl -u me: https://W.test",
    "sshpass -e ssh W",
    "login form with password field",
    "the login page password reset",
    "machine learning for W",
    "host:5432:database:username:password",
    "localhost:5432:W:W:$PGPASSWORD",
    "Authorization: Basic auth is off",
    "Authorization: Bearer token required",
    "Authorization: Basic <base64>",
    "WWW-Authenticate: Basic realm=\"W\"",
    "authorization: RBAC",
    "the cookie: a small file",
    "Cookie: name=value",
    "Cookie: sessionid=<id>",
    "cookie = session_id=request.session_id1",
    "keys/W.json and secrets/N.yml",
    "https://user:pass@host/W",
    "CREATE USER W IDENTIFIED BY '<N>'",
    "openssl rsa -passin env:N",
    "requirepass <password>",
    "variable \"N\" {\n  type = string\n}",
    "if line == \"-----END PRIVATE KEY-----\" { return N; }",
];

/// Names of secrets in code and documentation.
const NAMES: &[&str] = &[
    "password",
    "token",
    "api_key",
    "API_KEY",
    "secret",
    "access_token",
    "client_secret",
    "DB_PASSWORD",
    "apiKey",
    "AUTH_TOKEN",
    "private_key",
    "credentials",
    "SECRET_KEY",
    "refresh_token",
    "passphrase",
];
/// Words of code and documentation.
const WORDS: &[&str] = &[
    "config",
    "vault",
    "session",
    "database",
    "settings",
    "client",
    "storage",
    "manager",
    "request",
    "deploy",
    "backend",
    "production",
    "environment",
    "browser",
    "keychain",
];

/// Returns `count` texts without a secret.
#[must_use]
pub fn harmless_texts(seed: u64, count: usize) -> Vec<String> {
    let mut random = RandomSource::new(seed);
    let mut texts = Vec::with_capacity(count);
    for index in 0..count {
        let text = match index % 2 {
            0 => {
                let line = RANDOM_LINES[(index / 2) % RANDOM_LINES.len()];
                fill_line(&mut random, line)
            }
            _ => {
                let line = PROSE_LINES[(index / 2) % PROSE_LINES.len()];
                let (name, word) = (random.choose(NAMES), random.choose(WORDS));
                replace_markers(line, name, word)
            }
        };
        texts.push(text);
    }
    texts
}

/// Fills the fields of a line. Braces that are no field, as in JSON, stay.
fn fill_line(random: &mut RandomSource, line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        let field = rest[start + 1..].split('}').next().unwrap_or_default();
        let is_field = field == "U"
            || field.len() > 1
                && field.starts_with(|c: char| c.is_ascii_alphabetic())
                && field[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if is_field {
            text.push_str(&random.fill_template(&format!("{{{field}}}")));
            rest = &rest[start + field.len() + 2..];
        } else {
            text.push('{');
            rest = &rest[start + 1..];
        }
    }
    text + rest
}

/// Replaces the markers of a line that stand alone: `N` by the name, `W` by the word.
fn replace_markers(line: &str, name: &str, word: &str) -> String {
    let mut text = String::new();
    let characters: Vec<char> = line.chars().collect();
    for (index, character) in characters.iter().enumerate() {
        let is_letter = |offset: Option<usize>| {
            offset.and_then(|offset| characters.get(offset)).is_some_and(|c| c.is_ascii_alphabetic())
        };
        let is_alone = !is_letter(index.checked_sub(1)) && !is_letter(Some(index + 1));
        match character {
            'N' if is_alone => text.push_str(name),
            'W' if is_alone => text.push_str(word),
            _ => text.push(*character),
        }
    }
    text
}
