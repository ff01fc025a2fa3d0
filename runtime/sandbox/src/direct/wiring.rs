//! How a component is put together: whether one core module of it does all its work, with the host's functions behind the imports of their names.
//!
//! That is what wit-component makes of a core module: beside it are a module that passes calls on (its functions are needed before the memory
//! that they lead to) and one that fills the table of the first. A component of another shape is left as it is.

use wasm_encoder::{ComponentExportKind, ComponentExportSection, ComponentSection};
use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind,
    ComponentTypeRef, ExternalKind, FromReader, FunctionBody, Instance, Operator, Parser, Payload, SectionLimited,
    TypeRef,
};

use super::super::core_module::{HANDLE, SELF_TEST};
use super::{MEMORY, POST_RETURN, REALLOC, host};

/// By what name a component exports its main module to us. A file that exports a module by this name is refused.
pub(crate) const MAIN: &str = "gristmill-main";

/// What initialises a module of some toolchains, and is called by a component as it starts.
const INITIALIZE: &str = "_initialize";

/// By what name the module that passes calls on exports its table.
const PASSED_ON: &str = "$imports";

/// Has the component export its main module, if it is of the usual shape.
pub(crate) fn export_main(component: &mut Vec<u8>) {
    if let Some(main) = Wiring::of(component).and_then(|wiring| wiring.main()) {
        let mut exports = ComponentExportSection::new();
        exports.export(MAIN, ComponentExportKind::Module, main, None);
        exports.append_to_component(component);
    }
}

/// The index spaces of a component, as far as they matter here.
#[derive(Default)]
struct Wiring<'a> {
    modules: Vec<Module<'a>>,
    /// The interface that each instance is, if it is imported.
    interfaces: Vec<Option<&'a str>>,
    functions: Vec<Option<Function<'a>>>,
    core_instances: Vec<CoreInstance<'a>>,
    core_functions: Vec<CoreFunction<'a>>,
    core_memories: Vec<CoreExport<'a>>,
    lifts: Vec<(u32, Box<[CanonicalOption]>)>,
}

#[derive(Default)]
struct Module<'a> {
    exports: Vec<(&'a str, u32)>,
    imports: u32,
    /// It imports something else than functions.
    has_other_imports: bool,
    starts: bool,
    bodies: u32,
    /// Each of its functions passes its arguments on to the one with its own number in a table, and nothing else.
    passes_on: bool,
}

/// A function that the component imports.
#[derive(Clone, Copy)]
struct Function<'a> {
    interface: &'a str,
    name: &'a str,
}

enum CoreInstance<'a> {
    /// Of a module, with other instances behind the names of its imports.
    Module(u32, Vec<(&'a str, u32)>),
    /// Functions of the component, by name. Other items are left out.
    Functions(Vec<(&'a str, u32)>),
}

enum CoreFunction<'a> {
    Lowered(u32, Box<[CanonicalOption]>),
    Export(CoreExport<'a>),
    /// A function of the component model itself, such as to drop a resource.
    BuiltIn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct CoreExport<'a> {
    instance: u32,
    name: &'a str,
}

impl<'a> Wiring<'a> {
    /// None if the component has parts that are of no use here.
    fn of(component: &'a [u8]) -> Option<Self> {
        let (mut wiring, mut depth) = (Self::default(), 0_u32);
        for payload in Parser::new(0).parse_all(component) {
            let payload = payload.ok()?;
            match &payload {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth = depth.checked_sub(1)?,
                _ if depth == 1 => wiring.add(&payload)?,
                // On the second level are the modules, and components that wit-component puts around exports.
                _ if depth == 2 => wiring.add_inside(&payload)?,
                _ => return None,
            }
        }
        Some(wiring)
    }

    fn add(&mut self, payload: &Payload<'a>) -> Option<()> {
        match payload {
            Payload::ModuleSection { .. } => self.modules.push(Module { passes_on: true, ..Module::default() }),
            Payload::ComponentImportSection(imports) => each(imports, |import| {
                match import.ty {
                    ComponentTypeRef::Instance(_) => self.interfaces.push(Some(import.name.name)),
                    ComponentTypeRef::Type(_) => {}
                    _ => return None,
                }
                Some(())
            })?,
            Payload::ComponentAliasSection(aliases) => each(aliases, |alias| self.alias(alias))?,
            Payload::ComponentCanonicalSection(functions) => each(functions, |function| self.canonical(function))?,
            Payload::InstanceSection(instances) => each(instances, |instance| self.core_instance(instance))?,
            Payload::ComponentInstanceSection(instances) => {
                self.interfaces.extend((0..instances.count()).map(|_| None))
            }
            Payload::ComponentExportSection(exports) => each(exports, |export| {
                match export.kind {
                    _ if export.name.name == MAIN => return None,
                    ComponentExternalKind::Instance => self.interfaces.push(None),
                    ComponentExternalKind::Type => {}
                    _ => return None,
                }
                Some(())
            })?,
            Payload::ComponentStartSection { .. } => return None,
            _ => {}
        }
        Some(())
    }

    fn add_inside(&mut self, payload: &Payload<'a>) -> Option<()> {
        match payload {
            Payload::ComponentCanonicalSection(_)
            | Payload::InstanceSection(_)
            | Payload::ComponentInstanceSection(_) => None,
            payload => self.modules.last_mut()?.add(payload),
        }
    }

    fn alias(&mut self, alias: ComponentAlias<'a>) -> Option<()> {
        match alias {
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Func, instance_index, name } => {
                let interface = *self.interfaces.get(instance_index as usize)?;
                self.functions.push(interface.map(|interface| Function { interface, name }));
            }
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Type, .. }
            | ComponentAlias::Outer {
                kind: ComponentOuterAliasKind::CoreType | ComponentOuterAliasKind::Type, ..
            } => {}
            ComponentAlias::InstanceExport { .. } | ComponentAlias::Outer { .. } => return None,
            ComponentAlias::CoreInstanceExport { kind, instance_index: instance, name } => match kind {
                ExternalKind::Func => self.core_functions.push(CoreFunction::Export(CoreExport { instance, name })),
                ExternalKind::Memory => self.core_memories.push(CoreExport { instance, name }),
                _ => {}
            },
        }
        Some(())
    }

    fn canonical(&mut self, function: CanonicalFunction) -> Option<()> {
        match function {
            CanonicalFunction::Lift { core_func_index, options, .. } => {
                self.lifts.push((core_func_index, options));
                self.functions.push(None);
            }
            CanonicalFunction::Lower { func_index, options } => {
                self.core_functions.push(CoreFunction::Lowered(func_index, options));
            }
            _ => self.core_functions.push(CoreFunction::BuiltIn),
        }
        Some(())
    }

    fn core_instance(&mut self, instance: Instance<'a>) -> Option<()> {
        self.core_instances.push(match instance {
            Instance::Instantiate { module_index, args } => {
                CoreInstance::Module(module_index, args.iter().map(|arg| (arg.name, arg.index)).collect())
            }
            Instance::FromExports(exports) => {
                let functions = exports.iter().filter(|export| matches!(export.kind, ExternalKind::Func));
                CoreInstance::Functions(functions.map(|export| (export.name, export.index)).collect())
            }
        });
        Some(())
    }

    /// The index of the main module; none if the component is put together in another way.
    fn main(&self) -> Option<u32> {
        let main = self.modules.iter().position(|module| module.exports(HANDLE))?;
        let module = self.modules.get(main)?;
        let is_whole = [MEMORY, REALLOC].iter().all(|name| module.exports(name));
        let others_start = self.modules.iter().enumerate().any(|(number, module)| number != main && module.starts);
        if !is_whole || module.has_other_imports || module.exports(INITIALIZE) || others_start {
            return None;
        }
        let main = u32::try_from(main).ok()?;
        let is_main = |instance: &&CoreInstance<'_>| matches!(instance, CoreInstance::Module(of, _) if *of == main);
        let [instance] =
            self.core_instances.iter().enumerate().filter(|(_, instance)| is_main(instance)).collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let (instance, CoreInstance::Module(_, arguments)) = (u32::try_from(instance.0).ok()?, instance.1) else {
            return None;
        };
        let is_usual =
            self.lifts_as_usual(instance) && arguments.iter().all(|argument| self.is_usual(instance, *argument));
        is_usual.then_some(main)
    }

    /// The module's `handle` is the one function that could be the component's.
    fn lifts_as_usual(&self, main: u32) -> bool {
        let mut handles = 0;
        let all = self.lifts.iter().all(|(function, options)| match self.core_functions.get(*function as usize) {
            Some(CoreFunction::Export(export)) if export.instance == main && export.name == HANDLE => {
                handles += 1;
                let returns = options.iter().any(|option| matches!(option, CanonicalOption::PostReturn(_)));
                returns == self.exports_post_return() && self.has_usual_options(main, options)
            }
            Some(CoreFunction::Export(export)) => export.name == SELF_TEST,
            _ => false,
        });
        all && handles == 1
    }

    fn exports_post_return(&self) -> bool {
        self.modules.iter().any(|module| module.exports(POST_RETURN))
    }

    /// Each function that we have for an import of the main module is the one that the component gives it.
    fn is_usual(&self, main: u32, (interface, instance): (&str, u32)) -> bool {
        let Some(CoreInstance::Functions(functions)) = self.core_instances.get(instance as usize) else {
            // Another module, such as an adapter: we have none of its functions.
            return !host::has_interface(interface);
        };
        functions.iter().all(|(name, index)| {
            let ours = host::find(interface, name);
            ours.is_none()
                || self.lowered(*index).is_some_and(|(function, options)| {
                    host::find(function.interface, function.name) == ours && self.has_usual_options(main, options)
                })
        })
    }

    /// What the component's core function calls, directly or by way of the module that passes calls on.
    fn lowered(&self, function: u32) -> Option<(Function<'a>, &[CanonicalOption])> {
        match self.core_functions.get(function as usize)? {
            CoreFunction::Lowered(function, options) => {
                Some((self.functions.get(*function as usize).copied()??, options))
            }
            CoreFunction::Export(export) if self.passes_on(export.instance) => {
                // Its function number N calls what the other module gets by the name N.
                let filled = self.core_instances.iter().filter_map(|instance| match instance {
                    CoreInstance::Functions(functions) => functions.iter().find(|(name, _)| *name == export.name),
                    CoreInstance::Module(..) => None,
                });
                let [(_, index)] = filled.collect::<Vec<_>>()[..] else { return None };
                match self.core_functions.get(*index as usize)? {
                    CoreFunction::Lowered(function, options) => {
                        Some((self.functions.get(*function as usize).copied()??, options))
                    }
                    _ => None,
                }
            }
            CoreFunction::Export(_) | CoreFunction::BuiltIn => None,
        }
    }

    fn passes_on(&self, instance: u32) -> bool {
        let instance = self.core_instances.get(instance as usize);
        let Some(CoreInstance::Module(module, _)) = instance else { return false };
        self.modules.get(*module as usize).is_some_and(Module::passes_calls_on)
    }

    /// Texts are UTF-8, in the main module's memory, and it allocates them.
    fn has_usual_options(&self, main: u32, options: &[CanonicalOption]) -> bool {
        let is_core = |index: u32, expected: &str| {
            let export = self.core_functions.get(index as usize);
            matches!(export, Some(CoreFunction::Export(export)) if *export == CoreExport { instance: main, name: expected })
        };
        options.iter().all(|option| match option {
            CanonicalOption::UTF8 => true,
            CanonicalOption::Memory(memory) => {
                self.core_memories.get(*memory as usize) == Some(&CoreExport { instance: main, name: MEMORY })
            }
            CanonicalOption::Realloc(function) => is_core(*function, REALLOC),
            CanonicalOption::PostReturn(function) => is_core(*function, POST_RETURN),
            _ => false,
        })
    }
}

fn each<'a, T: FromReader<'a>>(section: &SectionLimited<'a, T>, mut add: impl FnMut(T) -> Option<()>) -> Option<()> {
    section.clone().into_iter().try_for_each(|item| add(item.ok()?))
}

impl<'a> Module<'a> {
    fn add(&mut self, payload: &Payload<'a>) -> Option<()> {
        match payload {
            Payload::ExportSection(exports) => each(exports, |export| {
                self.exports.push((export.name, export.index));
                Some(())
            })?,
            Payload::ImportSection(imports) => {
                for import in imports.clone().into_imports() {
                    self.imports += 1;
                    self.has_other_imports |= !matches!(import.ok()?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_));
                }
            }
            Payload::StartSection { .. } => self.starts = true,
            Payload::CodeSectionEntry(body) => {
                self.passes_on = self.passes_on && passes_on(body, self.bodies)?;
                self.bodies += 1;
            }
            _ => {}
        }
        Some(())
    }

    fn exports(&self, name: &str) -> bool {
        self.exports.iter().any(|(export, _)| *export == name)
    }

    /// It has functions that pass calls on by their numbers, which are their names, and the table for it.
    fn passes_calls_on(&self) -> bool {
        let is_number = |(name, function): &(&str, u32)| *name == PASSED_ON || name.parse() == Ok(*function);
        self.passes_on && self.imports == 0 && self.exports(PASSED_ON) && self.exports.iter().all(is_number)
    }
}

/// Whether the function does nothing but to call the one of its number in a table with its own arguments.
fn passes_on(body: &FunctionBody<'_>, number: u32) -> Option<bool> {
    let mut arguments = 0;
    for operator in body.get_operators_reader().ok()? {
        match operator.ok()? {
            Operator::LocalGet { local_index } if local_index == arguments => arguments += 1,
            Operator::I32Const { value } if u32::try_from(value) == Ok(number) => {}
            Operator::CallIndirect { table_index: 0, .. } | Operator::End => {}
            _ => return Some(false),
        }
    }
    Some(true)
}
