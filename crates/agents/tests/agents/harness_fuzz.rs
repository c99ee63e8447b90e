//! Readers accept any input: any bytes, in any pieces, and recorded lines with exchanged values. A reader never panics, gives the
//! same events however the bytes were split, and gives at most one end of turn.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use crate::recordings::stdout_of;
use agents::harness::verdict::Ending;
use agents::harness::{AgentEvent, Provider, Recording, Transcript, replay};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Lines that each provider printed.
static LINES: LazyLock<Vec<(Provider, Vec<Value>)>> = LazyLock::new(|| {
    let read = |provider: Provider| {
        let text = ["multi", "cutok", "e401", "toolfail"].map(|name| stdout_of(provider, name));
        let lines =
            text.iter().flat_map(|text| text.lines()).map(|line| ground::json::read_own(line).unwrap());
        (provider, lines.collect())
    };
    Provider::ALL.map(read).into()
});

fn provider() -> impl Strategy<Value = Provider> {
    proptest::sample::select(Provider::ALL.to_vec())
}

fn odd_value() -> impl Strategy<Value = Value> {
    let values = vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!(""),
        json!([]),
        json!({}),
        json!([[{}]]),
        json!({"type": 5}),
        json!(18_446_744_073_709_551_615u64),
    ];
    proptest::sample::select(values)
}

/// Every place in the value, in a fixed order.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| places(item, &format!("{path}/{index}"), found))
        }
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            places(field, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), found);
        }),
        _ => {}
    }
}

fn events_of(provider: Provider, bytes: &[u8], cuts: &[usize]) -> Vec<AgentEvent> {
    let mut transcript = Transcript::new(provider, true, None);
    let mut at = 0;
    for cut in cuts.iter().copied().filter(|cut| *cut <= bytes.len()) {
        transcript.feed(&bytes[at.min(cut)..cut]);
        at = at.max(cut);
    }
    transcript.feed(&bytes[at..]);
    transcript.finish();
    transcript.digest.take_events()
}

fn ends(events: &[AgentEvent]) -> usize {
    events.iter().filter(|event| matches!(event, AgentEvent::End { .. })).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_in_any_pieces(
        provider in provider(),
        bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'{'), Just(b'"'), any::<u8>()], 0..600),
        mut cuts in proptest::collection::vec(0usize..600, 0..20),
    ) {
        cuts.sort_unstable();
        prop_assert_eq!(events_of(provider, &bytes, &cuts), events_of(provider, &bytes, &[]));
    }

    #[test]
    fn recorded_lines_with_other_values_in_them(
        which in 0usize..Provider::ALL.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), odd_value()), 1..12),
        dropped in any::<prop::sample::Index>(),
        exit in prop_oneof![Just(None), (0i32..256).prop_map(Some)],
    ) {
        let (provider, lines) = &LINES[which];
        let mut lines = lines.clone();
        for (line, place, value) in changes {
            let line = line.get_mut(&mut lines);
            let mut found = Vec::new();
            places(line, "", &mut found);
            if let Some(spot) = line.pointer_mut(&found[place.index(found.len())]) {
                *spot = value;
            }
        }
        lines.remove(dropped.index(lines.len()));
        let stdout = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let ending = exit.map_or(Ending::Unknown, Ending::Exited);
        let replay = replay(*provider, &Recording { stdout: stdout.as_bytes(), stderr: "", ending });
        prop_assert!(ends(&replay.events) <= 1);
        if ends(&replay.events) == 1 {
            let is_last = matches!(replay.events.last(), Some(AgentEvent::End { .. }));
            prop_assert!(is_last);
        }
        if replay.fault.is_none() {
            let is_good = replay.events.contains(&AgentEvent::End { ok: true });
            prop_assert!(is_good);
        }
    }
}
