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
    assert_eq!(digest.usage.total(), Some(usage(15)));
}

#[test]
fn a_count_that_the_agent_made_up_does_not_overflow() {
    let mut digest = Digest::new(false);
    digest.steps.turns = u64::MAX;
    digest.model_answered();
    digest.model_speaks();
    assert_eq!(digest.steps.turns, u64::MAX);
}

#[test]
fn an_answer_that_was_cut_is_warned_of_once() {
    let mut digest = Digest::new(false);
    for _ in 0..20 {
        digest.text_delta(&"x".repeat(1 << 20));
    }
    digest.output_ended();
    digest.output_ended();
    assert_eq!(digest.warnings, [LEFT_OUT]);
}

fn text(text: &str, delta: bool) -> AgentEvent {
    AgentEvent::Text { text: text.to_owned(), delta }
}

#[test]
fn where_messages_join_the_answer_is_what_was_said_after_the_last_tool_call() {
    let mut digest = Digest::new(false);
    digest.words(None, "I will ", false);
    digest.words(None, "look.", false);
    digest.tool_called();
    assert_eq!(digest.final_text(), "");
    digest.words(Some("a"), "It is ", false);
    digest.words(Some("a"), "done.", false);
    digest.words(Some("b"), "And more.", false);
    assert_eq!((digest.final_text(), digest.answer.last_piece()), ("It is done.\n\nAnd more.", "And more."));
    assert_eq!((digest.steps.turns, digest.steps.tool_calls), (2, 1));
}

#[test]
fn a_whole_message_replaces_its_pieces_and_is_not_told_twice() {
    let mut digest = Digest::new(true);
    digest.words(Some("a"), "Hel", false);
    digest.words(Some("a"), "lo", false);
    digest.words(Some("a"), "Hello", true);
    assert_eq!(digest.take_events(), [text("Hel", true), text("lo", true)]);
    digest.words(Some("a"), "Hello!", true);
    assert_eq!(digest.take_events(), [text("Hello!", false)]);
    assert_eq!(digest.final_text(), "Hello!");
}

#[test]
fn tokens_of_several_ends_are_summed_and_those_in_passing_count_before_an_end() {
    let usage = |tokens| Usage { input_tokens: tokens, ..Usage::default() };
    let mut digest = Digest::new(false);
    digest.usage.add_passing(usage(5));
    digest.part_ends(Some(usage(10)), Some(0.5));
    digest.usage.add_passing(usage(7));
    assert_eq!(digest.usage.total().map(|usage| usage.input_tokens), Some(17));
    digest.part_ends(None, None);
    let total = digest.usage.total().unwrap();
    assert_eq!((total.input_tokens, total.cost_usd), (17, Some(0.5)));
}

#[test]
fn an_answer_of_joined_messages_without_end_is_bounded_and_told_once() {
    let mut digest = Digest::new(true);
    for _ in 0..20 {
        digest.words(None, &"\u{e9}".repeat(1 << 20), false);
    }
    assert!(digest.final_text().len() <= 16 << 20);
    let warnings =
        digest.take_events().into_iter().filter(|event| matches!(event, AgentEvent::Warning { .. }));
    assert_eq!(warnings.count(), 1);
}
