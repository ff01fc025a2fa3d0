//! For people.

use crate::measure::Cost;
use crate::variant::Variant;

/// The head of a table with a column for each variant.
pub(crate) fn head(title: &str, variants: &[Variant]) {
    println!("\n{title}: CPU time per job in µs, and ratio to the first\n");
    print!("| |");
    variants.iter().for_each(|variant| print!(" {} |", variant.name));
    println!("\n|---|{}", "---|".repeat(variants.len()));
}

/// The row of a guest.
pub(crate) fn row(guest: &str, costs: &[Cost]) {
    print!("| {guest} |");
    costs.iter().for_each(|cost| print!(" {:.1} · {:.2} |", cost.cpu.as_secs_f64() * 1e6, cost.ratio));
    println!();
}
