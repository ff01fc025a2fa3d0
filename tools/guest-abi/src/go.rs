//! What the SDK of Go has of the contract.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use wit_parser::{Function, Type};

use crate::call::{Call, Value, export_param};
use crate::contract::{Contract, Interface, Kind};
use crate::language::Language;
use crate::names::{camel, indented, pascal};

/// Structs that the package has itself, with fields of the same names.
const OWN: [&str; 3] = ["payload", "job", "response"];

pub(crate) const LANGUAGE: Language = Language {
    file: "guest-sdk/go/contract.go",
    prelude: include_str!("prelude/contract.go"),
    define,
    lift_function,
    store_function,
    imports,
    exports,
};

/// The name of a field: `id` is `ID`.
fn field_name(name: &str) -> String {
    match name {
        "id" | "url" => name.to_uppercase(),
        _ => pascal(name),
    }
}

fn struct_name(name: &str) -> String {
    if OWN.contains(&name) { pascal(name) } else { format!("wire{}", pascal(name)) }
}

/// Names and types, in two columns.
fn columns(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    rows.iter().map(|(name, ty)| format!("\t{name:width$} {ty}\n")).collect()
}

fn constants<'a>(ty: &str, cases: impl Iterator<Item = &'a str>) -> String {
    let name = ty.strip_suffix("Kind").unwrap_or(ty);
    let mut text = format!("\ntype {ty} uint8\n\nconst (\n");
    for (at, case) in cases.enumerate() {
        let value = if at == 0 { format!(" {ty} = iota") } else { String::new() };
        text += &format!("\t{name}{}{value}\n", pascal(case));
    }
    text + ")\n"
}

fn define(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Enum(name, cases) => constants(&struct_name(name), cases.into_iter()),
        Kind::Record(name, fields) if !OWN.contains(&name) => {
            let row =
                |field: &crate::contract::Field<'_>| Ok((field_name(&field.name), type_name(contract, field.ty)?));
            let rows = fields.iter().map(row).collect::<Result<Vec<_>>>()?;
            format!("\ntype {} struct {{\n{}}}\n", struct_name(name), columns(&rows))
        }
        Kind::Variant(name, cases) => {
            let name = struct_name(name);
            let mut rows = vec![("Kind".to_owned(), format!("{name}Kind"))];
            for case in &cases {
                let Some(ty) = case.ty else { continue };
                rows.push((field_name(case.name), type_name(contract, ty)?));
            }
            let kinds = constants(&format!("{name}Kind"), cases.iter().map(|case| case.name));
            format!(
                "{kinds}\n// {name} has its value in the field of its kind.\ntype {name} struct {{\n{}}}\n",
                columns(&rows)
            )
        }
        _ => String::new(),
    })
}

fn type_name(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Plain("bool") => "bool".to_owned(),
        Kind::Plain(plain) => plain.replace('u', "uint"),
        Kind::Time => "time.Time".to_owned(),
        Kind::Text => "string".to_owned(),
        Kind::Bytes => "[]byte".to_owned(),
        Kind::Pair => "Pair".to_owned(),
        Kind::List(inner) => format!("[]{}", type_name(contract, inner)?),
        Kind::Option(inner) => match contract.kind(inner)? {
            Kind::Text | Kind::Bytes => type_name(contract, inner)?,
            _ => format!("*{}", type_name(contract, inner)?),
        },
        Kind::Record(name, _) | Kind::Enum(name, _) | Kind::Variant(name, _) => struct_name(name),
        other @ Kind::Result(..) => bail!("a {other:?} is only what a function returns"),
    })
}

/// An address as one of several arguments.
fn place(base: &str, offset: usize) -> String {
    if offset == 0 { base.to_owned() } else { format!("{base}+{offset}") }
}

/// An address as the only argument; so gofmt has it.
fn only_place(base: &str, offset: usize) -> String {
    place(base, offset).replace('+', " + ")
}

/// The function that reads a value at an address.
fn lifts(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Plain(_) | Kind::Enum(..) => format!("load[{}]", type_name(contract, ty)?),
        Kind::Option(inner) if matches!(contract.kind(inner)?, Kind::Text | Kind::Bytes) => {
            format!("liftOption{}", suffix(contract, inner)?)
        }
        _ => format!("lift{}", suffix(contract, ty)?),
    })
}

/// The function that writes a value at an address.
fn stores(contract: &Contract, ty: &Type) -> Result<String> {
    let lifts = lifts(contract, ty)?;
    let rest = lifts.strip_prefix("lift").or_else(|| lifts.strip_prefix("load"));
    Ok(format!("store{}", rest.unwrap_or_default()))
}

/// What reads and writes a type ends with this.
fn suffix(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Time => "Time".to_owned(),
        Kind::Text => "Text".to_owned(),
        Kind::Bytes => "Bytes".to_owned(),
        Kind::Pair => "Pair".to_owned(),
        Kind::Record(name, _) | Kind::Variant(name, _) => pascal(name),
        other => bail!("no function reads a {other:?} inside of another type: teach tools/guest-abi"),
    })
}

/// An expression that reads a value.
fn lift(contract: &Contract, ty: &Type, base: &str, offset: usize) -> Result<String> {
    let at = place(base, offset);
    Ok(match contract.kind(ty)? {
        Kind::List(inner) => format!("liftList({at}, {}, {})", contract.size(inner), lifts(contract, inner)?),
        Kind::Option(inner) if !matches!(contract.kind(inner)?, Kind::Text | Kind::Bytes) => {
            format!("liftOption({at}, {}, {})", contract.payload([Some(inner)]), lifts(contract, inner)?)
        }
        _ => format!("{}({})", lifts(contract, ty)?, only_place(base, offset)),
    })
}

/// A statement that writes a value.
fn store(contract: &Contract, ty: &Type, base: &str, offset: usize, value: &str) -> Result<String> {
    let at = place(base, offset);
    Ok(match contract.kind(ty)? {
        Kind::Plain(_) | Kind::Enum(..) => format!("store({at}, {value})\n"),
        Kind::List(inner) => {
            format!("storeList({at}, {}, {value}, {})\n", contract.size(inner), stores(contract, inner)?)
        }
        Kind::Option(inner) if !matches!(contract.kind(inner)?, Kind::Text | Kind::Bytes) => {
            format!("storeOption({at}, {}, {value}, {})\n", contract.payload([Some(inner)]), stores(contract, inner)?)
        }
        _ => format!("{}({at}, {value})\n", stores(contract, ty)?),
    })
}

fn lift_function(contract: &Contract, ty: &Type) -> Result<String> {
    let (name, body) = match contract.kind(ty)? {
        Kind::Record(name, fields) => {
            let mut body = format!("return {}{{\n", struct_name(name));
            let width = fields.iter().map(|field| field_name(&field.name).len() + 1).max().unwrap_or_default();
            for field in fields {
                let name = field_name(&field.name) + ":";
                writeln!(body, "\t{name:width$} {},", lift(contract, field.ty, "at", field.offset)?)?;
            }
            (name, body + "}\n")
        }
        Kind::Variant(name, cases) => {
            let offset = contract.payload(cases.iter().map(|case| case.ty));
            let wire = struct_name(name);
            let mut body = format!("value := {wire}{{Kind: load[{wire}Kind](at)}}\nswitch value.Kind {{\n");
            for case in cases {
                let Some(ty) = case.ty else { continue };
                let value = lift(contract, ty, "at", offset)?;
                write!(body, "case {wire}{}:\n\tvalue.{} = {value}\n", pascal(case.name), field_name(case.name))?;
            }
            (name, body + "}\nreturn value\n")
        }
        _ => return Ok(String::new()),
    };
    let body = indented(&body, "\t");
    Ok(format!("\nfunc lift{}(at address) {} {{\n{body}}}\n", pascal(name), struct_name(name)))
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
            let mut body = "store(at, value.Kind)\nswitch value.Kind {\n".to_owned();
            for case in cases {
                let Some(ty) = case.ty else { continue };
                let stored = store(contract, ty, "at", offset, &format!("value.{}", field_name(case.name)))?;
                write!(body, "case {}{}:\n\t{stored}", struct_name(name), pascal(case.name))?;
            }
            (name, body + "}\n")
        }
        _ => return Ok(String::new()),
    };
    let body = indented(&body, "\t");
    Ok(format!("\nfunc store{}(at address, value {}) {{\n{body}}}\n", pascal(name), struct_name(name)))
}

/// What a function returns: an option also says whether there is a value, and a result has its error behind the value.
fn results(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Option(inner) => format!("({}, bool)", type_name(contract, inner)?),
        Kind::Result(None, Some(err)) => format!("*{}", type_name(contract, err)?),
        Kind::Result(Some(ok), Some(err)) => {
            format!("(ok {}, err *{})", type_name(contract, ok)?, type_name(contract, err)?)
        }
        Kind::Result(_, None) => bail!("a result has no error: teach tools/guest-abi"),
        _ => type_name(contract, ty)?,
    })
}

/// The statements that return what lies at `answer`.
fn lift_results(contract: &Contract, ty: &Type) -> Result<String> {
    Ok(match contract.kind(ty)? {
        Kind::Option(inner) => {
            let value = match contract.kind(inner)? {
                Kind::Text | Kind::Bytes => lift(contract, ty, "answer", 0)?,
                _ => lift(contract, inner, "answer", contract.payload([Some(inner)]))?,
            };
            format!("return {value}, load[bool](answer)\n")
        }
        Kind::Result(ok, Some(err)) => {
            let offset = contract.payload([ok, Some(err)]);
            let (value, none) = match ok {
                Some(ok) => (format!("{}, ", lift(contract, ok, "answer", offset)?), "ok, "),
                None => (String::new(), ""),
            };
            let err = lift(contract, err, "answer", offset)?;
            format!("if load[bool](answer) {{\n\treturn {none}new({err})\n}}\nreturn {value}nil\n")
        }
        _ => format!("return {}\n", lift(contract, ty, "answer", 0)?),
    })
}

fn imports(contract: &Contract, interface: &Interface<'_>) -> Result<String> {
    interface.functions.iter().map(|function| import(contract, interface, function)).collect()
}

fn import(contract: &Contract, interface: &Interface<'_>, function: &Function) -> Result<String> {
    let call = Call::of(contract, function)?;
    let name = camel(interface.name) + &pascal(&function.name);
    let import = format!("wasm{}{}", pascal(interface.name), pascal(&function.name));
    let taken = |core: &str| if core == "u64" { "uint64" } else { "uint32" };
    let takes: Vec<_> = call.args.iter().map(|arg| taken(arg.core)).collect();
    let plain = match call.result.filter(|_| call.answer == 0) {
        Some(ty) => match contract.kind(ty)? {
            Kind::Time => " uint64".to_owned(),
            _ => format!(" {}", type_name(contract, ty)?),
        },
        None => String::new(),
    };
    let mut text = format!("\n//go:wasmimport {} {}\n", interface.path, function.name);
    writeln!(text, "func {import}({}){plain}", takes.join(", "))?;

    let mut params = Vec::new();
    for param in &call.params {
        params.push(format!("{} {}", camel(&param.field.name), type_name(contract, param.field.ty)?));
    }
    let arg = |value: &Value<'_>, core: &str| match value {
        Value::Param(field) => format!("{}({})", taken(core), camel(&field.name)),
        Value::Stored("u64", offset) => format!("load[uint64]({})", place("at", *offset)),
        Value::Stored("bool" | "u8", offset) => format!("uint32(load[uint8]({}))", place("at", *offset)),
        Value::Stored("u16", offset) => format!("uint32(load[uint16]({}))", place("at", *offset)),
        Value::Stored(_, offset) => format!("load[uint32]({})", place("at", *offset)),
        Value::Block => "uint32(at)".to_owned(),
        Value::Answer => "uint32(answer)".to_owned(),
    };
    let args: Vec<_> = call.args.iter().map(|passed| arg(&passed.value, passed.core)).collect();
    let args = if args.len() > 8 { format!("\n\t{},\n", args.join(",\n\t")) } else { args.join(", ") };
    let body = body(contract, &call, &format!("{import}({args})"))?;
    let results = call.result.map(|ty| Ok::<_, anyhow::Error>(format!(" {}", results(contract, ty)?))).transpose()?;
    let results = results.unwrap_or_default();
    write!(text, "\nfunc {name}({}){results} {{\n{}}}\n", params.join(", "), indented(&body, "\t"))?;
    Ok(text)
}

fn body(contract: &Contract, call: &Call<'_>, made: &str) -> Result<String> {
    let mut body = String::new();
    if call.block + call.answer > 0 {
        body += "defer borrow()()\n";
    }
    let answer = call.block.next_multiple_of(8);
    match (call.block, call.answer) {
        (0, 0) => {}
        (0, size) => writeln!(body, "answer := block({size})")?,
        (size, 0) => writeln!(body, "at := block({size})")?,
        (_, size) => write!(body, "at := block({})\nanswer := at + {answer}\n", answer + size)?,
    }
    for field in call.stored() {
        body += &store(contract, field.ty, "at", field.offset, &camel(&field.name))?;
    }
    match call.result {
        Some(ty) if call.answer > 0 => {
            write!(body, "stopCollector()\n{made}\nstartCollector()\n{}", lift_results(contract, ty)?)?;
        }
        Some(ty) if matches!(contract.kind(ty)?, Kind::Time) => writeln!(body, "return fromMillis({made})")?,
        Some(_) => writeln!(body, "return {made}")?,
        None => writeln!(body, "{made}")?,
    }
    Ok(body)
}

fn exports(contract: &Contract, interface: &Interface<'_>) -> Result<String> {
    interface.functions.iter().map(|function| export(contract, interface, function)).collect()
}

/// Calls a function of the package that has the export's name, such as `handlerHandle`.
fn export(contract: &Contract, interface: &Interface<'_>, function: &Function) -> Result<String> {
    let result = function.result.as_ref().context("it returns nothing")?;
    let Kind::Result(ok, Some(err)) = contract.kind(result)? else {
        bail!("`{}` returns no result: teach tools/guest-abi to export it", function.name)
    };
    let name = camel(interface.name) + &pascal(&function.name);
    let wasm = format!("wasm{}", pascal(interface.name) + &pascal(&function.name));
    let export = format!("{}#{}", interface.path, function.name);
    let (takes, read, given) = match export_param(contract, function)? {
        Some(ty) => ("at address", format!("value := {}\nrelease()\n", lift(contract, ty, "at", 0)?), "value"),
        None => Default::default(),
    };
    let offset = contract.payload([ok, Some(err)]);
    let stored_err = store(contract, err, "answer", offset, "*err")?;
    let (results, stored_ok) = match ok {
        Some(ok) => ("ok, err", format!(" else {{\n\t{}}}", store(contract, ok, "answer", offset, "ok")?)),
        None => ("err", String::new()),
    };
    let body = format!(
        "{read}startCollector()
{results} := {name}({given})
stopCollector()
answer := block({})
store(answer, err != nil)
if err != nil {{
\t{stored_err}}}{stored_ok}
return answer
",
        contract.size(result)
    );
    Ok(format!(
        "\n//go:wasmexport {export}\nfunc {wasm}({takes}) address {{\n{}}}
\n// Called once the host has read the answer.
//\n//go:wasmexport cabi_post_{export}\nfunc {wasm}Post(address) {{ release() }}\n",
        indented(&body, "\t"),
    ))
}
