//! Places a secret in a text: a line of a configuration, code, a command, a sentence.

use crate::formats::{Placement, SecretFormat};
use crate::random::RandomSource;

/// Texts around a secret that is recognized by itself. `{}` stands for the secret.
const BARE: &[&str] = &[
    "export VALUE={}",
    "I pasted {} into the form.",
    "  \"value\": \"{}\",",
    "see ({}) in the log",
    "'{}'",
    "- {}",
    "It was {}, which I revoked.",
    "{\\\"text\\\": \\\"{}\\\"}",
    "first line\n{}\nlast line",
    "curl https://api.test/v1 -H 'Authorization: Bearer {}'",
    "`{}`",
    "the new one is {}",
    "cat keys/{}.json",
    "rm /tmp/{}.env",
    "see {}.txt: it has the key",
    "docs/{}/notes.md",
    "mv backup-{}.yml old",
    "https://api.test/{}?page=2#top",
    "https://api.test/x?key={}&page=2",
];

/// Texts around a secret that its name announces. `N` stands for the name and `{}` for the secret.
const NAMED: &[&str] = &[
    "N={}",
    "export N={}",
    "N: {}",
    "\"N\": \"{}\",",
    "const N = \"{}\";",
    "N = '{}'",
    "  - name: x\n    N: \"{}\"",
    "set N={} and restart",
    "{\"N\":\"{}\",\"mode\":\"live\"}",
    "N := \"{}\"",
];

/// Returns a text with the secret. Samples of one format get different contexts.
pub fn place_secret(random: &mut RandomSource, format: &SecretFormat, secret: &str, index: usize) -> String {
    match format.placement {
        Placement::Bare => {
            let context = BARE[(index + random.below(BARE.len())) % BARE.len()];
            context.replace("{}", secret)
        }
        Placement::Named(name) => {
            let context = NAMED[(index + random.below(NAMED.len())) % NAMED.len()];
            context.replace('N', name).replace("{}", secret)
        }
        Placement::In(contexts) => {
            contexts[(index + random.below(contexts.len())) % contexts.len()].replace("{}", secret)
        }
    }
}
