//! What the SDK of Zig has of the contract.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use wit_parser::{Function, Type};

use crate::call::{Call, Value, export_param};
use crate::contract::{Contract, Interface, Kind};
use crate::language::Language;
use crate::names::{camel, indented, pascal, snake};

/// Records that gristmill.zig has itself, with defaults and methods.
const OWN: [&str; 5] = ["payload", "job", "new-job", "request", "response"];

pub(crate) const LANGUAGE: Language = Language {
    file: "guest-sdk/zig/contract.zig",
    prelude: include_str!("prelude/contract.zig"),
    define,
    lift_function,
    store_function,
    imports,
    exports,
};

fn define(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Enum(name, cases) => {
            let cases: Vec<_> = cases.into_iter().map(field_name).collect();
            format!("\npub const {} = enum(u8) {{ {} }};\n", pascal(name), cases.join(", "))
        }
        Kind::Record(name, fields) if !OWN.contains(&name) => {
            let mut text = format!("\npub const {} = struct {{\n", pascal(name));
            for field in fields {
                writeln!(text, "    {}: {},", field_name(&field.name), type_name(contract, field.ty)?)?;
            }
            text + "};\n"
        }
        Kind::Variant(name, cases) => {
            let mut text = format!("\npub const {} = union(enum) {{\n", pascal(name));
            for case in cases {
                let value = case.ty.map(|ty| type_name(contract, ty)).transpose()?;
                let value = value.map(|value| format!(": {value}")).unwrap_or_default();
                writeln!(text, "    {}{value},", field_name(case.name))?;
            }
            text + "};\n"
        }
        _ => String::new(),
    })
}

/// Some are words of the language.
fn field_name(name: &str) -> String {
    match name {
        "error" => "err".to_owned(),
        "unreachable" => format!("@\"{name}\""),
        _ => snake(name),
    }
}

fn type_name(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Plain(plain) => plain.to_owned(),
        Kind::Time => "u64".to_owned(),
        Kind::Text | Kind::Bytes => "[]const u8".to_owned(),
        Kind::Pair => "sdk.Pair".to_owned(),
        Kind::List(inner) => format!("[]const {}", type_name(contract, inner)?),
        Kind::Option(inner) => format!("?{}", type_name(contract, inner)?),
        Kind::Record(name, _) if OWN.contains(&name) => format!("sdk.{}", pascal(name)),
        Kind::Record(name, _) | Kind::Enum(name, _) | Kind::Variant(name, _) => pascal(name),
        Kind::Result(ok, err) => {
            let name = |ty: Option<&Type>| ty.map_or(Ok("void".to_owned()), |ty| type_name(contract, ty));
            format!("Result({}, {})", name(ok)?, name(err)?)
        }
    })
}

fn place(base: &str, offset: usize) -> String {
    if offset == 0 { base.to_owned() } else { format!("{base} + {offset}") }
}

/// What reads a type, or the items of a list, ends with this.
fn suffix(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Text | Kind::Bytes => "Text".to_owned(),
        Kind::Pair => "Pair".to_owned(),
        Kind::Record(name, _) | Kind::Variant(name, _) => pascal(name),
        other => bail!("no function reads a {other:?} from a list: teach tools/guest-abi"),
    })
}

/// An expression that reads a value.
fn lift(contract: &Contract, ty: &Type, base: &str, offset: usize) -> Result<String> {
    let at = place(base, offset);
    Ok(match contract.kind(ty)? {
        Kind::Plain(plain) => format!("load({plain}, {at})"),
        Kind::Time => format!("load(u64, {at})"),
        Kind::Enum(..) => format!("@enumFromInt(load(u8, {at}))"),
        Kind::List(inner) => {
            let (name, size) = (type_name(contract, inner)?, contract.size(inner));
            format!("liftList({name}, {at}, {size}, lift{})", suffix(contract, inner)?)
        }
        Kind::Option(inner) => {
            let value = lift(contract, inner, base, offset + contract.payload([Some(inner)]))?;
            format!("if (load(bool, {at})) {value} else null")
        }
        Kind::Result(ok, err) => {
            let offset = offset + contract.payload([ok, err]);
            let value = |ty: Option<&Type>| ty.map_or(Ok("{}".to_owned()), |ty| lift(contract, ty, base, offset));
            format!("if (load(bool, {at})) .{{ .err = {} }} else .{{ .ok = {} }}", value(err)?, value(ok)?)
        }
        _ => format!("lift{}({at})", suffix(contract, ty)?),
    })
}

/// Statements that write a value.
fn store(contract: &Contract, ty: &Type, base: &str, offset: usize, value: &str) -> Result<String> {
    let at = place(base, offset);
    Ok(match contract.kind(ty)? {
        Kind::Plain(plain) => format!("store({plain}, {at}, {value});\n"),
        Kind::Time => format!("store(u64, {at}, {value});\n"),
        Kind::Enum(..) => format!("store(u8, {at}, @intFromEnum({value}));\n"),
        Kind::List(inner) => {
            let (name, size) = (type_name(contract, inner)?, contract.size(inner));
            format!("storeList({name}, {at}, {value}, {size}, store{});\n", suffix(contract, inner)?)
        }
        Kind::Option(inner) => {
            let some = store(contract, inner, base, offset + contract.payload([Some(inner)]), "some")?;
            format!("store(bool, {at}, {value} != null);\nif ({value}) |some| {some}")
        }
        Kind::Result(ok, err) => {
            let offset = offset + contract.payload([ok, err]);
            let mut text = format!("switch ({value}) {{\n");
            for (tag, name, inner) in [(false, "ok", ok), (true, "err", err)] {
                let capture = if inner.is_some() { format!(" |{name}|") } else { String::new() };
                let inner = inner.map_or(Ok(String::new()), |inner| store(contract, inner, base, offset, name))?;
                let inner = indented(&inner, "        ");
                write!(text, "    .{name} =>{capture} {{\n        store(bool, {at}, {tag});\n{inner}    }},\n")?;
            }
            text + "}\n"
        }
        _ => format!("store{}({at}, {value});\n", suffix(contract, ty)?),
    })
}

fn lift_function(contract: &Contract, ty: &Type) -> Result<String> {
    let result = type_name(contract, ty)?;
    let (name, body) = match contract.kind(ty)? {
        Kind::Record(name, fields) => {
            let mut body = "return .{\n".to_owned();
            for field in fields {
                let value = lift(contract, field.ty, "at", field.offset)?;
                writeln!(body, "    .{} = {value},", field_name(&field.name))?;
            }
            (name, body + "};\n")
        }
        Kind::Variant(name, cases) => {
            let offset = contract.payload(cases.iter().map(|case| case.ty));
            let mut body = "return switch (load(u8, at)) {\n".to_owned();
            for (tag, case) in cases.iter().enumerate() {
                let name = field_name(case.name);
                let value = match case.ty {
                    Some(ty) => format!(".{{ .{name} = {} }}", lift(contract, ty, "at", offset)?),
                    None => format!(".{name}"),
                };
                let tag = if tag + 1 == cases.len() { "else".to_owned() } else { tag.to_string() };
                writeln!(body, "    {tag} => {value},")?;
            }
            (name, body + "};\n")
        }
        _ => return Ok(String::new()),
    };
    Ok(format!("\nfn lift{}(at: Address) {result} {{\n{}}}\n", pascal(name), indented(&body, "    ")))
}

fn store_function(contract: &Contract, ty: &Type) -> Result<String> {
    let (name, body) = match contract.kind(ty)? {
        Kind::Record(name, fields) => {
            let mut body = String::new();
            for field in fields {
                body += &store(contract, field.ty, "at", field.offset, &format!("value.{}", field_name(&field.name)))?;
            }
            (name, body)
        }
        Kind::Variant(name, cases) => {
            let offset = contract.payload(cases.iter().map(|case| case.ty));
            let mut body = "switch (value) {\n".to_owned();
            for (tag, case) in cases.iter().enumerate() {
                let capture = if case.ty.is_some() { " |case|" } else { "" };
                let inner = case.ty.map_or(Ok(String::new()), |ty| store(contract, ty, "at", offset, "case"))?;
                let inner = indented(&inner, "        ");
                let name = field_name(case.name);
                write!(body, "    .{name} =>{capture} {{\n        store(u8, at, {tag});\n{inner}    }},\n")?;
            }
            (name, body + "}\n")
        }
        _ => return Ok(String::new()),
    };
    let value = type_name(contract, ty)?;
    Ok(format!("\nfn store{}(at: Address, value: {value}) void {{\n{}}}\n", pascal(name), indented(&body, "    ")))
}

fn imports(contract: &Contract, interface: &Interface<'_>) -> Result<String> {
    let mut declared = String::new();
    let mut functions = String::new();
    for function in &interface.functions {
        let call = Call::of(contract, function)?;
        let args: Vec<_> = call.args.iter().map(|arg| if arg.core == "usize" { "usize" } else { arg.core }).collect();
        let result = match call.result.filter(|_| call.answer == 0) {
            Some(ty) => type_name(contract, ty)?,
            None => "void".to_owned(),
        };
        let name = if function.name.contains('-') { format!("@\"{}\"", function.name) } else { function.name.clone() };
        writeln!(declared, "    extern \"{}\" fn {name}({}) {result};", interface.path, args.join(", "))?;
        functions += &import(contract, function, &call, &name)?;
    }
    let declared = indented(&declared, "    ");
    let (name, functions) = (snake(interface.name), indented(&functions, "    "));
    Ok(format!("\npub const {name} = struct {{\n    const imports = struct {{\n{declared}    }};\n{functions}}};\n"))
}

fn import(contract: &Contract, function: &Function, call: &Call<'_>, import: &str) -> Result<String> {
    let mut params = Vec::new();
    for param in &call.params {
        params.push(format!("{}: {}", param_name(contract, &param.field.name), type_name(contract, param.field.ty)?));
    }
    let mut body = String::new();
    if call.block > 0 {
        writeln!(body, "var params: [{}]u8 align(8) = undefined;\nconst at: Address = &params;", call.block)?;
    }
    for field in call.stored() {
        body += &store(contract, field.ty, "at", field.offset, &param_name(contract, &field.name))?;
    }
    if call.answer > 0 {
        writeln!(body, "var result: [{}]u8 align(8) = undefined;\nconst answer: Address = &result;", call.answer)?;
    }
    let mut args = Vec::new();
    for arg in &call.args {
        args.push(match &arg.value {
            Value::Param(field) => match contract.kind(field.ty)? {
                Kind::Plain("bool") => format!("@intFromBool({})", param_name(contract, &field.name)),
                Kind::Enum(..) => format!("@intFromEnum({})", param_name(contract, &field.name)),
                _ => param_name(contract, &field.name),
            },
            Value::Stored("bool", offset) => format!("load(u8, {})", place("at", *offset)),
            Value::Stored(plain, offset) => format!("load({plain}, {})", place("at", *offset)),
            Value::Block => "@intFromPtr(at)".to_owned(),
            Value::Answer => "@intFromPtr(answer)".to_owned(),
        });
    }
    let args = if args.len() > 8 { format!("\n    {},\n", args.join(",\n    ")) } else { args.join(", ") };
    let made = format!("imports.{import}({args})");
    let result = call.result.map_or(Ok("void".to_owned()), |ty| type_name(contract, ty))?;
    match call.result {
        Some(ty) if call.answer > 0 => write!(body, "{made};\nreturn {};\n", lift(contract, ty, "answer", 0)?)?,
        Some(_) => writeln!(body, "return {made};")?,
        None => writeln!(body, "{made};")?,
    }
    let (name, body) = (camel(&function.name), indented(&body, "    "));
    Ok(format!("\npub fn {name}({}) {result} {{\n{body}}}\n", params.join(", ")))
}

/// A parameter may not have the name of an interface.
fn param_name(contract: &Contract, name: &str) -> String {
    let is_taken = contract.imports().iter().any(|interface| interface.name == name);
    if is_taken { format!("{}_", snake(name)) } else { snake(name) }
}

/// A function for each export, which exports what it is given.
fn exports(contract: &Contract, interface: &Interface<'_>) -> Result<String> {
    let mut text = String::new();
    for function in &interface.functions {
        let param = export_param(contract, function)?;
        let result = function.result.as_ref().context("it returns nothing")?;
        let (name, result_name) = (pascal(&function.name), type_name(contract, result)?);
        let (takes, at, given) = match param {
            Some(ty) => (type_name(contract, ty)?, "at: Address", lift(contract, ty, "at", 0)?),
            None => Default::default(),
        };
        let stored =
            indented(&store(contract, result, "answer", 0, &format!("{}({given})", function.name))?, "            ");
        write!(
            text,
            "\npub fn export{name}(comptime {function}: fn ({takes}) {result_name}) void {{
    const exports = struct {{
        var result: [{size}]u8 align(8) = undefined;

        fn call({at}) callconv(.c) Address {{
            const answer: Address = &result;
{stored}            return answer;
        }}

        /// Called once the host has read the answer.
        fn post(_: Address) callconv(.c) void {{
            _ = arena.reset(.retain_capacity);
        }}
    }};
    @export(&exports.call, .{{ .name = \"{path}#{function}\" }});
    @export(&exports.post, .{{ .name = \"cabi_post_{path}#{function}\" }});
}}
",
            function = function.name,
            path = interface.path,
            size = contract.size(result),
        )?;
    }
    let (name, text) = (snake(interface.name), indented(text.trim_start(), "    "));
    Ok(format!("\npub const {name} = struct {{\n{text}}};\n"))
}
