//! The page's scripts as they are served: one module, with short names, without comments, and without blanks that separate nothing.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::Range;
use std::str::Chars;

use super::names::shortened;

/// No blank is needed between two tokens if one of these ends the first or begins the second.
const PUNCTUATION: &str = "=(){}[],;:?<>&|+*!%.-";
/// A line end does not end a statement after a character of the first set, or before one of the second.
const GOES_ON: (&str, &str) = ("{([,;=>&|?:", "})].,?:&|");

/// Joins modules in the order in which they run. Imports are removed, because all top-level names are unique; those names become short.
pub(super) fn joined<'a>(modules: impl Iterator<Item = &'a str>) -> String {
    let (mut all, mut names) = (String::new(), BTreeSet::new());
    for line in modules.flat_map(str::lines).filter(|line| !line.starts_with("import ")) {
        let line = line.strip_prefix("export ").unwrap_or(line);
        names.extend(declared(line));
        all.push_str(line);
        all.push('\n');
    }
    let (text, words) = tight(&all);
    shortened(&text, &words, &names)
}

/// The name that a line declares, if it begins at the left.
pub(super) fn declared(line: &str) -> Option<&str> {
    let mut words = line.split([' ', '(']).filter(|word| *word != "async");
    let is_declaration = matches!(words.next(), Some("const" | "let" | "function"));
    words.next().filter(|name| is_declaration && name.chars().all(|one| one.is_alphanumeric() || one == '_'))
}

/// A module of a library as a statement that declares what it exports: a name, or names in braces, such as `{h,render}`. Its other names
/// stay its own.
pub(super) fn enclosed(module: &str, exported: &str) -> String {
    let (body, exports) = module.trim_end().rsplit_once("export").unwrap_or((module, ""));
    let is_wanted = |name: &str| exported.split(['{', ',', '}']).any(|wanted| wanted == name);
    let pairs = exports.split(['{', ',', '}']).filter_map(|pair| pair.split_once(" as "));
    let pairs = pairs.filter(|(_, outside)| is_wanted(outside)).map(|(inside, outside)| format!("{outside}:{inside},"));
    let value = match exports.strip_prefix(" default") {
        Some(value) => value.to_owned(),
        None => format!("{{{}}}", pairs.collect::<String>()),
    };
    format!("let {exported}=(()=>{{{body}return{value}}})()\n")
}

/// The text without comments and unneeded blanks, and where its words are: names, members and keywords.
fn tight(text: &str) -> (String, Vec<Range<usize>>) {
    let mut reader = Reader { rest: text.chars().peekable(), out: String::new(), words: Vec::new() };
    reader.code();
    (reader.out, reader.words)
}

fn is_of_word(one: char) -> bool {
    one.is_alphanumeric() || one == '_' || one == '$'
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    words: Vec<Range<usize>>,
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
                _ if is_of_word(next) => self.word(),
                _ => {
                    open += i32::from(next == '{') - i32::from(next == '}');
                    if "]})".contains(next) && self.out.ends_with(',') && !self.out.ends_with("[,") {
                        self.out.pop();
                    }
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

    /// A name, a member, a keyword or a number. A `const` becomes a `let`, which is compressed better.
    fn word(&mut self) {
        let begin = self.out.len();
        while let Some(next) = self.rest.next_if(|next| is_of_word(*next)) {
            self.out.push(next);
        }
        if &self.out[begin..] == "const" && self.rest.peek() == Some(&' ') {
            self.out.replace_range(begin.., "let");
        }
        self.words.push(begin..self.out.len());
    }

    /// Blanks and ends of lines between two tokens, or beside a comment.
    fn between(&mut self) {
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

    /// Lines of a template begin without blanks. Lines of markup are one where a tag ends or begins, as htm reads them, and what ends an element
    /// does not name it.
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
                '/' if is_markup && self.out.ends_with("</") => {
                    while self.rest.next_if(|next| *next != '>').is_some() {}
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
        assert_eq!(joined, "let a={d:1}\ndefault a\nf(a,((a)).d)");
    }

    #[test]
    fn a_library_keeps_its_names_to_itself() {
        let named = "var a=1,b;export{a as h,b as x,c as render};\n";
        assert_eq!(enclosed(named, "{h,render}"), "let {h,render}=(()=>{var a=1,b;return{h:a,render:c,}})()\n");
        assert_eq!(enclosed("var a;export default function(b){}", "f"), "let f=(()=>{var a;return function(b){}})()\n");
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
            ("html`\n  <a\n    b>\n    c ${d}\n  </a>\n  e`", "html`<a\nb>c ${d}</>e`"),
            ("let a = 1\n\n  let b\n;[a] = f(\n  g\n)\n", "let a=1\nlet b\n;[a]=f(g)"),
            ("if (a) {\n  b()\n}\nc()", "if(a){b()}\nc()"),
            ("const a = \'b const \', { const: c } = d.const", "let a=\"b const \",{const:c}=d.const"),
            ("a++\nb", "a++\nb"),
            ("[\n  a,\n  [, b],\n]", "[a,[,b]]"),
            ("`</a>`", "`</a>`"),
        ] {
            assert_eq!(tight(text).0, becomes);
        }
    }
}
