use super::{LONG_BEFORE_IT_ENDS, assert_all_dead, assert_within, is_alive, pids_in, result_of, shell};
use process::{Containment, ProcessSpec, Strays};
use std::time::{Duration, Instant};

/// With a guard and without: the same must hold.
const BOTH: [Containment; 2] = [Containment::Auto, Containment::Group];

fn contained(script: &str, containment: Containment) -> ProcessSpec {
    ProcessSpec { containment, ..shell(script) }
}

#[tokio::test]
async fn done_is_the_exit_although_a_grandchild_holds_the_pipes() {
    for containment in BOTH {
        let begun = Instant::now();
        let result = result_of(contained("sleep 60 & echo $!; exit 4", containment)).await;
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        assert_eq!(result.exit_code, Some(4));
        assert!(result.pipes_held_open);
        assert_eq!(result.strays_killed, 1);
        assert_all_dead(&pids_in(&result.stdout));
    }
}

#[tokio::test]
async fn what_others_still_print_within_the_drain_is_read() {
    for containment in BOTH {
        let mut spec = contained("(sleep 0.1; echo late) & echo early", containment);
        spec.drain = Duration::from_secs(20);
        let result = result_of(spec).await;
        assert_eq!(result.stdout, "early\nlate\n");
        assert!(!result.pipes_held_open);
        // Without a guard, one that has closed its pipes and is just ending still counts as alive.
        assert!(result.strays_killed == 0 || containment == Containment::Group);
    }
}

#[tokio::test]
async fn a_stray_without_pipes_is_killed_at_once() {
    for containment in BOTH {
        let mut spec = contained("setsid sleep 60 >/dev/null 2>&1 & echo $!", containment);
        spec.drain = Duration::from_secs(30);
        let begun = Instant::now();
        let result = result_of(spec).await;
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        assert_eq!((result.strays_killed, result.pipes_held_open), (1, false));
        assert_all_dead(&pids_in(&result.stdout));
    }
}

#[tokio::test]
async fn strays_are_kept_when_asked_for() {
    for containment in BOTH {
        let mut spec = contained("sleep 60 >/dev/null 2>&1 & echo $!", containment);
        spec.strays = Strays::Keep;
        let result = result_of(spec).await;
        let stray = pids_in(&result.stdout)[0];
        assert_eq!(result.strays_killed, 0);
        assert!(is_alive(stray));
        assert!(
            std::process::Command::new("kill")
                .args(["-9", &stray.to_string()])
                .status()
                .expect("kill")
                .success()
        );
    }
}

#[tokio::test]
async fn a_double_forked_daemon_with_its_own_session_is_killed() {
    for containment in BOTH {
        let script = "(setsid sh -c '(sleep 60 & echo $!) ; exit' &) ; sleep 0.1";
        let result = result_of(contained(script, containment)).await;
        assert_eq!(result.strays_killed, 1);
        assert_all_dead(&pids_in(&result.stdout));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_without_mark_and_descriptors_is_killed_by_the_guard() {
    let script = "setsid env -i sleep 60 </dev/null >/dev/null 2>&1 & echo $!; sleep 0.1";
    let result = result_of(contained(script, Containment::Auto)).await;
    assert_eq!(result.strays_killed, 1);
    assert_all_dead(&pids_in(&result.stdout));
}

#[tokio::test]
async fn exit_status_signal_and_usage_are_reported() {
    for containment in BOTH {
        let result = result_of(contained("kill -USR1 $$", containment)).await;
        assert_eq!((result.exit_code, result.signal.as_deref()), (None, Some("SIGUSR1")));
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let result = result_of(contained(busy, containment)).await;
        assert!(result.usage.user_ms + result.usage.system_ms > 10.0, "{:?}", result.usage);
        assert!(result.usage.max_rss_bytes > 100_000);
        assert!(result.duration_ms >= 10.0);
    }
}
