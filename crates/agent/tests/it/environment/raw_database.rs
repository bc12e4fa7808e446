//! Direct access to the stored rows, past the agent.

use rusqlite::Connection;
use rusqlite::types::Value as Cell;

use super::TestEnvironment;

impl TestEnvironment {
    /// Changes what is stored.
    pub fn execute_sql(&self, sql: &str) {
        match &self.database {
            Some(database) => database.execute(sql).unwrap(),
            None => self.open_database().execute_batch(sql).unwrap(),
        }
    }

    /// Returns what the database answers with, which is one text a row.
    pub fn query_texts(&self, sql: &str) -> Vec<String> {
        match &self.database {
            Some(database) => database.query_texts(sql).unwrap(),
            None => {
                let file = self.open_database();
                let mut rows = file.prepare(sql).unwrap();
                rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
        }
    }

    /// Returns every row of every table.
    pub fn all_rows(&self) -> Vec<String> {
        match &self.database {
            Some(database) => database.dump_rows().unwrap(),
            None => rows_of(&self.open_database()),
        }
    }

    fn open_database(&self) -> Connection {
        Connection::open(self.home().database_path()).unwrap()
    }
}

fn rows_of(connection: &Connection) -> Vec<String> {
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name")
        .unwrap();
    let names: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut rows = Vec::new();
    for name in names {
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
        let columns = statement.column_count();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let cells: Vec<Cell> = (0..columns).map(|at| row.get(at).unwrap()).collect();
            rows.push(format!("{name}: {cells:?}"));
        }
    }
    rows
}
