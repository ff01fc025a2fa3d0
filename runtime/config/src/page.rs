//! `[page]`: the page for people, at `/` of the HTTP server.

use gristmill_core::job::Name;

use super::read::Section;

/// `[page]`: whether the HTTP server has a page for people, and how the page distinguishes this server from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSettings {
    /// Whether there is a page.
    pub enabled: bool,
    /// What the operator calls this server, such as `production`.
    pub name: Option<Name>,
    /// The colour of that name, as `#` and six hexadecimal digits.
    pub colour: Option<String>,
}

impl Default for PageSettings {
    /// The page allows no client more than `/v1` does, so it is on.
    fn default() -> Self {
        Self { enabled: true, name: None, colour: None }
    }
}

pub(super) fn page(root: &mut Section<'_>) -> PageSettings {
    let mut page = PageSettings::default();
    let Some(mut section) = root.section("page") else { return page };
    section.boolean("enabled", &mut page.enabled);
    page.name = section.name("name");
    page.colour = colour(&mut section);
    section.finish();
    page
}

fn colour(section: &mut Section<'_>) -> Option<String> {
    let value = section.value("colour")?;
    let text = section.string("colour", value, "a colour, such as \"#b00020\"")?;
    let digits = text.strip_prefix('#').unwrap_or_default();
    if digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(text.to_ascii_lowercase());
    }
    let title = format!("`{text}` is no colour");
    section.problems().report(value.span(), title, "write `#` and six hexadecimal digits, such as \"#b00020\"");
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, problems};

    #[test]
    fn a_page_has_a_name_and_a_colour() {
        let page = parse("[page]\nenabled = false\nname = \"prod-eu\"\ncolour = \"#B00020\"").page;
        assert_eq!((page.enabled, page.colour.as_deref()), (false, Some("#b00020")));
        assert_eq!(page.name.unwrap().as_str(), "prod-eu");
        for wrong in ["red", "#b0002", "#b000200", "#b0002g", "b00020"] {
            let problems = problems(&format!("[page]\ncolour = \"{wrong}\""));
            assert!(problems.contains("is no colour"), "{problems}");
        }
    }
}
