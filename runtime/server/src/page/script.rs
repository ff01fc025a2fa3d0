//! The page's scripts as they are served: joined into one module, so that a browser asks once and they compress well together.

/// Joins modules in the order in which they run. What they import from each other is there: all names at their top differ.
pub(super) fn joined<'a>(modules: impl Iterator<Item = &'a str>) -> String {
    let lines = modules.flat_map(str::lines).filter(|line| !line.starts_with("import "));
    lines.flat_map(|line| [line.strip_prefix("export ").unwrap_or(line), "\n"]).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_become_one() {
        let first = "// a\nimport { h } from './vendor/h.js'\n\nexport const c = { d: 1 }\n";
        let joined = joined([first, "import { c } from './c.js'\nf(c.d)\n"].into_iter());
        assert_eq!(joined, "// a\n\nconst c = { d: 1 }\nf(c.d)\n");
    }

    #[test]
    fn a_library_keeps_its_names_to_itself() {
        let named = "var a=1,b;export{a as h,b as x,c as render};\n";
        assert_eq!(enclosed(named, "{h,render}"), "let {h,render}=(()=>{var a=1,b;return{h:a,render:c,}})()\n");
        assert_eq!(enclosed("var a;export default function(b){}", "f"), "let f=(()=>{var a;return function(b){}})()\n");
    }
}
