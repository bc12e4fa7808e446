//! Where a server keeps everything: a folder, and a database where what happens is to be on one.

use std::path::Path;

use agent::{Database, Home};
use tempfile::TempDir;

/// The file that has the database's URL; servers in other processes read it, too.
const URL: &str = "database-url";

/// A folder that is gone at the end.
pub struct Folder {
    folder: TempDir,
    _database: Option<test_postgres::Database>,
}

impl Folder {
    /// Makes one.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = test_postgres::Database::where_wanted().unwrap();
        if let Some(database) = &database {
            std::fs::write(folder.path().join(URL), database.socket_url()).unwrap();
        }
        Self { folder, _database: database }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Returns the home in the folder.
pub fn home(folder: &Path) -> Home {
    Home::locate(Some(folder.join("home").as_os_str())).unwrap()
}

/// Returns the database that the folder names; without one, what happens is kept in the home.
pub fn database(folder: &Path) -> Option<Database> {
    let url = std::fs::read_to_string(folder.join(URL)).ok()?;
    Some(url.parse().unwrap())
}
