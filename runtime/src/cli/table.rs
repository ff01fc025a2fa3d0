//! Tables for people: aligned columns without lines, so that they can be cut and grepped as well.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::screen;

/// Blanks between two columns.
const GAP: usize = 2;
/// The least characters of a name that is cut; of an id, so that one of ours is whole; and of the text at the end.
const NAME: usize = 20;
const ID: usize = 26;
const TEXT: usize = 16;
/// What is left out where there is no room, the first one first; `--json` has it all.
const LEFT_OUT: [&str; 26] = [
    "RUN99",
    "RUN50",
    "START FUEL",
    "FORMERLY",
    "SNOOZED",
    "EXPIRED",
    "RETRIED",
    "PUSHED",
    "VERDICT",
    "LEASE ENDS",
    "MADE BY",
    "CODE",
    "MADE",
    "MEMORY",
    "LANGUAGE",
    "IMPORTS",
    "ATTEMPTS",
    "ATTEMPT",
    "KEY",
    "HANDLER",
    "OLDEST",
    "DELAYED",
    "ACKED",
    "VERSION",
    "FAILED/S",
    "DONE/S",
];
/// The least characters of a name, an id and the text at the end where a line would not even hold that.
const SHORTEST: usize = 8;

/// A table. A title that begins with `>` makes a column of numbers, aligned to the right.
///
/// On a terminal, columns are left out and names are shortened in their middle until a line holds a row; elsewhere nothing is.
#[derive(Debug)]
pub(super) struct Table {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
    last_below: bool,
}

impl Table {
    pub(super) fn new(titles: &[&str]) -> Self {
        Self { titles: titles.iter().map(|title| screen::clean(title)).collect(), rows: Vec::new(), last_below: false }
    }

    /// Where a line does not hold the whole of it, the text of the last column is put below its row.
    pub(super) fn last_below(self) -> Self {
        Self { last_below: true, ..self }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| screen::clean(&cell).replace('\t', " ")).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table to standard output.
    pub(super) fn print(self) -> anyhow::Result<()> {
        screen::line(&self.text(screen::room()))
    }

    fn text(&self, room: Option<usize>) -> String {
        let (mut titles, mut columns) = (self.titles.as_slice(), widths(&self.titles, &self.rows));
        let mut is_below = false;
        let widths: Vec<Option<usize>> = match room {
            Some(room) if taken(columns.iter().copied()) > room => {
                is_below = self.last_below;
                if let Some((_, others)) = titles.split_last().filter(|_| is_below) {
                    (titles, columns) = (others, columns.into_iter().take(others.len()).collect());
                }
                fit(titles, &columns, room)
            }
            _ => columns.into_iter().map(Some).collect(),
        };
        let names: Vec<String> = titles.iter().map(|title| name(title).to_owned()).collect();
        let mut lines = vec![line(titles, &names, &widths)];
        for row in &self.rows {
            lines.push(line(titles, row, &widths));
            let below = row.last().filter(|text| is_below && !text.is_empty());
            lines.extend(
                below.map(|text| format!("  {}", cut_end(text, room.unwrap_or(usize::MAX).saturating_sub(GAP)))),
            );
        }
        lines.join("\n")
    }
}

/// As wide as its title and its widest cell, for each column.
pub(super) fn widths<'a>(titles: &[String], rows: impl IntoIterator<Item = &'a Vec<String>>) -> Vec<usize> {
    let mut widths: Vec<usize> = titles.iter().map(|title| name(title).width()).collect();
    for row in rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.width().max(*width));
    }
    widths
}

/// How wide each column is where a line has so much room; `None`: it is left out.
pub(super) fn fit(titles: &[String], widths: &[usize], room: usize) -> Vec<Option<usize>> {
    let last = titles.len().saturating_sub(1);
    let least = |(place, (title, width)): (usize, (&String, &usize))| {
        let least = match title.as_str() {
            title if title.starts_with('>') => *width,
            "ID" | "JOB" => ID,
            _ if place == last => TEXT,
            title => NAME.max(title.width()),
        };
        least.min(*width)
    };
    let mut least: Vec<Option<usize>> = titles.iter().zip(widths).enumerate().map(least).map(Some).collect();
    for gone in LEFT_OUT {
        if taken(least.iter().flatten().copied()) <= room {
            break;
        }
        if let Some(place) = titles.iter().position(|title| name(title) == gone) {
            least.iter_mut().skip(place).take(1).for_each(|least| *least = None);
        }
    }
    shorten(titles, &mut least, room);
    let mut spare = room.saturating_sub(taken(least.iter().flatten().copied()));
    // Names before the text at the end, which goes on for as long as there is room.
    for (least, width) in least.iter_mut().zip(widths) {
        let Some(least) = least else { continue };
        let more = spare.min(width.saturating_sub(*least));
        (*least, spare) = (*least + more, spare - more);
    }
    least
}

/// Takes from names, and then from ids, what a line is still too long by: titles and numbers stay whole.
fn shorten(titles: &[String], least: &mut [Option<usize>], room: usize) {
    for is_id in [false, true] {
        for place in 0..titles.len() {
            let over = taken(least.iter().flatten().copied()).saturating_sub(room);
            let (Some(title), Some(Some(width))) = (titles.get(place), least.get_mut(place)) else { continue };
            if !title.starts_with('>') && matches!(title.as_str(), "ID" | "JOB") == is_id {
                *width -= over.min(width.saturating_sub(title.width().max(SHORTEST)));
            }
        }
    }
}

fn taken(widths: impl Iterator<Item = usize>) -> usize {
    widths.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

fn name(title: &str) -> &str {
    title.trim_start_matches('>')
}

fn line(titles: &[String], cells: &[String], widths: &[Option<usize>]) -> String {
    let mut line = String::new();
    let last = titles.len().saturating_sub(1);
    for (place, ((title, cell), width)) in titles.iter().zip(cells).zip(widths).enumerate() {
        let Some(width) = *width else { continue };
        let text = shortened(cell, width, place == last);
        let blanks = " ".repeat(width.saturating_sub(text.width()));
        line.push_str(&if title.starts_with('>') { format!("{blanks}{text}  ") } else { format!("{text}{blanks}  ") });
    }
    line.trim_end().to_owned()
}

/// A text of at most this width: both ends distinguish names; the text at the end begins with what matters.
pub(super) fn shortened(text: &str, width: usize, is_last: bool) -> String {
    if is_last { cut_end(text, width) } else { cut_middle(text, width) }
}

fn cut_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    format!("{}…", beginning(text.chars(), width.saturating_sub(1)))
}

fn cut_middle(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = beginning(text.chars(), kept.div_ceil(2));
    let tail: String = beginning(text.chars().rev(), kept / 2).chars().rev().collect();
    format!("{head}…{tail}")
}

fn beginning(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut remaining = width;
    chars
        .take_while(|c| {
            let fits = c.width().unwrap_or(0) <= remaining;
            remaining = remaining.saturating_sub(c.width().unwrap_or(0));
            fits
        })
        .collect()
}

/// A list of facts about one thing: names in one column, values in the next; a value's own lines stay under it.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, value) in facts {
        let mut lines = value.lines();
        text.push_str(&format!("{name:width$}{}\n", screen::clean(lines.next().unwrap_or_default())));
        for line in lines {
            text.push_str(&format!("{:width$}{}\n", "", screen::clean(line)));
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_lines_end_where_the_text_ends() {
        let mut table = Table::new(&["TOPIC", ">READY", "NOTE"]);
        table.row(["resize-image".into(), "7".into(), "x".into()]);
        table.row(["echo".into(), "1200".into(), String::new()]);
        let expected = "TOPIC         READY  NOTE\nresize-image      7  x\necho           1200";
        assert_eq!(table.text(None), expected);
        assert_eq!(table.text(Some(80)), expected);
    }

    #[test]
    fn a_narrow_terminal_gets_whole_titles_whole_ids_and_names_with_both_ends() {
        let mut table = Table::new(&["ID", "TOPIC", "WHEN", ">ATTEMPTS", "KEY", "CODE", "MESSAGE"]);
        let id = "01KAFQ6Y8D2Z0V9X5T3N7M1R4C";
        let message = "the host mail.example.org does not answer, and has not done so for an hour";
        let row = [id, "acme/orders-import-europe-2026", "7s ago", "12", "customer-4711", "smtp-421", message];
        table.row(row.map(str::to_owned));
        for room in [80, 100, 120, 160] {
            let text = table.text(Some(room));
            assert!(text.lines().all(|line| line.width() <= room), "{text}");
            assert!(text.contains(id) && text.contains("acme/orde") && text.contains("-2026"), "{text}");
            assert!(text.lines().count() == 2 && text.contains("MESSAGE") && text.contains("the host mail"), "{text}");
        }
        assert_eq!(table.text(None).lines().map(str::len).max(), Some(177));
        assert!(table.text(Some(20)).lines().count() == 2, "no room at all is no reason to fail");
    }

    #[test]
    fn the_last_column_goes_below_its_row_where_a_line_does_not_hold_it() {
        let mut table = Table::new(&["TOPIC", ">READY", "STATE"]).last_below();
        table.row(["mail".into(), "1".into(), "paused: it is paused by ada, resume it".into()]);
        table.row(["echo".into(), "0".into(), String::new()]);
        assert_eq!(table.text(Some(80)).lines().count(), 3);
        assert_eq!(table.text(Some(30)), "TOPIC  READY\nmail       1\n  paused: it is paused by ada…\necho       0");
    }

    #[test]
    fn facts_line_up_and_keep_the_lines_of_a_value() {
        let text = facts(&[("id", "1".into()), ("failure", "a\nb".into())]);
        assert_eq!(text, "id       1\nfailure  a\n         b");
    }
}
