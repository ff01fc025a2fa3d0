//! The contract, with where everything lies in memory.
#![expect(clippy::indexing_slicing, reason = "each id is of the arena that it indexes")]

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use wit_parser::{Function, Resolve, SizeAlign, Type, TypeDefKind, TypeId, WorldId, WorldItem, WorldKey};

/// The world that has all there is.
const WORLD: &str = "job-handler-full";

pub(crate) struct Contract {
    pub(crate) resolve: Resolve,
    sizes: SizeAlign,
    world: WorldId,
    /// Of the types that have a name, and of tuples that are the value of a variant's case.
    names: HashMap<TypeId, String>,
}

/// A type, behind all aliases.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    /// `bool`, `u8`, `u16`, `u32` or `u64`.
    Plain(&'static str),
    /// `unix-millis`, a `u64`.
    Time,
    Text,
    Bytes,
    /// `tuple<string, string>`: a name and a value.
    Pair,
    List(&'a Type),
    Option(&'a Type),
    Record(&'a str, Vec<Field<'a>>),
    Enum(&'a str, Vec<&'a str>),
    Variant(&'a str, Vec<Case<'a>>),
    Result(Option<&'a Type>, Option<&'a Type>),
}

#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: String,
    pub(crate) ty: &'a Type,
    pub(crate) offset: usize,
}

#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) name: &'a str,
    pub(crate) ty: Option<&'a Type>,
}

/// An interface that handlers import, or export.
#[derive(Debug)]
pub(crate) struct Interface<'a> {
    pub(crate) name: &'a str,
    /// As modules import and export it, such as `gristmill:job/queue@0.1.0`.
    pub(crate) path: String,
    pub(crate) functions: Vec<&'a Function>,
}

/// Types that are read from memory, and those that are written there; each after those that it consists of.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) lifted: Vec<Type>,
    pub(crate) lowered: Vec<Type>,
}

impl Used {
    /// All of them, each once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Type> {
        self.lifted.iter().chain(self.lowered.iter().filter(|ty| !self.lifted.contains(ty)))
    }
}

impl Contract {
    /// Reads the contract of this folder.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let file = folder.join("job.wit");
        let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let mut resolve = Resolve::default();
        let package = resolve.push_source("job.wit", &text)?;
        let world = resolve.select_world(&[package], Some(WORLD))?;
        let mut sizes = SizeAlign::default();
        sizes.fill(&resolve);
        let mut names = HashMap::new();
        for (id, def) in resolve.types.iter() {
            let Some(name) = &def.name else { continue };
            names.insert(id, name.clone());
            let TypeDefKind::Variant(variant) = &def.kind else { continue };
            for case in &variant.cases {
                if let Some(Type::Id(tuple)) = case.ty {
                    names.entry(tuple).or_insert_with(|| format!("{name}-{}-value", case.name));
                }
            }
        }
        Ok(Self { resolve, sizes, world, names })
    }

    pub(crate) fn imports(&self) -> Vec<Interface<'_>> {
        self.interfaces(&self.resolve.worlds[self.world].imports)
    }

    pub(crate) fn exports(&self) -> Vec<Interface<'_>> {
        self.interfaces(&self.resolve.worlds[self.world].exports)
    }

    fn interfaces<'a>(&'a self, items: impl IntoIterator<Item = (&'a WorldKey, &'a WorldItem)>) -> Vec<Interface<'a>> {
        let mut found = Vec::new();
        for (key, item) in items {
            let WorldItem::Interface { id, .. } = item else { continue };
            let interface = &self.resolve.interfaces[*id];
            let path = self.resolve.name_world_key(key);
            let name = interface.name.as_deref().unwrap_or_default();
            found.push(Interface { name, path, functions: interface.functions.values().collect() });
        }
        // Those that have functions; in the order of the file, whatever order the world names them in.
        found.retain(|interface| !interface.functions.is_empty());
        found.sort_by_key(|interface| self.position(interface.name));
        found
    }

    fn position(&self, interface: &str) -> Option<usize> {
        self.resolve.interfaces.iter().position(|(_, found)| found.name.as_deref() == Some(interface))
    }

    /// What handlers read and write: they read what imports return and exports take, and write the rest.
    pub(crate) fn used(&self) -> Result<Used> {
        let mut used = Used::default();
        for (interfaces, is_import) in [(self.imports(), true), (self.exports(), false)] {
            for function in interfaces.iter().flat_map(|interface| &interface.functions) {
                let (mut lifted, mut lowered) = (Vec::new(), Vec::new());
                let (params, results) =
                    if is_import { (&mut lowered, &mut lifted) } else { (&mut lifted, &mut lowered) };
                for param in &function.params {
                    self.collect(&param.ty, params)?;
                }
                if let Some(result) = &function.result {
                    self.collect(result, results)?;
                }
                for (found, all) in [(lifted, &mut used.lifted), (lowered, &mut used.lowered)] {
                    for ty in found {
                        if !all.contains(&ty) {
                            all.push(ty);
                        }
                    }
                }
            }
        }
        Ok(used)
    }

    /// The records, variants and enums that a type consists of.
    fn collect(&self, ty: &Type, found: &mut Vec<Type>) -> Result<()> {
        let is_named = match self.kind(ty)? {
            Kind::Plain(_) | Kind::Time | Kind::Text | Kind::Bytes | Kind::Pair => false,
            Kind::List(inner) | Kind::Option(inner) => {
                self.collect(inner, found)?;
                false
            }
            Kind::Result(ok, err) => {
                ok.into_iter().chain(err).try_for_each(|inner| self.collect(inner, found))?;
                false
            }
            Kind::Record(_, fields) => {
                fields.iter().try_for_each(|field| self.collect(field.ty, found))?;
                true
            }
            Kind::Variant(_, cases) => {
                cases.iter().filter_map(|case| case.ty).try_for_each(|inner| self.collect(inner, found))?;
                true
            }
            Kind::Enum(..) => true,
        };
        let ty = self.behind_aliases(ty);
        if is_named && !found.contains(&ty) {
            found.push(ty);
        }
        Ok(())
    }

    fn behind_aliases(&self, ty: &Type) -> Type {
        match ty {
            Type::Id(id) => match &self.resolve.types[*id].kind {
                TypeDefKind::Type(inner) => self.behind_aliases(inner),
                _ => *ty,
            },
            _ => *ty,
        }
    }

    /// Fails if no language has a form for it yet.
    pub(crate) fn kind<'a>(&'a self, ty: &'a Type) -> Result<Kind<'a>> {
        let id = match ty {
            Type::Bool => return Ok(Kind::Plain("bool")),
            Type::U8 => return Ok(Kind::Plain("u8")),
            Type::U16 => return Ok(Kind::Plain("u16")),
            Type::U32 => return Ok(Kind::Plain("u32")),
            Type::U64 => return Ok(Kind::Plain("u64")),
            Type::String => return Ok(Kind::Text),
            Type::Id(id) => *id,
            other => bail!("the contract has a `{other:?}`: teach tools/guest-abi what it is in each language"),
        };
        let def = &self.resolve.types[id];
        let name = || self.names.get(&id).map(String::as_str).context("a tuple has no name: make it a record");
        Ok(match &def.kind {
            TypeDefKind::Type(_) if def.name.as_deref() == Some("unix-millis") => Kind::Time,
            TypeDefKind::Type(inner) => self.kind(inner)?,
            TypeDefKind::List(Type::U8) => Kind::Bytes,
            TypeDefKind::List(inner) => Kind::List(inner),
            TypeDefKind::Option(inner) => Kind::Option(inner),
            TypeDefKind::Result(result) => Kind::Result(result.ok.as_ref(), result.err.as_ref()),
            TypeDefKind::Tuple(tuple) if tuple.types == [Type::String, Type::String] => Kind::Pair,
            TypeDefKind::Tuple(tuple) => {
                let fields = tuple.types.iter().enumerate().map(|(at, ty)| (format!("value{at}"), ty));
                Kind::Record(name()?, self.fields(fields))
            }
            TypeDefKind::Record(record) => {
                Kind::Record(name()?, self.fields(record.fields.iter().map(|field| (field.name.clone(), &field.ty))))
            }
            TypeDefKind::Enum(cases) => Kind::Enum(name()?, cases.cases.iter().map(|case| &*case.name).collect()),
            TypeDefKind::Variant(variant) => {
                let case = |case: &'a wit_parser::Case| Case { name: &case.name, ty: case.ty.as_ref() };
                Kind::Variant(name()?, variant.cases.iter().map(case).collect())
            }
            other => {
                bail!("the contract has a `{}`: teach tools/guest-abi what it is in each language", other.as_str())
            }
        })
    }

    /// Fields of a record, or parameters that lie in memory like one.
    pub(crate) fn fields<'a>(&self, fields: impl Iterator<Item = (String, &'a Type)>) -> Vec<Field<'a>> {
        let (names, types): (Vec<_>, Vec<_>) = fields.unzip();
        let offsets = self.sizes.field_offsets(types);
        names
            .into_iter()
            .zip(offsets)
            .map(|(name, (offset, ty))| Field { name, ty, offset: offset.size_wasm32() })
            .collect()
    }

    /// Bytes that a type takes in memory.
    pub(crate) fn size(&self, ty: &Type) -> usize {
        self.sizes.size(ty).size_wasm32()
    }

    /// Bytes that parameters take in memory.
    pub(crate) fn size_of_params(&self, function: &Function) -> usize {
        self.sizes.params(function.params.iter().map(|param| &param.ty)).size.size_wasm32()
    }

    /// Where the value of a case begins, behind the tag of one byte.
    pub(crate) fn payload<'a>(&self, cases: impl IntoIterator<Item = Option<&'a Type>>) -> usize {
        cases.into_iter().flatten().map(|ty| self.sizes.align(ty).align_wasm32()).max().unwrap_or(1)
    }
}
