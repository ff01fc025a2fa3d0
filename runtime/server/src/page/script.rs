//! The page's own scripts as they are served: one module, without comments, and without blanks that separate nothing.

use std::iter::Peekable;
use std::str::Chars;

/// No blank is needed between two tokens if one of these ends the first or begins the second.
const PUNCTUATION: &str = "=(){}[],;:?<>&|+*!%.-";
/// A line end does not end a statement after a character of the first set, or before one of the second.
const GOES_ON: (&str, &str) = ("{([,;=>&|?:", "})].,?:&|");

/// Joins modules in the order in which they run. Imports among them are removed, because their top-level names are unique. Imports from
/// `vendor` stay.
pub(super) fn joined<'a>(modules: impl Iterator<Item = &'a str>) -> String {
    let mut all = String::new();
    for line in modules.flat_map(str::lines) {
        if !line.starts_with("import ") || line.contains("/vendor/") {
            all += line.strip_prefix("export ").unwrap_or(line);
            all.push('\n');
        }
    }
    tight(&all)
}

fn tight(text: &str) -> String {
    let mut reader = Reader { rest: text.chars().peekable(), out: String::new() };
    reader.code();
    reader.out
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
}

impl Reader<'_> {
    /// Code, to its end, or to the brace that ends a template's expression.
    fn code(&mut self) {
        let mut open = 0;
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\n' => self.between(),
                '\'' | '"' => self.quoted(next),
                '`' => self.template(),
                '/' => self.slash(),
                '}' if open == 0 => return,
                _ => {
                    open += i32::from(next == '{') - i32::from(next == '}');
                    self.keep();
                }
            }
        }
    }

    fn keep(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.out.extend(next);
        next
    }

    /// Blanks and ends of lines between two tokens, or beside a comment. A `const` becomes a `let`, which is compressed better.
    fn between(&mut self) {
        let word = self.out.rsplit(|one: char| !(one.is_alphanumeric() || "_$.".contains(one))).next();
        if word == Some("const") {
            self.out.truncate(self.out.len() - "const".len());
            self.out += "let";
        }
        let mut ends = false;
        while let Some(blank) = self.rest.next_if(|next| " \n".contains(*next)) {
            ends |= blank == '\n';
        }
        if ends && self.out.ends_with(' ') {
            self.out.pop();
        }
        let (Some(before), Some(&next)) = (self.out.chars().last(), self.rest.peek()) else { return };
        let is_free = |set: &str, other: &str| set.contains(before) || other.contains(next);
        let is_needed = match (ends, before) {
            (_, '\n') | (false, ' ') => false,
            (true, _) => !is_free(GOES_ON.0, GOES_ON.1),
            (false, '+' | '-') if "+-".contains(next) => true,
            (false, _) => !is_free(PUNCTUATION, PUNCTUATION),
        };
        if is_needed {
            self.out.push(if ends { '\n' } else { ' ' });
        }
    }

    /// A string. Its quotes become those of markup, if nothing in it speaks against that.
    fn quoted(&mut self, quote: char) {
        let begin = self.out.len();
        self.keep();
        while let Some(next) = self.keep() {
            match next {
                '\\' => drop(self.keep()),
                next if next == quote => break,
                _ => {}
            }
        }
        if !self.out[begin..].contains(['"', '\\']) {
            let text = self.out.split_off(begin);
            self.out += &text.replace(quote, "\"");
        }
    }

    /// Lines of a template begin without blanks. Lines of markup are one where a tag ends or begins, as htm reads them.
    fn template(&mut self) {
        let is_markup = self.out.ends_with("html");
        self.keep();
        while let Some(next) = self.keep() {
            match next {
                '\\' => drop(self.keep()),
                '`' => return,
                '\n' => {
                    while self.rest.next_if_eq(&' ').is_some() {}
                    if is_markup && (self.out.ends_with(">\n") || self.rest.peek() == Some(&'<')) {
                        self.out.pop();
                    }
                }
                '$' if self.rest.peek() == Some(&'{') => {
                    self.keep();
                    self.code();
                    self.keep();
                }
                _ => {}
            }
        }
    }

    /// A comment, a division, which a blank follows, or a regular expression.
    fn slash(&mut self) {
        self.rest.next();
        match self.rest.peek() {
            Some('/') => while self.rest.next_if(|next| *next != '\n').is_some() {},
            Some('*') => {
                let mut before = ' ';
                for next in self.rest.by_ref() {
                    if (before, next) == ('*', '/') {
                        break;
                    }
                    before = next;
                }
            }
            Some(' ') => self.out.push('/'),
            _ => self.expression(),
        }
    }

    fn expression(&mut self) {
        self.out.push('/');
        let mut in_class = false;
        while let Some(next) = self.keep() {
            match next {
                '\\' => drop(self.keep()),
                '/' if !in_class => return,
                '[' | ']' => in_class = next == '[',
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_become_one_without_comments_and_blanks() {
        let first = "// a\nimport { h } from './vendor/h.js'\n\n/** b\n */\nexport const c = { d: 1 } // e\n";
        let second = "import { c } from './c.js'\nexport default c\nf(  c, (/** @type {any} */ (c)).d)\n";
        let joined = joined([first, second].into_iter());
        assert_eq!(joined, "import{h}from \"./vendor/h.js\"\nlet c={d:1}\ndefault c\nf(c,((c)).d)");
    }

    #[test]
    fn what_a_script_says_stays() {
        for (text, becomes) in [
            ("a + +b - -c", "a+ +b- -c"),
            ("a / b / c", "a / b / c"),
            ("x = /[/'` ]  \\/ / \n.test(' // ')", "x=/[/'` ]  \\/ /.test(\" // \")"),
            ("return /\"/.test(a)", "return /\"/.test(a)"),
            ("f('a  \\'  b', \"//  '\")", "f('a  \\'  b',\"//  '\")"),
            ("`a  ${ { b: `  }${ c }` } }  // d\n   e \\` `", "`a  ${{b:`  }${c}`}}  // d\ne \\` `"),
            ("html`\n  <a\n    b>\n    c ${d}\n  </a>\n  e`", "html`<a\nb>c ${d}</a>e`"),
            ("let a = 1\n\n  let b\n;[a] = f(\n  g\n)\n", "let a=1\nlet b\n;[a]=f(g)"),
            ("if (a) {\n  b()\n}\nc()", "if(a){b()}\nc()"),
            ("const a = \'b const \', { const: c } = d.const", "let a=\"b const \",{const:c}=d.const"),
            ("a++\nb", "a++\nb"),
        ] {
            assert_eq!(tight(text), becomes);
        }
    }
}
