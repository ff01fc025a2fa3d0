//! Tables for people: aligned columns without lines, so that they can be cut and grepped as well.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row};

use super::screen;

/// A table. A title that begins with `>` makes a column of numbers, aligned to the right.
///
/// On a terminal a last column of text is cut where the line ends; elsewhere nothing is.
#[derive(Debug)]
pub(super) struct Table(comfy_table::Table);

impl Table {
    pub(super) fn new(titles: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING);
        table.set_header(titles.iter().map(|title| title.trim_start_matches('>')).collect::<Vec<_>>());
        let last = titles.len().saturating_sub(1);
        for (index, (column, title)) in table.column_iter_mut().zip(titles).enumerate() {
            column.set_padding((0, 2));
            if title.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if index != last || title.starts_with('>') {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        Self(table)
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row = Row::from(cells.into_iter().map(|cell| Cell::new(screen::clean(&cell))).collect::<Vec<_>>());
        row.max_height(1);
        self.0.add_row(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the table to standard output.
    pub(super) fn print(mut self) -> anyhow::Result<()> {
        if let Some((terminal_size::Width(width), _)) = terminal_size::terminal_size_of(std::io::stdout()) {
            self.0.set_content_arrangement(ContentArrangement::Dynamic);
            self.0.set_width(width);
            self.0.set_truncation_indicator("…");
        }
        screen::line(&self.0.trim_fmt())
    }
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
        assert_eq!(table.0.trim_fmt(), expected);
    }

    #[test]
    fn facts_line_up_and_keep_the_lines_of_a_value() {
        let text = facts(&[("id", "1".into()), ("failure", "a\nb".into())]);
        assert_eq!(text, "id       1\nfailure  a\n         b");
    }
}
