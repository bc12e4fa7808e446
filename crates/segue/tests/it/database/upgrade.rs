//! Upgrades: this version opens the homes that earlier versions wrote, on SQLite and PostgreSQL, and loses nothing. A
//! database of a later version is refused and not changed.
//!
//! `upgrade/VERSION/ENGINE` holds the home of a released version, and the expected output of commands in it. A fixture is
//! written by that version with `cargo xtask upgrade-fixture` and never changed afterwards.

mod fixture;
mod newer;
mod recipe;
mod use_home;

use test_postgres::TestDatabase;

use super::address::connect_postgres;
use crate::sandbox::TestSandbox;
use fixture::{DatabaseEngine, UpgradeFixture};

/// A home in a sandbox, with its database.
pub struct SandboxedHome {
    pub sandbox: TestSandbox,
    /// The database of the home; `None` if it is in a file.
    pub database: Option<TestDatabase>,
}

impl SandboxedHome {
    /// Returns a sandbox without a home, and an empty database of the engine.
    pub fn empty(engine: DatabaseEngine) -> Self {
        let mut sandbox = TestSandbox::new().with_file_database();
        let database = match engine {
            DatabaseEngine::Sqlite => None,
            DatabaseEngine::Postgres => Some(TestDatabase::create().unwrap()),
        };
        if let Some(database) = &database {
            sandbox.set_variable("SEGUE_DATABASE_URL", &database.socket_url());
        }
        Self { sandbox, database }
    }

    /// Unpacks a fixture.
    pub fn restore(fixture: &UpgradeFixture) -> Self {
        let home = Self::empty(fixture.engine);
        fixture.unpack_home(&home.sandbox);
        if let Some(database) = &home.database {
            connect_postgres(&database.socket_url()).batch_execute(&fixture.database_sql()).unwrap();
        }
        home
    }
}

fn check_versions(engine: DatabaseEngine) {
    let versions = fixture::versions();
    assert_eq!(versions[0], "0.1.0", "{versions:?}");
    for version in versions {
        let fixture = UpgradeFixture::of_version(&version, engine);
        use_home::check_home(SandboxedHome::restore(&fixture), &fixture.manifest());
    }
}

#[test]
fn a23_c9_homes_of_all_versions_lose_nothing_on_sqlite() {
    check_versions(DatabaseEngine::Sqlite);
}

#[test]
fn a23_c9_homes_of_all_versions_lose_nothing_on_postgresql() {
    check_versions(DatabaseEngine::Postgres);
}

/// Writes a home with this version and checks it like those of earlier versions, so that the recipe of the next fixture
/// works at any time. With [`fixture::WRITE_VARIABLE`], the home becomes the fixture of this version.
fn check_recipe(engine: DatabaseEngine) {
    let (home, manifest) = recipe::write_home(engine);
    if std::env::var_os(fixture::WRITE_VARIABLE).is_some() {
        UpgradeFixture::of_version(env!("CARGO_PKG_VERSION"), engine).write(&home, &manifest);
    }
    use_home::check_home(home, &manifest);
}

#[test]
fn a_home_of_this_version_has_everything_that_an_upgrade_must_keep_on_sqlite() {
    check_recipe(DatabaseEngine::Sqlite);
}

#[test]
fn a_home_of_this_version_has_everything_that_an_upgrade_must_keep_on_postgresql() {
    check_recipe(DatabaseEngine::Postgres);
}
