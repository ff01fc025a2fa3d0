//! The page's scripts as they are served: one module, with short names, without comments, and without blanks that separate nothing.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::mem::take;
use std::str::Chars;

use super::names::{Word, shortened};

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
    let Script { text, words, statements } = tight(&all);
    shortened(&text, &words, &names, &statements)
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

/// A tight script.
struct Script {
    text: String,
    /// What stands for a variable, and keywords.
    words: Vec<Word>,
    /// Where declarations at the top begin. What is declared inside of one is its own.
    statements: Vec<usize>,
}

/// The text without comments and unneeded blanks.
fn tight(text: &str) -> Script {
    let script = Script { text: String::new(), words: Vec::new(), statements: Vec::new() };
    let mut reader = Reader { rest: text.chars().peekable(), script, open: Vec::new(), templates: 0 };
    reader.code();
    reader.script
}

pub(super) fn is_of_word(one: char) -> bool {
    one.is_alphanumeric() || one == '_' || one == '$'
}

/// An open bracket.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    /// Of an object, or of a pattern that takes one apart.
    Members,
    Other,
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    script: Script,
    /// Those of the innermost template's expression.
    open: Vec<Open>,
    templates: usize,
}

impl Reader<'_> {
    /// Code, to its end, or to the brace that ends a template's expression.
    fn code(&mut self) {
        let outside = take(&mut self.open);
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\n' => self.between(),
                '\'' | '"' => self.quoted(next),
                '`' => self.template(),
                '/' => self.slash(),
                '}' if self.open.is_empty() => break,
                _ if is_of_word(next) => self.word(),
                _ => {
                    self.bracket(next);
                    if "]})".contains(next) && self.script.text.ends_with(',') && !self.script.text.ends_with("[,") {
                        self.script.text.pop();
                    }
                    self.keep();
                }
            }
        }
        self.open = outside;
    }

    fn bracket(&mut self, next: char) {
        let text = &self.script.text;
        let is_block = text.ends_with([')', ';', '}']) || text.ends_with("=>");
        let is_block = is_block || ["else", "try", "finally", "catch"].iter().any(|word| text.ends_with(word));
        match next {
            '{' if !is_block => self.open.push(Open::Members),
            '(' | '[' | '{' => self.open.push(Open::Other),
            ')' | ']' | '}' => _ = self.open.pop(),
            _ => {}
        }
    }

    fn keep(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.script.text.extend(next);
        next
    }

    /// A name, a member, a keyword or a number. A `const` becomes a `let`, which is compressed better.
    fn word(&mut self) {
        let text = &mut self.script.text;
        let begin = text.len();
        while let Some(next) = self.rest.next_if(|next| is_of_word(*next)) {
            text.push(next);
        }
        if &text[begin..] == "const" && self.rest.peek() == Some(&' ') {
            text.replace_range(begin.., "let");
        }
        let (before, word) = text.split_at(begin);
        if self.open.is_empty() && self.templates == 0 && ["let", "function"].contains(&word) {
            self.script.statements.push(begin);
        }
        let is_listed = self.open.last() == Some(&Open::Members) && before.ends_with(['{', ',']);
        let is_key = is_listed && self.rest.peek() == Some(&':');
        let is_member = before.ends_with('.') && !before.ends_with("...");
        if !is_key && !is_member && !word.starts_with(|first: char| first.is_ascii_digit()) {
            self.script.words.push(Word { place: begin..begin + word.len(), is_shorthand: is_listed });
        }
    }

    /// Blanks and ends of lines between two tokens, or beside a comment.
    fn between(&mut self) {
        let mut ends = false;
        while let Some(blank) = self.rest.next_if(|next| " \n".contains(*next)) {
            ends |= blank == '\n';
        }
        if ends && self.script.text.ends_with(' ') {
            self.script.text.pop();
        }
        let (Some(before), Some(&next)) = (self.script.text.chars().last(), self.rest.peek()) else { return };
        let is_free = |set: &str, other: &str| set.contains(before) || other.contains(next);
        let is_needed = match (ends, before) {
            (_, '\n') | (false, ' ') => false,
            (true, _) => !is_free(GOES_ON.0, GOES_ON.1),
            (false, '+' | '-') if "+-".contains(next) => true,
            (false, _) => !is_free(PUNCTUATION, PUNCTUATION),
        };
        if is_needed {
            self.script.text.push(if ends { '\n' } else { ' ' });
        }
    }

    /// A string. Its quotes become those of markup, if nothing in it speaks against that.
    fn quoted(&mut self, quote: char) {
        let begin = self.script.text.len();
        self.keep();
        while let Some(next) = self.keep() {
            match next {
                '\\' => drop(self.keep()),
                next if next == quote => break,
                _ => {}
            }
        }
        if !self.script.text[begin..].contains(['"', '\\']) {
            let text = self.script.text.split_off(begin);
            self.script.text += &text.replace(quote, "\"");
        }
    }

    /// Lines of a template begin without blanks. Lines of markup are one where a tag ends or begins, as htm reads them, and what ends an element
    /// does not name it.
    fn template(&mut self) {
        let is_markup = self.script.text.ends_with("html");
        self.keep();
        while let Some(next) = self.keep() {
            match next {
                '\\' => drop(self.keep()),
                '`' => return,
                '\n' => {
                    while self.rest.next_if_eq(&' ').is_some() {}
                    if is_markup && (self.script.text.ends_with(">\n") || self.rest.peek() == Some(&'<')) {
                        self.script.text.pop();
                    }
                }
                '"' if is_markup && self.script.text.ends_with("=\"") => self.unquoted(),
                '/' if is_markup && self.script.text.ends_with("</") => {
                    while self.rest.next_if(|next| *next != '>').is_some() {}
                }
                '$' if self.rest.peek() == Some(&'{') => {
                    self.keep();
                    self.templates += 1;
                    self.code();
                    self.templates -= 1;
                    self.keep();
                }
                _ => {}
            }
        }
    }

    /// A value of markup without its quotes, if it is a word that ends where a blank or the tag's end does.
    fn unquoted(&mut self) {
        let mut ahead = self.rest.clone();
        let word: String = std::iter::from_fn(|| ahead.next_if(|next| is_of_word(*next) || *next == '-')).collect();
        if !word.is_empty() && ahead.next() == Some('"') && ahead.peek().is_some_and(|next| " >\n".contains(*next)) {
            self.script.text.pop();
            self.script.text += &word;
            self.rest = ahead;
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
            Some(' ') => self.script.text.push('/'),
            _ => self.expression(),
        }
    }

    fn expression(&mut self) {
        self.script.text.push('/');
        let mut in_class = false;
        while let Some(next) = self.keep() {
            match next {
                '\\' => drop(self.keep()),
                '/' if !in_class => break,
                '[' | ']' => in_class = next == '[',
                _ => {}
            }
        }
        while self.rest.peek().is_some_and(|flag| is_of_word(*flag)) {
            self.keep();
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
    fn variables_become_short_and_members_stay() {
        for (text, becomes) in [
            ("const f = (long, other) => long.other + other", "let a=(b,c)=>b.other+c"),
            ("const f = ({ long, other = 1 }) => ({ long, b: other })", "let a=({long:b,other:c=1})=>({long:b,b:c})"),
            ("const f = long => [...long, `${long}`, `long`]", "let a=b=>[...b,`${b}`,`long`]"),
            ("function f(a, [long]) {\n  if (a) {\n    long = 1\n  }\n}", "function b(a,[c]){if(a){c=1}}"),
            (
                "const f = () => {\n  const { long: { deep } } = g\n  return deep\n}",
                "let a=()=>{let{long:{deep:b}}=g\nreturn b}",
            ),
            ("let long = document\nconst f = (long) => long\nf(long)", "let a=document\nlet b=(a)=>a\nb(a)"),
            (
                "const f = (deep) => wide(deep ? long : g)\nconst h = (a) => long",
                "let b=(a)=>wide(a?long:g)\nlet c=(a)=>long",
            ),
            ("const f = (g) => /long/g.test(g)", "let a=(b)=>/long/g.test(b)"),
            ("try {\n  f()\n} catch (long) {\n  g(long)\n}", "try{f()}catch(a){g(a)}"),
        ] {
            assert_eq!(joined([text].into_iter()).trim_end(), becomes);
        }
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
            ("html`<a b=\"c-d\" e=\"f g\" h=\"i\"/>\"j\"`", "html`<a b=c-d e=\"f g\" h=\"i\"/>\"j\"`"),
            ("let a = 1\n\n  let b\n;[a] = f(\n  g\n)\n", "let a=1\nlet b\n;[a]=f(g)"),
            ("if (a) {\n  b()\n}\nc()", "if(a){b()}\nc()"),
            ("const a = \'b const \', { const: c } = d.const", "let a=\"b const \",{const:c}=d.const"),
            ("a++\nb", "a++\nb"),
            ("[\n  a,\n  [, b],\n]", "[a,[,b]]"),
            ("`</a>`", "`</a>`"),
        ] {
            assert_eq!(tight(text).text, becomes);
        }
    }
}
