//! What must hold in every file, whatever happened to it, said in SQL.

use rusqlite::Connection;
use rusqlite::types::Value;

/// Each finds what is wrong; the schema's own checks are not repeated.
const NEVER: [(&str, &str); 18] = [
    (
        "a job without a body, or with two",
        "SELECT id FROM job_rows WHERE (body IS NULL) IS NOT (large IS NOT NULL AND large IN (SELECT number FROM bodies))",
    ),
    (
        "a body without a job",
        "SELECT number FROM bodies WHERE number NOT IN (SELECT large FROM job_rows WHERE large > 0)",
    ),
    (
        "a ready job that was passed over, or a running one behind those that were claimed",
        "SELECT id FROM jobs JOIN topics ON topic_number = topics.number
         WHERE state IN ('ready', 'running') AND (state = 'running') IS NOT
             (jobs.number <= CASE priority WHEN 'high' THEN claimed_high WHEN 'normal' THEN claimed_normal
                                  ELSE claimed_low END)",
    ),
    (
        "two batches with one job",
        "SELECT a.first FROM batches AS a JOIN batches AS b ON a.first < b.first AND b.first <= a.last",
    ),
    (
        "a batch without a job, or of two lines",
        "SELECT first FROM batches WHERE first >> 41 <> last >> 41
             OR NOT EXISTS (SELECT 1 FROM job_rows WHERE number BETWEEN first AND last)",
    ),
    (
        "a job whose topic is missing or another tenant's",
        "SELECT id FROM job_rows LEFT JOIN topics ON job_rows.number >> 43 = topics.number
         WHERE topics.tenant IS NOT job_rows.tenant",
    ),
    (
        "a job in the line of another priority",
        "SELECT id FROM job_rows WHERE (number >> 41 & 3) NOT IN
             (3, CASE priority WHEN 'high' THEN 0 WHEN 'normal' THEN 1 ELSE 2 END)",
    ),
    ("two jobs in one place", "SELECT number FROM job_rows GROUP BY number & ((1 << 41) - 1) HAVING count(*) > 1"),
    (
        "a topic that counts its jobs wrong",
        "SELECT topic FROM topics WHERE (ready, delayed, running, dead) IS NOT (
             SELECT count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state = 'delayed'),
                    count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'dead')
             FROM jobs WHERE topic_number = topics.number)",
    ),
    (
        "a topic that counts the jobs that wait for their key wrong",
        "SELECT topic FROM topics WHERE waiting_for_key IS NOT
             (SELECT count(*) FROM jobs WHERE topic_number = topics.number AND slot = 0)",
    ),
    (
        "a job that waits for a key that has a free slot",
        "SELECT key FROM jobs WHERE slot IS NOT NULL GROUP BY topic_number, key HAVING max(slot) = 0",
    ),
    (
        "a running job that holds no slot of its key, or a job without a key that holds one",
        "SELECT id FROM jobs WHERE state IN ('ready', 'running') AND (slot IS NULL) IS NOT (coalesce(key, '') = '')
             OR slot IS NOT NULL AND coalesce(key, '') = ''",
    ),
    (
        "a topic that has a wrong next due time",
        "SELECT topic FROM topics WHERE next_due IS NOT
             (SELECT min(delayed_until) FROM jobs WHERE topic_number = topics.number AND delayed_until < 99999999999999)",
    ),
    (
        "a topic with ready jobs that nobody is told of",
        "SELECT topic FROM topics WHERE ready > waiting_for_key AND NOT active AND NOT paused",
    ),
    (
        "a job that was pushed and is nowhere, or is somewhere and was never pushed",
        "SELECT topic FROM topics
         WHERE (SELECT coalesce(sum(n), 0) FROM totals WHERE topic_number = number AND name = 'pushed')
            IS NOT ready + delayed + running + dead +
               (SELECT coalesce(sum(n), 0) FROM totals
                WHERE topic_number = number AND name IN ('acked', 'expired', 'cancelled', 'discarded'))",
    ),
    (
        "a value held until done by nobody who is alive, or by another topic's job",
        "SELECT value FROM uniques WHERE until IS NULL AND NOT EXISTS (
             SELECT 1 FROM jobs WHERE id = holder AND jobs.topic_number = uniques.topic_number
                 AND unique_value = value AND state <> 'dead')",
    ),
    (
        "a job alive whose value is not its own",
        "SELECT id FROM jobs WHERE unique_value IS NOT NULL AND unique_window_ms IS NULL AND state <> 'dead'
             AND id IS NOT (SELECT holder FROM uniques
                            WHERE uniques.topic_number = jobs.topic_number AND value = unique_value)",
    ),
    (
        "a running job that was never delivered, or more attempts than deliveries",
        "SELECT id FROM jobs WHERE state = 'running' AND deliveries = 0 OR attempts > deliveries",
    ),
];

/// The first thing that is wrong.
pub(super) fn broken(connection: &Connection) -> Option<String> {
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    if sound != "ok" {
        return Some(sound);
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
