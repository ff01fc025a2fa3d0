//! Every limit, at its edge and one past it.

use std::sync::Arc;
use std::time::Duration;

use super::guest::handler;
use super::{attempt, limited, listen, load};
use gristmill_core::outcome::{LimitName, Outcome};

const FOR_EVER: &str = "(loop $for_ever (br $for_ever)) (call $done)";
const ECHO: &str = "(call $return (call $body (local.get $job)) (call $body_n (local.get $job)))";

fn done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Complete(_))
}

#[tokio::test]
async fn fuel_ends_a_loop_and_is_all_used() {
    let report = load(&handler("", FOR_EVER)).await.invoke(limited("", |limits| limits.fuel = 250_000)).await;
    assert_eq!(report.outcome, Outcome::OutOfFuel { limit: 250_000 });
    assert_eq!(report.fuel, 250_000);
}

#[tokio::test]
async fn the_same_job_uses_the_same_fuel() {
    let component = load(&handler("", ECHO)).await;
    let used = component.invoke(attempt("x")).await.fuel;
    let exact = component.invoke(limited("x", |limits| limits.fuel = used)).await;
    assert!(done(&exact.outcome) && exact.fuel == used, "{exact:?}");
    // Fuel is looked at where functions and loops begin, so a little less may still do.
    let short = component.invoke(limited("x", |limits| limits.fuel = used / 2)).await;
    assert_eq!(short.outcome, Outcome::OutOfFuel { limit: used / 2 });
}

#[tokio::test]
async fn the_deadline_ends_a_loop_that_has_fuel_for_hours() {
    let timeout = Duration::from_millis(30);
    let attempt = limited("", |limits| (limits.fuel, limits.timeout) = (u64::MAX, timeout));
    let report = load(&handler("", FOR_EVER)).await.invoke(attempt).await;
    assert_eq!(report.outcome, Outcome::TimedOut { limit: timeout });
    assert!(report.duration >= timeout && report.duration < Duration::from_secs(60), "{:?}", report.duration);
    assert!(report.fuel > 0);
}

#[tokio::test]
async fn a_kill_ends_a_loop_and_its_fuel_counts() {
    let attempt = limited("", |limits| (limits.fuel, limits.timeout) = (u64::MAX, Duration::from_secs(3600)));
    let control = Arc::clone(&attempt.cancellation.control);
    let component = load(&handler("", FOR_EVER)).await;
    // Polled whenever the guest yields.
    let kill = async {
        tokio::task::yield_now().await;
        control.cancel();
        tokio::task::yield_now().await;
        assert!(control.is_unwanted() && !control.is_killed());
        control.kill();
    };
    let (report, ()) = tokio::join!(component.invoke(attempt), kill);
    assert_eq!(report.outcome, Outcome::Killed);
    assert!(report.fuel > 0);
}

#[tokio::test]
async fn memory_at_its_limit_is_fine_and_a_page_more_is_not() {
    let grow = "(memory.grow (i32.load8_u (call $body (local.get $job))))
        (if (i32.lt_s (i32.const 0)) (then unreachable)) (call $done)";
    let component = load(&handler("", grow)).await;
    let four_pages = |grow: u8| limited([grow], |limits| limits.memory_bytes = 4 << 16);
    let report = component.invoke(four_pages(3)).await;
    assert!(done(&report.outcome) && report.memory_peak == 4 << 16, "{report:?}");
    let report = component.invoke(four_pages(4)).await;
    assert_eq!(report.outcome, Outcome::MemoryExceeded { limit: 4 << 16, peak: 1 << 16 });
}

#[tokio::test]
async fn a_guest_that_lives_with_less_memory_lives() {
    let component = load(&handler("", "(drop (memory.grow (i32.const 9999))) (call $done)")).await;
    assert!(done(&component.invoke(attempt("")).await.outcome));
}

#[tokio::test]
async fn a_guest_that_begins_with_too_much_memory_does_not_begin() {
    let attempt = limited("", |limits| limits.memory_bytes = 1 << 10);
    let outcome = load(&handler("", "(call $done)")).await.invoke(attempt).await.outcome;
    assert_eq!(outcome, Outcome::MemoryExceeded { limit: 1 << 10, peak: 0 });
}

#[tokio::test]
async fn growing_memory_costs_fuel() {
    let grow = "(drop (memory.grow (i32.const 100))) (call $done)";
    let fuel = load(&handler("", grow)).await.invoke(attempt("")).await.fuel;
    assert!((100 * 255..100 * 255 + 500).contains(&fuel), "{fuel}");
}

#[tokio::test]
async fn host_calls_are_counted() {
    let component =
        load(&handler("", "(drop (call $now)) (drop (call $fuel)) (drop (call $is_cancelled)) (call $done)")).await;
    assert!(done(&component.invoke(limited("", |limits| limits.host_calls = 3)).await.outcome));
    let outcome = component.invoke(limited("", |limits| limits.host_calls = 2)).await.outcome;
    assert_eq!(outcome, Outcome::LimitExceeded { limit: LimitName::HostCalls, allowed: 2 });
}

#[tokio::test]
async fn a_body_over_its_limit_costs_nothing() {
    let component = load(&handler("", ECHO)).await;
    assert!(done(&component.invoke(limited("1234", |limits| limits.payload_bytes = 4)).await.outcome));
    let report = component.invoke(limited("12345", |limits| limits.payload_bytes = 4)).await;
    assert_eq!(report.outcome, Outcome::LimitExceeded { limit: LimitName::Payload, allowed: 4 });
    assert_eq!(report.fuel, 0);
}

#[tokio::test]
async fn results_and_failures_are_limited() {
    let echo = load(&handler("", ECHO)).await;
    let five = |limits: &mut gristmill_core::topic::Limits| limits.output_bytes = 5;
    let over = Outcome::LimitExceeded { limit: LimitName::Output, allowed: 5 };
    assert!(done(&echo.invoke(limited("12345", five)).await.outcome));
    assert_eq!(echo.invoke(limited("123456", five)).await.outcome, over);

    let fail = load(&handler("", "(call $fail (i32.const 1))")).await;
    assert!(matches!(fail.invoke(limited("", five)).await.outcome, Outcome::Reject(_)));
    let four = limited("", |limits| limits.output_bytes = 4);
    assert!(matches!(fail.invoke(four).await.outcome, Outcome::LimitExceeded { limit: LimitName::Output, allowed: 4 }));
}

#[tokio::test]
async fn bytes_that_no_honest_call_passes_end_the_guest() {
    let functions = "(func $huge (drop (memory.grow (i32.const 99))))";
    let emit = "(call $huge) (call $emit (i32.const 2) (i32.const 0) (i32.const 6000000) (i32.const 0) (i32.const 0))
        (call $done)";
    let outcome = load(&handler(functions, emit)).await.invoke(attempt("")).await.outcome;
    assert_eq!(outcome, Outcome::LimitExceeded { limit: LimitName::HostCallBytes, allowed: 2 << 20 });
    let result = "(call $huge) (call $return (i32.const 0) (i32.const 6000000))";
    let outcome = load(&handler(functions, result)).await.invoke(attempt("")).await.outcome;
    assert_eq!(outcome, Outcome::LimitExceeded { limit: LimitName::Output, allowed: 1 << 20 });
}

#[tokio::test]
async fn log_lines_over_the_limit_are_dropped_and_counted() {
    let emit = "(call $emit (i32.const 2) (i32.const 2100) (i32.const 5) (i32.const 0) (i32.const 0))";
    let component = load(&handler("", &format!("{} (call $done)", emit.repeat(4)))).await;
    let mut attempt = limited("", |limits| limits.log_bytes = 14);
    let lines = listen(&mut attempt);
    let report = component.invoke(attempt).await;
    assert!(done(&report.outcome));
    assert_eq!(report.log_lines_dropped, 2);
    let messages: Vec<String> = lines.lock().iter().map(|line| line.message.clone()).collect();
    assert_eq!(messages, ["abchi", "abchi", "2 log lines dropped"]);
}

#[tokio::test]
async fn fields_without_text_take_room_in_the_log_too() {
    // The fields are read from memory that is zero: a thousand pairs of empty strings.
    let emit = "(call $emit (i32.const 2) (i32.const 5000) (i32.const 0) (i32.const 32768) (i32.const 1000))";
    let component = load(&handler("", &format!("{emit} (call $done)"))).await;
    let report = component.invoke(limited("", |limits| limits.log_bytes = 2_000)).await;
    assert_eq!(report.log_lines_dropped, 1);
}
