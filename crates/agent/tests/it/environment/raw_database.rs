//! Direct SQL access to the stored rows, without the agent.

use rusqlite::Connection;
use rusqlite::types::Value as Cell;

use super::TestEnvironment;

impl TestEnvironment {
    /// Executes SQL statements that return no rows.
    pub fn execute_sql(&self, sql: &str) {
        match &self.database {
            Some(database) => database.execute(sql).unwrap(),
            None => self.open_database().execute_batch(sql).unwrap(),
        }
    }

    /// Returns the rows of a query that selects one text column.
    pub fn query_texts(&self, sql: &str) -> Vec<String> {
        match &self.database {
            Some(database) => database.query_texts(sql).unwrap(),
            None => {
                let connection = self.open_database();
                let mut statement = connection.prepare(sql).unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
        }
    }

    /// Returns every row of every table as a text.
    pub fn all_rows(&self) -> Vec<String> {
        match &self.database {
            Some(database) => database.dump_rows().unwrap(),
            None => dump_rows(&self.open_database()),
        }
    }

    /// Opens the SQLite database of the home folder.
    fn open_database(&self) -> Connection {
        Connection::open(self.home().database_path()).unwrap()
    }
}

/// Returns every row of every table except virtual tables, as `TABLE: CELLS`.
fn dump_rows(connection: &Connection) -> Vec<String> {
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name")
        .unwrap();
    let names: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut rows = Vec::new();
    for name in names {
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
        let columns = statement.column_count();
        let mut results = statement.query([]).unwrap();
        while let Some(row) = results.next().unwrap() {
            let cells: Vec<Cell> = (0..columns).map(|index| row.get(index).unwrap()).collect();
            rows.push(format!("{name}: {cells:?}"));
        }
    }
    rows
}
