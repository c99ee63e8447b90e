//! PURE: tokens that were metered, over attempts and prompts, and in words for the user.

use crate::harness::event::Usage;
use process::Metered;

/// The tokens alone.
pub(crate) fn usage_of(metered: &Metered) -> Usage {
    Usage {
        input_tokens: metered.input_tokens,
        output_tokens: metered.output_tokens,
        cached_input_tokens: metered.cached_input_tokens,
        ..Usage::default()
    }
}

/// The figures of two meters together; the models are those of the first.
fn joined(mut one: Metered, other: &Metered, figure: fn(u64, u64) -> u64) -> Metered {
    for (one, other) in [
        (&mut one.input_tokens, other.input_tokens),
        (&mut one.output_tokens, other.output_tokens),
        (&mut one.cached_input_tokens, other.cached_input_tokens),
        (&mut one.requests, other.requests),
        (&mut one.estimated, other.estimated),
        (&mut one.unread, other.unread),
    ] {
        *one = figure(*one, other);
    }
    one
}

/// The sum of two meters.
pub(crate) fn plus(sum: Metered, other: &Metered) -> Metered {
    let mut sum = joined(sum, other, u64::saturating_add);
    for model in &other.models {
        if !sum.models.contains(model) {
            sum.models.push(model.clone());
        }
    }
    sum
}

/// The tokens since `before`. The models are those of all.
pub(crate) fn since(now: Metered, before: &Metered) -> Metered {
    joined(now, before, u64::saturating_sub)
}

/// The meter's figures for a result; `None` if there are none.
pub(crate) fn told(metered: Metered) -> Option<Metered> {
    Some(metered).filter(|metered| metered.requests > 0 || metered.unread > 0)
}

/// A warning about tokens that are not known for sure; `None` if all are.
pub(crate) fn metered_words(metered: &Metered) -> Option<String> {
    let count = |number: u64, words: &str| (number > 0).then(|| format!("{number} {words}"));
    let estimated =
        count(metered.estimated, "answers of models did not say their tokens: they were estimated");
    let unread =
        count(metered.unread, "answers could not be read: budgets count an estimate of them, or nothing");
    let words: Vec<String> = [estimated, unread].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_are_added_subtracted_and_told() {
        let models = vec!["m".to_owned()];
        let one = Metered { input_tokens: 10, output_tokens: 2, requests: 1, models, ..Metered::default() };
        let two = plus(one.clone(), &Metered { estimated: 1, ..one.clone() });
        assert_eq!((two.input_tokens, two.requests, two.models.len()), (20, 2, 1));
        assert_eq!(since(two.clone(), &one).input_tokens, 10);
        assert_eq!(metered_words(&one), None);
        assert!(metered_words(&two).unwrap().starts_with("1 answers of models"));
        assert_eq!((told(Metered::default()), told(one.clone())), (None, Some(one)));
        assert!(told(Metered { unread: 1, ..Metered::default() }).is_some());
        let unread = Metered { unread: 2, ..two };
        assert!(metered_words(&unread).unwrap().contains("; 2 answers could not be read"));
    }
}
