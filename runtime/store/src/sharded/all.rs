//! Several futures at once, on the task that waits for them.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// One that runs, and what came of it.
type Running<F> = (Pin<Box<F>>, Option<<F as Future>::Output>);

/// Drives all to their ends; answers in the order given. For few at a time: each wake-up looks at every one.
pub(super) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Running<F>> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    // One alone needs nobody to look after it.
    if let [(only, _)] = running.as_mut_slice() {
        return vec![only.await];
    }
    poll_fn(|context| {
        let mut pending = false;
        for (future, answer) in running.iter_mut().filter(|(_, answer)| answer.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(done) => *answer = Some(done),
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn answers_come_in_the_order_asked_whoever_is_ready_first() {
        let (late, wait) = oneshot::channel();
        let first: Pin<Box<dyn Future<Output = u8>>> = Box::pin(async { wait.await.unwrap() });
        let second: Pin<Box<dyn Future<Output = u8>>> = Box::pin(async move {
            late.send(1).unwrap();
            2
        });
        assert_eq!(all([first, second]).await, [1, 2]);
        assert!(all(Vec::<std::future::Ready<()>>::new()).await.is_empty());
    }
}
