//! What the SDK of AssemblyScript has of the contract.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use wit_parser::{Function, Type};

use crate::call::{Call, Value, export_param};
use crate::contract::{Case, Contract, Field, Interface, Kind};
use crate::language::Language;
use crate::names::{camel, indented, pascal};

/// Classes that index.ts has itself, with defaults and methods.
const OWN: [&str; 3] = ["payload", "job", "response"];

pub(crate) const LANGUAGE: Language = Language {
    file: "guest-sdk/assemblyscript/contract.ts",
    prelude: include_str!("prelude/contract.ts"),
    define,
    lift_function,
    store_function,
    imports,
    exports,
};

fn define(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Enum(name, cases) => enumeration(&pascal(name), cases.into_iter()),
        Kind::Record(name, fields) if !OWN.contains(&name) => {
            let mut text = format!("\nexport class {} {{\n  constructor(\n", pascal(name));
            for field in fields {
                writeln!(text, "    public {}: {},", camel(&field.name), type_name(contract, field.ty)?)?;
            }
            text + "  ) {}\n}\n"
        }
        Kind::Variant(name, cases) => {
            let name = pascal(name);
            let mut text = enumeration(&format!("{name}Kind"), cases.iter().map(|case| case.name));
            write!(text, "\n/** The field of its kind has the value. */\nexport class {name} {{\n")?;
            for case in cases {
                let Some(ty) = case.ty else { continue };
                let (ty, none) = case_type(contract, ty)?;
                writeln!(text, "  {}: {ty} = {none};", camel(case.name))?;
            }
            write!(text, "\n  constructor(public kind: {name}Kind) {{}}\n}}\n")?;
            text
        }
        _ => String::new(),
    })
}

fn enumeration<'a>(name: &str, cases: impl Iterator<Item = &'a str>) -> String {
    let cases: String = cases.map(|case| format!("  {},\n", pascal(case))).collect();
    format!("\nexport enum {name} {{\n{cases}}}\n")
}

/// The type of a case's field, and its value in all other cases.
fn case_type(contract: &Contract, ty: &Type) -> Result<(String, &'static str)> {
    let name = type_name(contract, ty)?;
    Ok(match contract.kind(ty)? {
        Kind::Plain("bool") => (name, "false"),
        Kind::Plain(_) | Kind::Time | Kind::Enum(..) => (name, "0"),
        Kind::Text => (name, "\"\""),
        Kind::Option(_) => (name, "null"),
        _ => (format!("{name} | null"), "null"),
    })
}

fn is_plain(contract: &Contract, ty: &Type) -> Result<bool> {
    Ok(matches!(contract.kind(ty)?, Kind::Plain(_) | Kind::Time | Kind::Enum(..)))
}

fn type_name(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Plain(plain) => plain.to_owned(),
        Kind::Time => "u64".to_owned(),
        Kind::Text => "string".to_owned(),
        Kind::Bytes => "Uint8Array".to_owned(),
        Kind::Pair => "string[]".to_owned(),
        Kind::List(inner) if matches!(contract.kind(inner)?, Kind::Pair) => "Pairs".to_owned(),
        Kind::List(inner) => format!("Array<{}>", type_name(contract, inner)?),
        Kind::Option(inner) if is_plain(contract, inner)? => format!("Some<{}> | null", type_name(contract, inner)?),
        Kind::Option(inner) => format!("{} | null", type_name(contract, inner)?),
        Kind::Record(name, _) | Kind::Enum(name, _) | Kind::Variant(name, _) => pascal(name),
        Kind::Result(Some(ok), Some(err)) => {
            let name = type_name(contract, ok)?;
            let null = if is_plain(contract, ok)? || name.ends_with("| null") { "" } else { " | null" };
            format!("Result<{name}{null}, {}>", type_name(contract, err)?)
        }
        Kind::Result(None, Some(err)) => format!("{} | null", type_name(contract, err)?),
        other => bail!("AssemblyScript has no form for a {other:?}: teach tools/guest-abi"),
    })
}

fn place(base: &str, offset: usize) -> String {
    if offset == 0 { base.to_owned() } else { format!("{base} + {offset}") }
}

fn load(plain: &str, base: &str, offset: usize) -> String {
    if offset == 0 { format!("load<{plain}>({base})") } else { format!("load<{plain}>({base}, {offset})") }
}

fn store_plain(plain: &str, base: &str, offset: usize, value: &str) -> String {
    let offset = if offset == 0 { String::new() } else { format!(", {offset}") };
    format!("store<{plain}>({base}, {value}{offset});\n")
}

/// What reads a type, or the items of a list, ends with this.
fn suffix(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Text => "Text".to_owned(),
        Kind::Bytes => "Bytes".to_owned(),
        Kind::Pair => "Pair".to_owned(),
        Kind::Record(name, _) | Kind::Variant(name, _) => pascal(name),
        other => bail!("no function reads a {other:?} from a list: teach tools/guest-abi"),
    })
}

/// An expression that reads a value.
fn lift(contract: &Contract, ty: &Type, base: &str, offset: usize) -> Result<String> {
    let at = place(base, offset);
    Ok(match contract.kind(ty)? {
        Kind::Plain(plain) => load(plain, base, offset),
        Kind::Time => load("u64", base, offset),
        Kind::Enum(..) => load("u8", base, offset),
        Kind::List(inner) => {
            let (name, size) = (type_name(contract, inner)?, contract.size(inner));
            format!("liftList<{name}>({at}, {size}, lift{})", suffix(contract, inner)?)
        }
        Kind::Option(inner) => {
            let mut value = lift(contract, inner, base, offset + contract.payload([Some(inner)]))?;
            if is_plain(contract, inner)? {
                value = format!("new Some<{}>({value})", type_name(contract, inner)?);
            }
            format!("{} ? {value} : null", load("bool", base, offset))
        }
        Kind::Result(ok, err) => {
            let offset_of_value = offset + contract.payload([ok, err]);
            let err = err.map_or(Ok("null".to_owned()), |ty| lift(contract, ty, base, offset_of_value))?;
            let failed = load("bool", base, offset);
            match ok {
                None => format!("{failed} ? {err} : null"),
                Some(ok) => {
                    let made = format!("new {}", type_name(contract, ty)?);
                    let none = if is_plain(contract, ok)? { "0" } else { "null" };
                    let ok = lift(contract, ok, base, offset_of_value)?;
                    format!("{failed}\n  ? {made}({none}, {err})\n  : {made}({ok}, null)")
                }
            }
        }
        _ => format!("lift{}({at})", suffix(contract, ty)?),
    })
}

/// Statements that write a value. What may be missing is in a variable, which the compiler knows not to be null where it is there.
fn store(contract: &Contract, ty: &Type, base: &str, offset: usize, value: &str) -> Result<String> {
    let at = place(base, offset);
    Ok(match contract.kind(ty)? {
        Kind::Plain(plain) => store_plain(plain, base, offset, value),
        Kind::Time => store_plain("u64", base, offset, value),
        Kind::Enum(..) => store_plain("u8", base, offset, &format!("<u8>{value}")),
        Kind::List(inner) => {
            let (name, size) = (type_name(contract, inner)?, contract.size(inner));
            format!("storeList<{name}>({at}, {value}, {size}, store{});\n", suffix(contract, inner)?)
        }
        Kind::Option(inner) => {
            let variable = value.rsplit('.').next().unwrap_or(value);
            let taken = if variable == value { String::new() } else { format!("const {variable} = {value};\n") };
            let some = if is_plain(contract, inner)? { format!("{variable}.value") } else { variable.to_owned() };
            let some = store(contract, inner, base, offset + contract.payload([Some(inner)]), &some)?;
            let is_some = store_plain("bool", base, offset, &format!("{variable} !== null"));
            format!("{taken}{is_some}if ({variable} !== null) {some}")
        }
        Kind::Result(ok, Some(err)) => {
            let offset_of_value = offset + contract.payload([ok, Some(err)]);
            let failed = if ok.is_some() { format!("{value}.err") } else { value.to_owned() };
            let is_err = store_plain("bool", base, offset, "err !== null");
            let err = store(contract, err, base, offset_of_value, "err")?;
            let ok = ok.map(|ok| store(contract, ok, base, offset_of_value, &format!("{value}.ok!"))).transpose()?;
            let ok = ok.map(|ok| format!("else {ok}")).unwrap_or_default();
            format!("const err = {failed};\n{is_err}if (err !== null) {err}{ok}")
        }
        _ => format!("store{}({at}, {value});\n", suffix(contract, ty)?),
    })
}

fn lift_function(contract: &Contract, ty: &Type) -> Result<String> {
    let (name, body) = match contract.kind(ty)? {
        Kind::Record(name, fields) => (name, lift_record(contract, name, &fields)?),
        Kind::Variant(name, cases) => (name, lift_variant(contract, name, &cases)?),
        _ => return Ok(String::new()),
    };
    let (name, body) = (pascal(name), indented(&body, "  "));
    Ok(format!("\nfunction lift{name}(at: usize): {name} {{\n{body}}}\n"))
}

fn lift_record(contract: &Contract, name: &str, fields: &[Field<'_>]) -> Result<String> {
    let mut body = format!("const value = blank<{}>();\n", pascal(name));
    for field in fields {
        writeln!(body, "value.{} = {};", camel(&field.name), lift(contract, field.ty, "at", field.offset)?)?;
    }
    Ok(body + "return value;\n")
}

fn lift_variant(contract: &Contract, name: &str, cases: &[Case<'_>]) -> Result<String> {
    let offset = contract.payload(cases.iter().map(|case| case.ty));
    let mut body = format!("const value = new {}(load<u8>(at));\nswitch (value.kind) {{\n", pascal(name));
    for case in cases {
        let Some(ty) = case.ty else { continue };
        let value = lift(contract, ty, "at", offset)?;
        let (kind, case) = (format!("{}Kind.{}", pascal(name), pascal(case.name)), camel(case.name));
        write!(body, "  case {kind}:\n    value.{case} = {value};\n    break;\n")?;
    }
    Ok(body + "}\nreturn value;\n")
}

fn store_function(contract: &Contract, ty: &Type) -> Result<String> {
    let (name, body) = match contract.kind(ty)? {
        Kind::Record(name, fields) => {
            let mut body = String::new();
            for field in fields {
                body += &store(contract, field.ty, "at", field.offset, &format!("value.{}", camel(&field.name)))?;
            }
            (name, body)
        }
        Kind::Variant(name, cases) => (name, store_variant(contract, name, &cases)?),
        _ => return Ok(String::new()),
    };
    let (name, body) = (pascal(name), indented(&body, "  "));
    Ok(format!("\nfunction store{name}(at: usize, value: {name}): void {{\n{body}}}\n"))
}

fn store_variant(contract: &Contract, name: &str, cases: &[Case<'_>]) -> Result<String> {
    let offset = contract.payload(cases.iter().map(|case| case.ty));
    let mut body = "store<u8>(at, <u8>value.kind);\nswitch (value.kind) {\n".to_owned();
    for case in cases {
        let Some(ty) = case.ty else { continue };
        let (case_type, _) = case_type(contract, ty)?;
        let is_option = matches!(contract.kind(ty)?, Kind::Option(_));
        let there = if case_type.ends_with("| null") && !is_option { "!" } else { "" };
        let stored = store(contract, ty, "at", offset, &format!("value.{}{there}", camel(case.name)))?;
        let kind = format!("{}Kind.{}", pascal(name), pascal(case.name));
        write!(body, "  case {kind}: {{\n{}    break;\n  }}\n", indented(&stored, "    "))?;
    }
    Ok(body + "}\n")
}

fn imports(contract: &Contract, interface: &Interface<'_>) -> Result<String> {
    let mut declared = String::new();
    let mut functions = String::new();
    for function in &interface.functions {
        let call = Call::of(contract, function)?;
        let import = format!("host{}{}", pascal(interface.name), pascal(&function.name));
        let params: Vec<_> = call.args.iter().enumerate().map(|(at, arg)| format!("p{at}: {}", arg.core)).collect();
        let result = match call.result.filter(|_| call.answer == 0) {
            Some(ty) => type_name(contract, ty)?,
            None => "void".to_owned(),
        };
        write!(
            declared,
            "\n@external(\"{}\", \"{}\")\ndeclare function {import}({}): {result};\n",
            interface.path,
            function.name,
            params.join(", "),
        )?;
        functions += &self::function(contract, function, &call, &import)?;
    }
    let functions = indented(functions.trim_start(), "  ");
    Ok(format!("{declared}\nexport namespace {} {{\n{functions}}}\n", camel(interface.name)))
}

fn function(contract: &Contract, function: &Function, call: &Call<'_>, import: &str) -> Result<String> {
    let mut params = Vec::new();
    for param in &call.params {
        params.push(format!("{}: {}", camel(&param.field.name), type_name(contract, param.field.ty)?));
    }
    let mut body = String::new();
    let answer = call.block.next_multiple_of(8);
    if call.block > 0 {
        writeln!(body, "const at = lend({});", if call.answer > 0 { answer + call.answer } else { call.block })?;
    }
    for field in call.stored() {
        body += &store(contract, field.ty, "at", field.offset, &camel(&field.name))?;
    }
    match (call.block, call.answer) {
        (_, 0) => {}
        (0, size) => writeln!(body, "const answer = lend({size});")?,
        _ => writeln!(body, "const answer = at + {answer};")?,
    }
    let arg = |value: &Value<'_>| match value {
        Value::Param(field) => camel(&field.name),
        Value::Stored(plain, offset) => load(plain, "at", *offset),
        Value::Block => "at".to_owned(),
        Value::Answer => "answer".to_owned(),
    };
    let args: Vec<_> = call.args.iter().map(|passed| arg(&passed.value)).collect();
    let args = if args.len() > 8 { format!("\n  {},\n", args.join(",\n  ")) } else { args.join(", ") };
    let made = format!("{import}({args})");
    let has_memory = call.block > 0 || call.answer > 0;
    let result = call.result.map_or(Ok("void".to_owned()), |ty| type_name(contract, ty))?;
    match call.result {
        Some(_) if !has_memory => writeln!(body, "return {made};")?,
        Some(_) if call.answer == 0 => write!(body, "const result = {made};\nrelease();\nreturn result;\n")?,
        Some(ty) => {
            let lifted = lift(contract, ty, "answer", 0)?;
            write!(body, "{made};\nconst result = {lifted};\nrelease();\nreturn result;\n")?;
        }
        None if has_memory => write!(body, "{made};\nrelease();\n")?,
        None => writeln!(body, "{made};")?,
    }
    let (name, body) = (camel(&function.name), indented(&body, "  "));
    Ok(format!("\nexport function {name}({}): {result} {{\n{body}}}\n", params.join(", ")))
}

/// A function for each export, which the export calls with what it was given.
fn exports(contract: &Contract, interface: &Interface<'_>) -> Result<String> {
    let mut text = String::new();
    for function in &interface.functions {
        let result = function.result.as_ref().context("it returns nothing")?;
        let name = camel(&function.name);
        let (at, takes, read, given) = match export_param(contract, function)? {
            Some(ty) => {
                let read = format!("  const value = {};\n  release();\n", lift(contract, ty, "at", 0)?);
                ("at: usize, ", format!("value: {}", type_name(contract, ty)?), read, "value")
            }
            None => Default::default(),
        };
        let stored = indented(&store(contract, result, "answer", 0, "result")?, "  ");
        let (result, size) = (type_name(contract, result)?, contract.size(result));
        write!(text, "\nexport function {name}({at}{name}: ({takes}) => {result}): usize {{\n{read}")?;
        write!(
            text,
            "  const result = {name}({given});\n  const answer = lend({size});\n{stored}  return answer;\n}}\n"
        )?;
    }
    let text = indented(text.trim_start(), "  ");
    Ok(format!("\nexport namespace {} {{\n{text}}}\n", camel(interface.name)))
}
