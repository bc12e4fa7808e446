//! API keys of a server's users: creating, listing, revoking and authenticating them. A key is shown once,
//! when it is created; only its hash is stored.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{ApiKey, OwnerScope, UserId};

use crate::{AdminError, AdminService, Error, Result};

/// The prefix of every key, by which people and secret scanners recognise a leaked one.
const KEY_PREFIX: &str = "segue_";

/// Bytes of the public part, which identifies the key.
const ID_BYTES: usize = 8;

/// Bytes of the secret part. Its 256 bits make an unsalted hash sufficient.
const SECRET_BYTES: usize = 32;

/// The most bytes of a key's label.
pub(crate) const LABEL_BYTES_MAX: usize = 200;

impl<'a> AdminService<'a> {
    /// Creates a key for a user, who need not exist before. Returns the stored key and the key text, which is
    /// stored nowhere.
    ///
    /// Control characters are removed from the label.
    ///
    /// # Errors
    /// [`AdminError::KeysDenied`] for every caller but the person at the machine.
    /// [`AdminError::LabelTooLong`] over `LABEL_BYTES_MAX` bytes, [`AdminError::NoRandomness`] if the
    /// system's generator fails, and journal errors.
    pub fn create_key(
        self,
        user: &'a UserId,
        label: Option<String>,
    ) -> BoxFuture<'a, Result<(ApiKey, String)>> {
        journal::box_future(async move {
            self.check_may_manage_keys()?;
            let label: Option<String> =
                label.map(|label| label.chars().filter(|char| !char.is_control()).collect());
            if label.as_ref().is_some_and(|label| label.len() > LABEL_BYTES_MAX) {
                return Err(AdminError::LabelTooLong.into());
            }
            let key_id = format!("{KEY_PREFIX}{}", protocol::hex(&random_bytes::<ID_BYTES>()?));
            let key_text = format!("{key_id}_{}", protocol::hex(&random_bytes::<SECRET_BYTES>()?));
            let key = ApiKey {
                key_id,
                user_id: user.clone(),
                label,
                sha256: key_digest(&key_text),
                created_at: Timestamp::now(),
                revoked_at: None,
            };
            let writes = vec![Write::PutApiKey(key.clone())];
            self.agent.journal.commit(Transaction { fence: None, writes }).await?;
            Ok((key, key_text))
        })
    }

    /// Returns all keys, oldest first, including revoked ones.
    ///
    /// # Errors
    /// [`AdminError::KeysDenied`] for every caller but the person at the machine; journal errors.
    pub fn keys(self) -> BoxFuture<'a, Result<Vec<ApiKey>>> {
        journal::box_future(async move {
            self.check_may_manage_keys()?;
            Ok(self.agent.journal.api_keys().await?)
        })
    }

    /// Revokes the key with that public part. A key that is already revoked keeps its time of revocation.
    ///
    /// # Errors
    /// [`AdminError::UnknownKey`] if no key has that public part, [`AdminError::KeysDenied`] for every caller
    /// but the person at the machine; journal errors.
    pub fn revoke_key(self, key_id: &'a str) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            self.check_may_manage_keys()?;
            let writes = vec![Write::RevokeApiKey { key_id: key_id.to_owned(), at: Timestamp::now() }];
            match self.agent.journal.commit(Transaction { fence: None, writes }).await {
                Err(journal::Error::NotFound { .. }) => Err(AdminError::UnknownKey(key_id.to_owned()).into()),
                committed => committed.map(drop).map_err(Error::from),
            }
        })
    }

    /// Returns the stored key that the presented key text belongs to. `None` for text that is not a key, and
    /// for an unknown or revoked key.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn authenticate_key(self, key_text: &'a str) -> BoxFuture<'a, Result<Option<ApiKey>>> {
        journal::box_future(async move {
            let Some(key_id) = parse_key_id(key_text) else { return Ok(None) };
            let key = self.unrevoked_key(key_id).await?;
            Ok(key.filter(|key| is_equal_in_constant_time(&key.sha256, &key_digest(key_text))))
        })
    }

    /// Returns whether the key with that public part is still valid, which means that it exists and is not
    /// revoked.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn is_key_valid(self, key_id: &'a str) -> BoxFuture<'a, Result<bool>> {
        journal::box_future(async move { Ok(self.unrevoked_key(key_id).await?.is_some()) })
    }

    /// Returns the stored key with that public part, unless it is revoked.
    async fn unrevoked_key(self, key_id: &str) -> Result<Option<ApiKey>> {
        Ok(self.agent.journal.api_key(key_id).await?.filter(|key| key.revoked_at.is_none()))
    }

    /// Checks that the caller is the person at the machine, who alone manages keys.
    fn check_may_manage_keys(self) -> Result<()> {
        match self.agent.scope {
            OwnerScope::Owner(None) | OwnerScope::Everyone => Ok(()),
            OwnerScope::Owner(Some(_)) => Err(AdminError::KeysDenied.into()),
        }
    }
}

/// Returns the public part of a text that has the form of a key, `segue_<id>_<secret>`; `None` for any other
/// text.
fn parse_key_id(key_text: &str) -> Option<&str> {
    let (key_id, secret) = key_text.rsplit_once('_')?;
    let is_hex = |text: &str, bytes: usize| {
        text.len() == 2 * bytes
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_key = is_hex(key_id.strip_prefix(KEY_PREFIX)?, ID_BYTES) && is_hex(secret, SECRET_BYTES);
    is_key.then_some(key_id)
}

/// Returns random bytes of the operating system.
fn random_bytes<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| AdminError::NoRandomness(error.to_string()))?;
    Ok(bytes)
}

/// Returns the hash under which a key is stored.
fn key_digest(key_text: &str) -> String {
    protocol::sha256_hex(key_text)
}

/// Compares two strings in a time that does not depend on the position of the first difference, so that the
/// time reveals nothing about the stored hash.
fn is_equal_in_constant_time(left: &str, right: &str) -> bool {
    left.len() == right.len() && left.bytes().zip(right.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k2_only_text_in_the_form_of_a_key_is_looked_up() {
        let (id, secret) = ("0123456789abcdef", "ab".repeat(SECRET_BYTES));
        assert_eq!(parse_key_id(&format!("segue_{id}_{secret}")), Some("segue_0123456789abcdef"));
        for not_a_key in [
            "",
            "_",
            "segue_",
            &format!("segue_{id}"),
            &format!("other_{id}_{secret}"),
            &format!("segue_{id}_{}", secret.to_uppercase()),
            &format!("segue_{id}_{secret}00"),
            &format!("segue_{}_{secret}", "z".repeat(16)),
        ] {
            assert_eq!(parse_key_id(not_a_key), None, "{not_a_key}");
        }
        assert!(
            is_equal_in_constant_time("ab", "ab")
                && !is_equal_in_constant_time("ab", "ac")
                && !is_equal_in_constant_time("ab", "abc")
        );
    }
}
