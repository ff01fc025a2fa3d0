//! A call of an import: which of its parameters lie in memory, and what is passed.

use anyhow::{Context, Result, bail};
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{Function, Type};

use crate::contract::{Contract, Field, Kind};

/// Parameters that are no plain values are written to a block of memory. What is passed is its address, or what lies in it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) params: Vec<Param<'a>>,
    /// Bytes of the parameters' block; 0 if there is none.
    pub(crate) block: usize,
    pub(crate) args: Vec<Arg<'a>>,
    /// Bytes of the block for what it returns; 0 if it returns a plain value or nothing.
    pub(crate) answer: usize,
    pub(crate) result: Option<&'a Type>,
}

#[derive(Debug)]
pub(crate) struct Param<'a> {
    pub(crate) field: Field<'a>,
    pub(crate) is_stored: bool,
}

#[derive(Debug)]
pub(crate) struct Arg<'a> {
    /// `u32`, `u64`, or `usize` for an address or a length.
    pub(crate) core: &'static str,
    pub(crate) value: Value<'a>,
}

#[derive(Debug)]
pub(crate) enum Value<'a> {
    Param(Field<'a>),
    /// What lies in the parameters' block, as this type and at this offset.
    Stored(&'static str, usize),
    Block,
    Answer,
}

impl<'a> Call<'a> {
    pub(crate) fn of(contract: &'a Contract, function: &'a Function) -> Result<Self> {
        let signature = contract.resolve.wasm_signature(AbiVariant::GuestImport, function);
        let fields = contract.fields(function.params.iter().map(|param| (param.name.clone(), &param.ty)));
        let mut args = Vec::new();
        let mut params = Vec::new();
        for field in fields {
            let is_plain = matches!(contract.kind(field.ty)?, Kind::Plain(_) | Kind::Time | Kind::Enum(..));
            if !signature.indirect_params && is_plain {
                args.push(Value::Param(field.clone()));
            } else if !signature.indirect_params {
                flatten(contract, field.ty, field.offset, &mut args)?;
            }
            params.push(Param { is_stored: signature.indirect_params || !is_plain, field });
        }
        if signature.indirect_params {
            args.push(Value::Block);
        }
        if signature.retptr {
            args.push(Value::Answer);
        }
        let is_stored = params.iter().any(|param| param.is_stored);
        let core = |core: &WasmType| match core {
            WasmType::I32 => Ok("u32"),
            WasmType::I64 => Ok("u64"),
            WasmType::Pointer | WasmType::Length => Ok("usize"),
            other => bail!("`{}` takes a {other:?}: teach tools/guest-abi to pass it", function.name),
        };
        let args = args
            .into_iter()
            .zip(&signature.params)
            .map(|(value, passed)| Ok(Arg { core: core(passed)?, value }))
            .collect::<Result<Vec<_>>>()?;
        if args.len() != signature.params.len() {
            bail!("`{}` takes {} values, not {}", function.name, signature.params.len(), args.len());
        }
        Ok(Self {
            params,
            block: if is_stored { contract.size_of_params(function) } else { 0 },
            args,
            answer: function.result.as_ref().filter(|_| signature.retptr).map_or(0, |ty| contract.size(ty)),
            result: function.result.as_ref(),
        })
    }

    pub(crate) fn stored(&self) -> impl Iterator<Item = &Field<'a>> {
        self.params.iter().filter(|param| param.is_stored).map(|param| &param.field)
    }
}

/// The plain values that a value in memory consists of.
fn flatten(contract: &Contract, ty: &Type, offset: usize, values: &mut Vec<Value<'_>>) -> Result<()> {
    match contract.kind(ty)? {
        Kind::Plain(plain) => values.push(Value::Stored(plain, offset)),
        Kind::Time => values.push(Value::Stored("u64", offset)),
        Kind::Enum(..) => values.push(Value::Stored("u8", offset)),
        Kind::Text | Kind::Bytes | Kind::List(_) => {
            values.extend([Value::Stored("usize", offset), Value::Stored("usize", offset + 4)]);
        }
        Kind::Option(inner) => {
            values.push(Value::Stored("bool", offset));
            flatten(contract, inner, offset + contract.payload([Some(inner)]), values)?;
        }
        Kind::Record(_, fields) => {
            fields.iter().try_for_each(|field| flatten(contract, field.ty, offset + field.offset, values))?;
        }
        Kind::Pair | Kind::Variant(..) | Kind::Result(..) => {
            bail!(
                "a parameter is a variant or a tuple: put it into a list or a larger record, or teach tools/guest-abi to pass it"
            )
        }
    }
    Ok(())
}

/// The export's only parameter lies in memory, and so does its result.
pub(crate) fn export_param<'a>(contract: &Contract, function: &'a Function) -> Result<Option<&'a Type>> {
    let signature = contract.resolve.wasm_signature(AbiVariant::GuestExport, function);
    let fits =
        function.params.len() <= 1 && signature.indirect_params == (function.params.len() == 1) && signature.retptr;
    fits.then_some(()).with_context(|| {
        format!("`{}` takes or returns plain values: teach tools/guest-abi to export it", function.name)
    })?;
    Ok(function.params.first().map(|param| &param.ty))
}
