//! What must hold in every file, whatever happened to it, in SQL.

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::embedded::look::fsck::look_at_all;

/// What [`fsck`](crate::embedded::look::fsck) cannot ask of a file from which jobs have moved. Each finds what is wrong.
const NEVER: [(&str, &str); 2] = [
    ("two jobs in one place", "SELECT number FROM job_rows GROUP BY number & ((1 << 41) - 1) HAVING count(*) > 1"),
    (
        "a job that was pushed and is nowhere, or is somewhere and was never pushed",
        "SELECT topic FROM topics
         WHERE (SELECT coalesce(sum(n), 0) FROM totals WHERE topic_number = number AND name = 'pushed')
            IS NOT ready + delayed + running + dead +
               (SELECT coalesce(sum(n), 0) FROM totals
                WHERE topic_number = number AND name IN ('acked', 'expired', 'cancelled', 'discarded'))",
    ),
];

/// The first thing that is wrong.
pub(super) fn broken(connection: &Connection) -> Option<String> {
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    if sound != "ok" {
        return Some(sound);
    }
    let found = look_at_all(connection).unwrap().findings;
    if let Some(finding) = found.first() {
        return Some(finding.to_string());
    }
    NEVER.iter().find_map(|(what, sql)| {
        let mut select = connection.prepare(sql).unwrap();
        let mut rows = select.query([]).unwrap();
        rows.next().unwrap().map(|row| format!("{what}: {:?}", row.get::<_, Value>(0).unwrap()))
    })
}

/// Everything that is in the file.
pub(super) fn content(connection: &Connection) -> String {
    let mut select = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut content = String::new();
    for table in tables {
        let mut select = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = select.column_count();
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<Value> = (0..columns).map(|column| row.get(column).unwrap()).collect();
            content.push_str(&format!("{table} {values:?}\n"));
        }
    }
    content
}
