//! The keys of the users of a server: made, listed, revoked, and who has which. A key is shown once, when it is made; what
//! is kept is its hash.

use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{ApiKey, Scope, UserId};

use crate::agent::services::AdminService;
use crate::{AdminError, Error, Result};

/// What every key begins with, so that one that leaked is known for what it is.
const PREFIX: &str = "segue_";

/// Bytes of the public part.
const ID_BYTES: usize = 8;

/// Bytes of the secret part.
const SECRET_BYTES: usize = 32;

/// The most bytes of a key's label.
pub(crate) const LABEL_BYTES_MAX: usize = 200;

impl AdminService<'_> {
    /// Makes a key for a user, who need not be known before; the second part is the key itself, which nothing keeps.
    ///
    /// # Errors
    /// [`AdminError::KeysDenied`] for anybody but the person at the machine. When the label is too long, the system has no
    /// randomness, or the journal fails.
    pub async fn create_key(self, user: &UserId, label: Option<String>) -> Result<(ApiKey, String)> {
        self.check_manages_keys()?;
        let label: Option<String> =
            label.map(|label| label.chars().filter(|char| !char.is_control()).collect());
        if label.as_ref().is_some_and(|label| label.len() > LABEL_BYTES_MAX) {
            return Err(AdminError::LabelTooLong.into());
        }
        let key_id = format!("{PREFIX}{}", protocol::hex(&random::<ID_BYTES>()?));
        let shown = format!("{key_id}_{}", protocol::hex(&random::<SECRET_BYTES>()?));
        let key = ApiKey {
            key_id,
            user_id: user.clone(),
            label,
            sha256: digest(&shown),
            created_at: Timestamp::now(),
            revoked_at: None,
        };
        let writes = vec![Write::PutKey(key.clone())];
        self.agent.journal.commit(Transaction { fence: None, writes }).await?;
        Ok((key, shown))
    }

    /// Returns all keys, oldest first, those that were revoked too.
    ///
    /// # Errors
    /// [`AdminError::KeysDenied`] for anybody but the person at the machine; when the journal fails.
    pub async fn keys(self) -> Result<Vec<ApiKey>> {
        self.check_manages_keys()?;
        Ok(self.agent.journal.keys().await?)
    }

    /// Revokes the key with that public part; one that was revoked before stays as it is.
    ///
    /// # Errors
    /// [`AdminError::UnknownKey`] when there is none; [`AdminError::KeysDenied`] for anybody but the person at the machine; when the
    /// journal fails.
    pub async fn revoke_key(self, key_id: &str) -> Result<()> {
        self.check_manages_keys()?;
        let writes = vec![Write::RevokeKey { key_id: key_id.to_owned(), at: Timestamp::now() }];
        match self.agent.journal.commit(Transaction { fence: None, writes }).await {
            Err(journal::Error::NotFound { .. }) => Err(AdminError::UnknownKey(key_id.to_owned()).into()),
            committed => committed.map(drop).map_err(Error::from),
        }
    }

    /// Returns the key that is shown; `None` for what is no key, or one that was revoked.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn key_of(self, shown: &str) -> Result<Option<ApiKey>> {
        let Some(key_id) = public_part(shown) else { return Ok(None) };
        let found = self.valid_key(key_id).await?;
        Ok(found.filter(|key| is_same(&key.sha256, &digest(shown))))
    }

    /// Returns whether the key with that public part still lets its user in.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn is_key_valid(self, key_id: &str) -> Result<bool> {
        Ok(self.valid_key(key_id).await?.is_some())
    }

    async fn valid_key(self, key_id: &str) -> Result<Option<ApiKey>> {
        Ok(self.agent.journal.key(key_id).await?.filter(|key| key.revoked_at.is_none()))
    }

    fn check_manages_keys(self) -> Result<()> {
        match self.agent.scope {
            Scope::Owner(None) | Scope::Everyone => Ok(()),
            Scope::Owner(Some(_)) => Err(AdminError::KeysDenied.into()),
        }
    }
}

/// Returns the public part of what looks like a key.
fn public_part(shown: &str) -> Option<&str> {
    let (key_id, secret) = shown.rsplit_once('_')?;
    let is_hex = |text: &str, bytes: usize| {
        text.len() == 2 * bytes
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_key = is_hex(key_id.strip_prefix(PREFIX)?, ID_BYTES) && is_hex(secret, SECRET_BYTES);
    is_key.then_some(key_id)
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| AdminError::NoRandomness(error.to_string()))?;
    Ok(bytes)
}

fn digest(shown: &str) -> String {
    protocol::sha256_hex(shown)
}

/// Compares without telling by its time where the two differ.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k2_only_what_looks_like_a_key_is_looked_up() {
        let (id, secret) = ("0123456789abcdef", "ab".repeat(SECRET_BYTES));
        assert_eq!(public_part(&format!("segue_{id}_{secret}")), Some("segue_0123456789abcdef"));
        for other in [
            "",
            "_",
            "segue_",
            &format!("segue_{id}"),
            &format!("other_{id}_{secret}"),
            &format!("segue_{id}_{}", secret.to_uppercase()),
            &format!("segue_{id}_{secret}00"),
            &format!("segue_{}_{secret}", "z".repeat(16)),
        ] {
            assert_eq!(public_part(other), None, "{other}");
        }
        assert!(is_same("ab", "ab") && !is_same("ab", "ac") && !is_same("ab", "abc"));
    }
}
