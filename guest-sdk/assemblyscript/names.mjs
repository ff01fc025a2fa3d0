// A transform of the compiler: gives exports the names that the contract wants and AssemblyScript cannot spell.
export function afterCompile(module) {
  for (const [name, contract] of [
    ["handle", "gristmill:job/handler@0.1.0#handle"],
    ["postHandle", "cabi_post_gristmill:job/handler@0.1.0#handle"],
  ]) {
    module.addFunctionExport(`node_modules/gristmill-guest-assemblyscript/glue/${name}`, contract);
    module.removeExport(name);
  }
}
