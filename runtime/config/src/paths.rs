//! Paths and addresses as people write them: characters that are there by mistake, and the file that a path leads to.

use std::path::{Component, Path, PathBuf};

/// Names a mistake in a path, an address or a token: a control character, as a line that ends in CR LF leaves one, or a blank at an end.
pub fn unseen(text: &str) -> Option<&'static str> {
    if text.contains(char::is_control) {
        return Some(
            "it has a control character in it, such as the end of a line (a file whose lines end in CR LF leaves one): remove it",
        );
    }
    (text.trim() != text).then_some("it begins or ends with a blank: remove that")
}

/// The file that a path leads to, by one name however it is written. It need not be there.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::ParentDir)) => {
            let mut parent = resolved(parent);
            parent.pop();
            parent
        }
        (Some(parent), Some(last)) => resolved(parent).join(last),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_one_file_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        std::os::unix::fs::symlink(real.join("a"), real.join("link")).unwrap();
        for written in ["a/f", "./a/f", "b/../a/f", "link/f", "link/../a/./f"] {
            assert_eq!(resolved(&folder.path().join(written)), real.join("a/f"), "{written}");
        }
        assert_eq!(resolved(Path::new("f")), std::env::current_dir().unwrap().canonicalize().unwrap().join("f"));
    }

    #[test]
    fn invisible_characters_are_named() {
        for (text, says) in
            [("a\r", "control"), ("a\tb", "control"), ("a\n", "control"), (" a", "blank"), ("a ", "blank")]
        {
            assert!(unseen(text).is_some_and(|problem| problem.contains(says)), "{text:?}");
        }
        assert_eq!((unseen(""), unseen("a b/ü")), (None, None));
    }
}
