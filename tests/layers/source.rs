//! The sources of the crates, as the laws read them.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) struct Source {
    /// `sheepdog` is the addon.
    pub(crate) home: String,
    /// Below the crate's `src`.
    pub(crate) path: PathBuf,
    /// Without comments and tests.
    pub(crate) code: String,
    pub(crate) is_pure: bool,
}

impl Source {
    /// The module at the root of the crate that the file belongs to.
    pub(crate) fn room(&self) -> String {
        let first = self.path.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
        first.trim_end_matches(".rs").to_owned()
    }

    pub(crate) fn shown(&self) -> String {
        format!("{}: {}", self.home, self.path.display())
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The crates by name, and the folders of their manifests.
pub(crate) fn crates() -> Vec<(String, PathBuf)> {
    let mut found = vec![("sheepdog".to_owned(), root().to_owned())];
    for entry in fs::read_dir(root().join("crates")).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    found
}

pub(crate) fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for (home, folder) in crates() {
        let below = folder.join("src");
        let mut open = vec![below.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test_file(&path)
                {
                    let text = fs::read_to_string(&path).expect("a source");
                    found.push(Source {
                        home: home.clone(),
                        is_pure: text.lines().next().is_some_and(|line| line.contains("PURE")),
                        code: strip(&text),
                        path: path.strip_prefix(&below).expect("below src").to_path_buf(),
                    });
                }
            }
        }
    }
    assert!(found.len() > 300, "only {} sources were found", found.len());
    found
}

fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.components().any(|part| part.as_os_str() == "tests")
        || name.ends_with("tests.rs")
        || name.ends_with("_test.rs")
}

/// Code alone: comments go, and everything from the test module on.
pub(crate) fn strip(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let code = code.split("#[cfg(all(test,").next().unwrap_or(code);
    // An address in a string is no comment.
    let comment =
        |line: &str| line.match_indices("//").map(|(at, _)| at).find(|at| !line[..*at].ends_with(':'));
    code.lines().map(|line| &line[..comment(line).unwrap_or(line.len())]).collect::<Vec<_>>().join("\n")
}
