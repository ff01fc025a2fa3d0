//! The format of the file: how it is recognised, and how an older one becomes the present one.

use rusqlite::{Connection, TransactionBehavior};

/// What the SQLite header says of our files, in `PRAGMA application_id`: "Gmil".
pub(in crate::embedded) const APPLICATION: i32 = 0x476d_696c;

/// The format that the first step makes of an empty file. Those before it were in no release.
const FIRST: usize = 27;

/// How to come from each format to the next; the first begins with an empty file. Never changed once released, only
/// continued.
const STEPS: &[&str] =
    &[concat!(include_str!("schema.sql"), include_str!("recordings.sql"), include_str!("deployments.sql"))];

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub(in crate::embedded) enum Unfit {
    #[error("it is a SQLite file of another application; name another file")]
    Foreign,
    #[error("it is in format {0}, and this version knows formats up to {known}; use a later version", known = FIRST + STEPS.len() - 1)]
    Newer(usize),
    #[error(
        "it is in format {0}, which was in no release; name another file, or move its jobs with the version that wrote it"
    )]
    Older(usize),
    #[error("it is in format {0}; the next server that owns it brings it up to date")]
    Outdated(usize),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Brings the file into the present format, in one transaction. Changes nothing in a file that is not ours or is newer.
pub(in crate::embedded) fn bring_up_to_date(connection: &mut Connection) -> Result<(), Unfit> {
    migrate(connection, STEPS)
}

/// Whether the file is in the present format.
///
/// # Errors
/// It is not.
pub(in crate::embedded) fn is_present(connection: &Connection) -> Result<(), Unfit> {
    let present = FIRST + STEPS.len() - 1;
    match format(connection)? {
        format if format == present => Ok(()),
        0 => Err(Unfit::Foreign),
        format if format > present => Err(Unfit::Newer(format)),
        format => Err(Unfit::Outdated(format)),
    }
}

fn migrate(connection: &mut Connection, steps: &[&str]) -> Result<(), Unfit> {
    // At once, so that no other process begins the same.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let format = format(&transaction)?;
    let taken = match format {
        0 => 0,
        format => (format + 1).checked_sub(FIRST).filter(|taken| *taken > 0).ok_or(Unfit::Older(format))?,
    };
    let missing = steps.get(taken..).ok_or(Unfit::Newer(format))?;
    if missing.is_empty() {
        return Ok(());
    }
    for step in missing {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", i64::try_from(FIRST + steps.len() - 1).unwrap_or(i64::MAX))?;
    Ok(transaction.commit()?)
}

/// The file's format; 0 if it is empty.
fn format(connection: &Connection) -> Result<usize, Unfit> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (number("application_id")?, tables) {
        (APPLICATION, _) => Ok(usize::try_from(number("user_version")?).unwrap_or(usize::MAX)),
        (0, 0) => Ok(0),
        _ => Err(Unfit::Foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: &[&str] =
        &["CREATE TABLE a (x INTEGER)", "ALTER TABLE a ADD COLUMN y INTEGER", "INSERT INTO a VALUES (1, 2)"];

    fn rows(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM a", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_empty_file_and_every_older_one_become_the_present_one() {
        for first in 1..=CHAIN.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate(&mut connection, &CHAIN[..first]).unwrap();
            migrate(&mut connection, CHAIN).unwrap();
            assert_eq!((rows(&connection), format(&connection).unwrap()), (1, FIRST + 2), "from step {first}");
            migrate(&mut connection, CHAIN).unwrap();
            assert_eq!(rows(&connection), 1, "each step is taken once");
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &CHAIN[..1]).unwrap();
        assert!(matches!(migrate(&mut connection, &[CHAIN[0], CHAIN[1], "no SQL"]), Err(Unfit::Sqlite(_))));
        assert_eq!(format(&connection).unwrap(), FIRST);
        assert!(connection.prepare("SELECT y FROM a").is_err());
    }

    #[test]
    fn a_newer_file_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, CHAIN).unwrap();
        assert!(matches!(migrate(&mut connection, &CHAIN[..2]), Err(Unfit::Newer(newer)) if newer == FIRST + 2));
        assert_eq!(rows(&connection), 1);
    }

    #[test]
    fn a_file_from_before_the_first_release_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, CHAIN).unwrap();
        connection.pragma_update(None, "user_version", 4).unwrap();
        assert!(matches!(migrate(&mut connection, CHAIN), Err(Unfit::Older(4))));
        assert_eq!(rows(&connection), 1);
    }

    #[test]
    fn another_applications_file_is_refused() {
        let mut tables = Connection::open_in_memory().unwrap();
        tables.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(bring_up_to_date(&mut tables), Err(Unfit::Foreign)));
        let mut marked = Connection::open_in_memory().unwrap();
        marked.pragma_update(None, "application_id", 7).unwrap();
        assert!(matches!(bring_up_to_date(&mut marked), Err(Unfit::Foreign)));
    }
}
