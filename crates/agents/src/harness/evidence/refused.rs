//! PURE: hosts and Unix sockets that a sandbox refused, in words for the user.

use process::Refused;

/// Most targets that a warning names.
const MAX_NAMED: usize = 10;

/// A warning about what the sandbox refused; `None` if it refused nothing.
pub(crate) fn refused_words(refused: &[Refused]) -> Option<String> {
    if refused.is_empty() {
        return None;
    }
    let named: Vec<&str> = refused.iter().take(MAX_NAMED).map(|refused| refused.what.as_str()).collect();
    let more = refused.len() - named.len();
    let least = if refused.iter().any(Refused::is_rest) { "at least " } else { "" };
    let more = if more > 0 { format!(", and {least}{more} more") } else { String::new() };
    Some(format!("the sandbox refused connections to {}{more}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_the_first_targets_and_counts_the_others() {
        let refused = |count: usize| -> Vec<Refused> {
            let target = |number| Refused {
                kind: process::RefusedKind::Host,
                what: format!("{number}.example:443"),
                program: None,
                count: 1,
            };
            (0..count).map(target).collect()
        };
        assert_eq!(refused_words(&[]), None);
        let words = refused_words(&refused(1)).unwrap();
        assert_eq!(words, "the sandbox refused connections to 0.example:443");
        assert!(refused_words(&refused(12)).unwrap().ends_with(", 9.example:443, and 2 more"));
        let mut many = refused(100);
        many.push(Refused { what: "further hosts".to_owned(), ..many[0].clone() });
        assert!(refused_words(&many).unwrap().ends_with(", and at least 91 more"));
    }
}
