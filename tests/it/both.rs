//! Cases that hold on either kind of store.

/// Makes two tests of each case: functions that take a [`TestRunner`](gristmill_tests::test_runner::TestRunner), which `runner(on)` beside them
/// starts on the store that it is told.
macro_rules! on_both_stores {
    ($($case:ident)*) => {
        on_both_stores!(embedded: Memory, $($case)*);
        on_both_stores!(redis: Redis, $($case)*);
    };
    ($module:ident: $on:ident, $($case:ident)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    super::$case(super::runner(gristmill_tests::test_runner::On::$on).await).await;
                }
            )*
        }
    };
}
