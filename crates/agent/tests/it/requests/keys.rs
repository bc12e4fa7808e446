//! Tests of access keys: each key authenticates one user, and only its hash is stored.

use agent::{AdminError, Error};
use protocol::OwnerScope;

use crate::environment::TestEnvironment;

#[tokio::test]
async fn k2_a_key_authenticates_its_user_until_it_is_revoked() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let alice = "alice".parse().unwrap();
    let (key, secret) = agent.admin().create_key(&alice, Some("laptop".to_owned())).await.unwrap();
    assert!(secret.starts_with(&key.key_id) && secret.len() > 70, "{secret}");
    assert_eq!(agent.admin().authenticate_key(&secret).await.unwrap().as_ref(), Some(&key));
    assert_eq!(key.user_id, alice);
    assert!(agent.admin().is_key_valid(&key.key_id).await.unwrap());
    let (other, _) = agent.admin().create_key(&"bob".parse().unwrap(), None).await.unwrap();
    let listed = agent.admin().keys().await.unwrap();
    assert_eq!(listed, [key.clone(), other]);
    assert!(
        !format!("{listed:?}").contains(&secret[key.key_id.len() + 1..]),
        "only the hash of a key is stored"
    );
    let forged = format!("{}{}", &secret[..secret.len() - 1], if secret.ends_with('0') { '1' } else { '0' });
    for wrong in ["", "segue_", key.key_id.as_str(), &forged, &secret.to_uppercase()] {
        assert_eq!(agent.admin().authenticate_key(wrong).await.unwrap(), None, "{wrong}");
    }
    agent.admin().revoke_key(&key.key_id).await.unwrap();
    assert_eq!(agent.admin().authenticate_key(&secret).await.unwrap(), None);
    assert!(!agent.admin().is_key_valid(&key.key_id).await.unwrap());
    let revoked = agent.admin().keys().await.unwrap().remove(0).revoked_at;
    agent.admin().revoke_key(&key.key_id).await.unwrap();
    assert_eq!(
        agent.admin().keys().await.unwrap()[0].revoked_at,
        revoked,
        "a second revocation keeps the time of the first"
    );
    let unknown = agent.admin().revoke_key("segue_0000000000000000").await;
    assert!(matches!(unknown, Err(Error::Admin(AdminError::UnknownKey(_)))), "{unknown:?}");
}

#[tokio::test]
async fn k1_a_user_cannot_manage_keys() {
    let environment = TestEnvironment::new();
    let alice = "alice".parse().unwrap();
    let agent = environment.agent().scoped(OwnerScope::Owner(Some(alice)));
    let refused = [
        agent.admin().create_key(&"alice".parse().unwrap(), None).await.map(drop),
        agent.admin().keys().await.map(drop),
        agent.admin().revoke_key("segue_0000000000000000").await,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::Admin(AdminError::KeysDenied))), "{refused:?}");
    }
}
