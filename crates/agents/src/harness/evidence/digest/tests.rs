use super::*;

#[test]
fn a_message_is_told_in_pieces_or_whole_never_both() {
    let mut digest = Digest::new(true);
    digest.text_delta("Hel");
    digest.text_delta("lo");
    digest.text(None, "Hello");
    digest.text(None, "Bye");
    let texts: Vec<_> = digest
        .take_events()
        .into_iter()
        .map(|event| serde_json::to_value(event).unwrap()["text"].clone())
        .collect();
    assert_eq!(texts, ["Hel", "lo", "Bye"]);
    assert_eq!(digest.final_text(), "Bye");
}

#[test]
fn parts_of_one_message_join_and_the_next_message_replaces_them() {
    let mut digest = Digest::new(false);
    digest.text(Some("1"), "a");
    digest.text(Some("1"), "b");
    assert_eq!(digest.final_text(), "ab");
    digest.text(Some("2"), "c");
    assert_eq!(digest.final_text(), "c");
}

#[test]
fn a_total_is_told_as_what_is_new() {
    let mut digest = Digest::new(true);
    let usage = |tokens| Usage { input_tokens: tokens, ..Usage::default() };
    digest.usage_total(usage(10));
    digest.usage_total(usage(15));
    assert_eq!(digest.take_events(), [AgentEvent::Usage(usage(10)), AgentEvent::Usage(usage(5))]);
    assert_eq!(digest.total_usage(), Some(usage(15)));
}

#[test]
fn a_count_that_the_agent_made_up_does_not_overflow() {
    let mut digest = Digest::new(false);
    digest.set_turns(u64::MAX);
    digest.model_answered();
    digest.model_speaks();
    assert_eq!(digest.turns(), u64::MAX);
}

#[test]
fn an_answer_that_was_cut_is_warned_of_once() {
    let mut digest = Digest::new(false);
    for _ in 0..20 {
        digest.text_delta(&"x".repeat(1 << 20));
    }
    digest.output_ended();
    digest.output_ended();
    assert_eq!(digest.warnings(), [LEFT_OUT]);
}
