//! What a component says of the tools that made it. Nothing depends on it: it may say what it likes, or nothing.

use memchr::memmem;
use wasmparser::{BinaryReaderError, CustomSectionReader, KnownCustom, Name, Parser, Payload};

/// The most tools that are listed of one component, and characters of a name or a version.
const TOOLS_MAX: usize = 32;
const CHARS_MAX: usize = 100;

/// From the `producers` sections of a component and all modules in it, which most toolchains write
/// (WebAssembly tool conventions, ProducersSection.md).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Producers {
    /// What the handler is written in, such as `Rust` or `Go`; `None` if the file does not say.
    pub language: Option<String>,
    /// Name and version, such as `rustc` and `1.95.0`, each once, in the order in which they stand in the file.
    pub tools: Vec<(String, String)>,
}

impl Producers {
    /// Reads a component or a module. Of a broken file it reads what stands before the damage.
    pub fn of(wasm: &[u8]) -> Self {
        // QuickJS is recognised by the name under which componentize-qjs hands it the handler.
        let marked = memmem::find(wasm, b"componentize-qjs:user.js").map(|_| "JavaScript");
        let mut reader = ProducersReader { marked, ..ProducersReader::default() };
        // Other checks report better what is wrong with a broken file.
        reader.read(wasm).ok();
        reader.into_producers()
    }
}

/// Interpreters carry the name of what they were compiled from, and nothing about what they interpret. Zig says that it is C.
#[derive(Default)]
struct ProducersReader {
    tools: Vec<(String, String)>,
    marked: Option<&'static str>,
    /// Bytes of the largest module, and the language that it names.
    largest: (usize, Option<String>),
    /// Bytes and language of the module that is being read.
    module: (usize, Option<String>),
}

impl ProducersReader {
    fn read(&mut self, wasm: &[u8]) -> Result<(), BinaryReaderError> {
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::ModuleSection { unchecked_range, .. } => self.module = (unchecked_range.len(), None),
                Payload::CustomSection(section) => self.read_custom(&section)?,
                Payload::End(_) => self.end_module(),
                _ => {}
            }
        }
        Ok(())
    }

    fn read_custom(&mut self, section: &CustomSectionReader<'_>) -> Result<(), BinaryReaderError> {
        match section.as_known() {
            KnownCustom::Producers(fields) => {
                for field in fields {
                    let field = field?;
                    for value in field.values {
                        let value = value?;
                        self.take(field.name, cut(value.name), cut(value.version));
                    }
                }
            }
            KnownCustom::Name(names) => {
                for name in names {
                    if let Name::Module { name, .. } = name?
                        && name.starts_with("libpython")
                    {
                        self.marked = Some("Python");
                    }
                }
            }
            _ if section.name() == ".debug_str" && memmem::find(section.data(), b"zig 0.").is_some() => {
                self.marked = Some("Zig");
            }
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, field: &str, name: String, version: String) {
        if field == "language" {
            // The first is the module's own, and what follows came with libraries. But a program of Rust names C first, for its start code.
            if self.module.1.is_none() || name == "Rust" {
                self.module.1 = Some(name);
            }
            return;
        }
        if name.eq_ignore_ascii_case("ComponentizeJS") {
            self.marked = Some("JavaScript");
        }
        let tool = (name, version);
        if self.tools.len() < TOOLS_MAX && !self.tools.contains(&tool) {
            self.tools.push(tool);
        }
    }

    /// Beside the handler there are adapters, smaller and often in another language. Ends of components come here too,
    /// with a module of no bytes.
    fn end_module(&mut self) {
        let module = std::mem::take(&mut self.module);
        if module.0 > self.largest.0 || self.largest == (0, None) {
            self.largest = module;
        }
    }

    fn into_producers(self) -> Producers {
        let language = self.marked.map(str::to_owned).or(self.largest.1);
        Producers { language, tools: self.tools }
    }
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core module with a `producers` section: fields, each a name with pairs of name and version.
    fn module(fields: &[(&str, &[(&str, &str)])], rest: &str) -> Vec<u8> {
        let string = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let mut section = vec![u8::try_from(fields.len()).unwrap()];
        for (name, values) in fields {
            section.extend(string(name));
            section.push(u8::try_from(values.len()).unwrap());
            section.extend(values.iter().flat_map(|(name, version)| [string(name), string(version)].concat()));
        }
        let escaped: String = section.iter().map(|byte| format!("\\{byte:02x}")).collect();
        wat::parse_str(format!("(module {rest} (@custom \"producers\" \"{escaped}\"))")).unwrap()
    }

    /// A component with these modules in it.
    fn component(modules: &[Vec<u8>]) -> Vec<u8> {
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        for module in modules {
            component.push(1);
            let mut bytes = module.len();
            while bytes >= 0x80 {
                component.push(u8::try_from(bytes & 0x7f).unwrap() | 0x80);
                bytes >>= 7;
            }
            component.push(u8::try_from(bytes).unwrap());
            component.extend(module);
        }
        component
    }

    fn tool(name: &str, version: &str) -> (String, String) {
        (name.into(), version.into())
    }

    #[test]
    fn the_largest_modules_language_is_the_components() {
        let adapter = module(&[("language", &[("Rust", "")]), ("processed-by", &[("rustc", "1.75.0")])], "");
        let go = [
            ("language", &[("Go", "1.27"), ("C11", "")][..]),
            ("processed-by", &[("rustc", "1.75.0"), ("go", "1.27")]),
        ];
        let handler = module(&go, "(memory 1) (data (i32.const 0) \"some more bytes than the adapter has\")");
        for modules in [[adapter.clone(), handler.clone()], [handler.clone(), adapter.clone()]] {
            let producers = Producers::of(&component(&modules));
            assert_eq!(producers.language.as_deref(), Some("Go"));
            let mut tools = producers.tools;
            tools.sort();
            assert_eq!(tools, [tool("go", "1.27"), tool("rustc", "1.75.0")]);
        }
        // What does not name its language is not of the adapter's.
        let silent = module(&[], "(memory 1) (data (i32.const 0) \"some more bytes than the adapter has by far\")");
        assert_eq!(Producers::of(&component(&[silent, adapter])).language, None);
        assert_eq!(Producers::of(&handler).language.as_deref(), Some("Go"), "a module alone");
        let program = module(&[("language", &[("C11", ""), ("Rust", "")])], "");
        assert_eq!(Producers::of(&program).language.as_deref(), Some("Rust"));
    }

    #[test]
    fn interpreters_are_recognised_by_their_marks() {
        let rust: &[(&str, &[(&str, &str)])] = &[("language", &[("Rust", "")])];
        let quickjs = module(rust, "(memory 1) (data (i32.const 0) \"shim.jscomponentize-qjs:user.js\")");
        assert_eq!(Producers::of(&component(&[quickjs])).language.as_deref(), Some("JavaScript"));
        let python = wat::parse_str("(module $libpython3.14.so)").unwrap();
        assert_eq!(Producers::of(&component(&[python])).language.as_deref(), Some("Python"));
        let c: &[(&str, &[(&str, &str)])] = &[("language", &[("C99", "")])];
        let zig = module(c, "(@custom \".debug_str\" \"zig 0.17.0\\00handler\\00\")");
        assert_eq!(Producers::of(&zig).language.as_deref(), Some("Zig"));
    }

    #[test]
    fn whatever_the_bytes_are_there_is_an_answer_of_bearable_size() {
        assert_eq!(Producers::of(b""), Producers::default());
        assert_eq!(Producers::of(b"no wasm at all"), Producers::default());
        let names: Vec<String> = (0..100).map(|number| format!("tool\x1b[{number}")).collect();
        let values: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let wasm = module(&[("processed-by", &values)], "");
        let tools = Producers::of(&wasm).tools;
        assert_eq!((tools.len(), &tools[0]), (TOOLS_MAX, &tool("tool[0", "1")));
        assert_eq!(Producers::of(&wasm[..wasm.len() / 2]), Producers::default());
        assert_eq!(cut(&"x".repeat(500)).len(), CHARS_MAX);
    }
}
