//! Components that differ from one another in nothing but their hash.

/// The component with a custom section of this text at its end. Custom sections have no meaning, but they belong
/// to the content, so the version is another and nothing compiled before fits.
pub(super) fn variant(component: &[u8], text: &str) -> Vec<u8> {
    const CUSTOM: u8 = 0;
    const NAME: &str = "bench";
    let mut content = Vec::new();
    leb128(&mut content, NAME.len());
    content.extend_from_slice(NAME.as_bytes());
    content.extend_from_slice(text.as_bytes());
    let mut bytes = component.to_vec();
    bytes.push(CUSTOM);
    leb128(&mut bytes, content.len());
    bytes.append(&mut content);
    bytes
}

/// WebAssembly's unsigned integers: seven bits a byte, lowest first, the eighth says that more follow.
fn leb128(bytes: &mut Vec<u8>, mut number: usize) {
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_a_valid_component_of_another_content() {
        // Magic number, version 13, layer 1: a component with nothing in it.
        let component = b"\0asm\x0d\0\x01\0";
        let long = "x".repeat(200);
        for text in ["1", long.as_str()] {
            let variant = variant(component, text);
            assert!(variant.len() > component.len() + text.len());
            wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all()).validate_all(&variant).unwrap();
        }
    }
}
