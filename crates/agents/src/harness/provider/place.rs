//! PURE: the places of a CLI's own files, as its descriptor writes them: `$VARIABLE/folder|~/folder`.

use std::path::{Path, PathBuf};

/// The first of the alternatives whose variable is set.
pub(crate) fn resolve(place: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    // An agent that its user described has absolute paths too.
    if Path::new(place).is_absolute() {
        return Some(PathBuf::from(place));
    }
    place.split('|').find_map(|alternative| {
        let (head, rest) = alternative.split_once('/').unwrap_or((alternative, ""));
        // A relative one would be another folder for the CLI than for us.
        let base = variable(head.strip_prefix('$').unwrap_or("HOME"))
            .filter(|base| Path::new(base).is_absolute())?;
        Some(if rest.is_empty() { PathBuf::from(base) } else { Path::new(&base).join(rest) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Provider;

    #[test]
    fn a_place_of_a_described_agent_is_where_it_says() {
        let folder = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        for (place, path) in [("/var/lib/goose", "/var/lib/goose"), ("~/.goose", "/home/me/.goose")] {
            assert_eq!(resolve(place, &folder), Some(PathBuf::from(path)));
        }
    }

    #[test]
    fn logs_and_sessions_move_with_the_state_of_their_cli() {
        let mut places = 0;
        for provider in Provider::ALL {
            let descriptor = provider.descriptor();
            let Some(state) = &descriptor.own_state else { continue };
            let logs = [
                descriptor.session_log.map(|log| log.place),
                provider.protocol().log.map(|log| log.place),
                descriptor.session_files.map(|files| files.root),
            ];
            for place in logs.into_iter().flatten() {
                for moved in [Some("/moved"), Some(""), Some("moved"), None] {
                    let variable = |name: &str| match name {
                        "HOME" => Some("/home/me".to_owned()),
                        _ if name == state.variable => moved.map(str::to_owned),
                        _ => None,
                    };
                    let root = resolve(state.root, &variable).unwrap();
                    let found = resolve(place, &variable).unwrap();
                    assert!(found.starts_with(&root), "{provider:?}: {found:?} is not below {root:?}");
                    places += 1;
                }
            }
        }
        assert!(places >= 4 * 8, "{places}");
    }
}
