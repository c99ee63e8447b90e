//! PURE: usage of a run of Claude Code or Qwen Code.
//!
//! Each message reports its own usage; later lines of it repeat and correct the figures. Claude's `result` reports tokens of the
//! main agent's messages only, without sub-agents, and money accumulated over the session. Newer versions add the usage of all
//! models since the last result, which counts where there were sub-agents. Qwen's `result` accumulates tokens over the session.

use crate::harness::event::Usage;
use crate::harness::evidence::digest::Digest;
use ground::json::Json;
use ground::tokens::CachedInput;

/// The CLI, because the two report usage differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Style {
    Claude,
    Qwen,
}

impl Style {
    pub(super) fn usage(self, usage: Json) -> Option<Usage> {
        let cached = match self {
            Style::Claude => CachedInput::Beside,
            Style::Qwen => CachedInput::Within,
        };
        Usage::told(usage, cached)
    }
}

/// Most messages of sub-agents that are counted separately; further ones are added to the last.
const MAX_MESSAGES: usize = 4096;

#[derive(Debug)]
pub(super) struct MessageUsage {
    pub style: Style,
    /// Usage of the session before this turn. Qwen accumulates tokens over a session, Claude money.
    before: Usage,
    pub counted: Option<Usage>,
    /// Money of this run's results so far.
    cost: Option<f64>,
    /// Usage of the messages that have ended since the last result.
    ended: Usage,
    /// Usage of the message that is being read; at the end, of the last one.
    pub(super) current: Option<Usage>,
    /// Usage of sub-agents' messages since the last result, by message id, because their lines interleave.
    others: Vec<(String, Usage)>,
}

impl MessageUsage {
    pub(super) fn new(style: Style, before: Option<Usage>) -> Self {
        MessageUsage {
            style,
            before: before.unwrap_or_default(),
            counted: None,
            cost: None,
            ended: Usage::default(),
            current: None,
            others: Vec::new(),
        }
    }

    /// Another message begins.
    pub(super) fn next_message(&mut self) {
        self.ended = self.ended.plus(self.current.take().unwrap_or_default());
    }

    /// Takes the usage in a line of the message that is being read.
    pub(super) fn on_message(&mut self, usage: Option<Usage>, digest: &mut Digest) {
        if usage.is_some() {
            self.current = usage;
            digest.usage.set_passing(self.passing());
        }
    }

    /// Takes the usage in a line of a sub-agent's message.
    pub(super) fn on_other_message(&mut self, id: &str, usage: Option<Usage>, digest: &mut Digest) {
        let Some(usage) = usage else { return };
        let known = self.others.iter().rposition(|(other, _)| other == id);
        let last = self.others.len().saturating_sub(1);
        match known {
            Some(known) => self.others[known].1 = usage,
            None if self.others.len() < MAX_MESSAGES => self.others.push((id.to_owned(), usage)),
            None => self.others[last].1 = self.others[last].1.plus(usage),
        }
        digest.usage.set_passing(self.passing());
    }

    fn of_others(&self) -> Usage {
        self.others.iter().fold(Usage::default(), |sum, (_, usage)| sum.plus(*usage))
    }

    fn passing(&self) -> Usage {
        self.ended.plus(self.current.unwrap_or_default()).plus(self.of_others())
    }

    /// Takes the usage in a `result` line, the end of a turn.
    pub(super) fn on_result(&mut self, usage: Json, cost: Option<f64>, since: Json, digest: &mut Digest) {
        let (others, has_others) = (self.of_others(), !self.others.is_empty());
        let Some(told) = self.style.usage(usage) else { return };
        self.ended = Usage::default();
        self.current = None;
        self.others.clear();
        if self.style == Style::Qwen {
            self.counted = Some(told);
            digest.usage_total(told.since(self.before));
            return;
        }
        self.counted = cost.map(|cost| Usage { cost_usd: Some(cost), ..Usage::default() });
        let before = self.cost.unwrap_or(0.0);
        // Older versions begin anew with each process: a sum that is lower than before is this run's.
        let session = self.before.cost_usd.filter(|session| cost.is_none_or(|cost| cost >= *session));
        self.before.cost_usd = session;
        let new = cost.map(|cost| (cost - session.unwrap_or(0.0) - before).max(0.0));
        let usage = match models_of(since) {
            // The lines of its messages come before their last token. No model was asked since the last result: that one has
            // counted this result's messages (2.1.330 with a sub-agent ends with two results).
            Some(all) if has_others || all == Usage::default() => {
                Usage { cost_usd: all.cost_usd.or(new), ..all }
            }
            Some(all) => Usage { cost_usd: all.cost_usd.or(new), ..told },
            None => Usage { cost_usd: new, ..told.plus(others) },
        };
        self.cost = usage.cost_usd.map(|new| before + new).or(self.cost);
        digest.usage(usage);
    }
}

/// Usage of all models together; zero when none was asked, `None` when nothing is said about it.
fn models_of(models: Json) -> Option<Usage> {
    let of_model = |model: Json| {
        let cost_usd = model.field("costUSD").amount();
        Some(Usage { cost_usd, ..Usage::told(model, CachedInput::Beside)? })
    };
    if !models.is_object() {
        return None;
    }
    Some(models.values().filter_map(of_model).reduce(Usage::plus).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::event::CostSource;
    use ground::json::Index;
    use serde_json::{Value, json};

    fn usage(input_tokens: u64) -> Option<Usage> {
        Some(Usage { input_tokens, ..Usage::default() })
    }

    fn result(told: &mut MessageUsage, digest: &mut Digest, result: &Value) {
        let (line, mut index) = (result.to_string(), Index::default());
        let line = index.read(line.as_bytes()).unwrap();
        let [usage, cost, since] = line.fields(["usage", "total_cost_usd", "since"]);
        told.on_result(usage, cost.amount(), since, digest);
    }

    fn input(digest: &Digest) -> u64 {
        digest.usage.total().unwrap().input_tokens
    }

    fn told_at(cost: f64, tokens: Usage) -> Option<Usage> {
        Some(Usage { cost_usd: Some(cost), cost_source: Some(CostSource::Agent), ..tokens })
    }

    #[test]
    fn lines_of_one_message_correct_each_other_and_messages_add_up() {
        let (mut told, mut digest) = (MessageUsage::new(Style::Claude, None), Digest::new(false));
        for (tokens, sum) in [(100, 100), (120, 120)] {
            told.on_message(usage(tokens), &mut digest);
            assert_eq!(input(&digest), sum);
        }
        told.next_message();
        told.on_message(usage(30), &mut digest);
        told.on_message(None, &mut digest);
        assert_eq!(input(&digest), 150);
        for (id, tokens, sum) in [("a", 5, 155), ("b", 7, 162), ("a", 6, 163)] {
            told.on_other_message(id, usage(tokens), &mut digest);
            assert_eq!(input(&digest), sum, "{id}");
        }
    }

    #[test]
    fn a_result_counts_in_place_of_its_messages_and_of_its_sub_agents() {
        let (mut told, mut digest) = (MessageUsage::new(Style::Claude, None), Digest::new(false));
        told.on_message(usage(150), &mut digest);
        told.on_other_message("a", usage(600), &mut digest);
        let plain = json!({"usage": {"input_tokens": 1200}, "total_cost_usd": 0.5});
        result(&mut told, &mut digest, &plain);
        assert_eq!(digest.usage.total(), told_at(0.5, usage(1800).unwrap()));
        // The next one, after work in the background: money counts on.
        told.on_message(usage(50), &mut digest);
        assert_eq!(input(&digest), 1850);
        result(&mut told, &mut digest, &json!({"usage": {"input_tokens": 60}, "total_cost_usd": 0.75}));
        assert_eq!(digest.usage.total(), told_at(0.75, usage(1860).unwrap()));
    }

    #[test]
    fn money_that_begins_anew_with_each_process_is_this_run_s() {
        let before = Some(Usage { cost_usd: Some(0.5), ..Usage::default() });
        // The first is a version that counts on over the session.
        for (costs, sum) in [([0.75, 1.0], 0.5), ([0.125, 0.625], 0.625)] {
            let (mut told, mut digest) = (MessageUsage::new(Style::Claude, before), Digest::new(false));
            for cost in costs {
                let line = json!({"usage": {"input_tokens": 6}, "total_cost_usd": cost});
                result(&mut told, &mut digest, &line);
            }
            assert_eq!(digest.usage.total().unwrap().cost_usd, Some(sum), "{costs:?}");
        }
    }

    #[test]
    fn a_version_that_tells_all_that_is_new_is_believed() {
        let before = Some(Usage { cost_usd: Some(9.0), ..Usage::default() });
        let (mut told, mut digest) = (MessageUsage::new(Style::Claude, before), Digest::new(false));
        told.on_other_message("a", usage(600), &mut digest);
        let model = |input, cost| json!({"inputTokens": input, "outputTokens": 1, "cacheCreationInputTokens": 3, "cacheReadInputTokens": 4, "costUSD": cost});
        let newer = json!({
            "usage": {"input_tokens": 1200}, "total_cost_usd": 9.75,
            "since": {"large": model(1800, 0.5), "small": model(10, 0.25)},
        });
        result(&mut told, &mut digest, &newer);
        let expected = Usage {
            input_tokens: 1816,
            output_tokens: 2,
            cached_input_tokens: 8,
            cost_usd: Some(0.75),
            cost_source: Some(CostSource::Agent),
        };
        assert_eq!(digest.usage.total(), Some(expected));
    }

    #[test]
    fn a_result_after_which_no_model_was_asked_counts_nothing_again() {
        let (mut told, mut digest) = (MessageUsage::new(Style::Claude, None), Digest::new(false));
        told.on_message(usage(600), &mut digest);
        told.on_other_message("a", usage(600), &mut digest);
        let model =
            json!({"inputTokens": 2400, "outputTokens": 84, "cacheReadInputTokens": 1200, "costUSD": 0.01});
        let first =
            json!({"usage": {"input_tokens": 1200}, "total_cost_usd": 0.01, "since": {"large": model}});
        result(&mut told, &mut digest, &first);
        let second = json!({"usage": {"input_tokens": 600}, "total_cost_usd": 0.01, "since": {}});
        result(&mut told, &mut digest, &second);
        let expected = Usage {
            input_tokens: 2400,
            output_tokens: 84,
            cached_input_tokens: 1200,
            cost_usd: Some(0.01),
            cost_source: Some(CostSource::Agent),
        };
        assert_eq!(digest.usage.total(), Some(expected));
    }

    #[test]
    fn qwen_counts_on_over_the_session() {
        let (mut told, mut digest) = (MessageUsage::new(Style::Qwen, usage(900)), Digest::new(false));
        told.on_message(usage(700), &mut digest);
        result(&mut told, &mut digest, &json!({"usage": {"input_tokens": 2700}}));
        assert_eq!((input(&digest), told.counted), (1800, usage(2700)));
    }
}
