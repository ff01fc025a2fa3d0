//! Certificates of an authority that one test made up.

use std::fs;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority, and the PEM files of what it issued, in a folder of its own.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Certificates {
    /// An authority, in `ca.pem`.
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificates = Self {
            folder: TempDir::with_prefix("gristmill-certificates-").unwrap(),
            issuer: Issuer::new(params.clone(), KeyPair::try_from(key.serialize_der()).unwrap()),
        };
        certificates.write("ca.pem", "CERTIFICATE", params.self_signed(&key).unwrap().der());
        certificates
    }

    /// Issues `WHO.pem` with its key `WHO-key.pem`, for a server of these names or for a client.
    pub fn issue(&self, who: &str, names: &[&str]) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, who);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{who}.pem"), "CERTIFICATE", certificate.der());
        self.write(&format!("{who}-key.pem"), "PRIVATE KEY", &key.serialize_der());
    }

    /// In PEM's form.
    fn write(&self, file: &str, label: &str, der: &[u8]) {
        let text = STANDARD.encode(der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let pem = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"));
        fs::write(self.path(file), pem).unwrap();
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}
