//! Closes an order that was not paid in time.
//!
//! The delayed job at its plainest. When an order is placed, the shop pushes it here with a delay of, say, 30 minutes. If
//! the order is still unpaid when the job fires, this handler closes it and has a notification sent by another topic.

use gristmill_guest::{Failure, Job, Json, NewJob, config, handler, log};
use serde::{Deserialize, Serialize};

handler!(close_if_unpaid);

/// The payload: the order as it stands, as JSON. Fields that are not named here are ignored.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The shop's name for the order.
    pub order_id: String,
    /// The shop's name for the customer.
    pub customer: String,
    /// Anything but `paid` counts as unpaid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// In the shop's currency; only passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<f64>,
}

/// The result, as JSON.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Closing {
    /// The order that was looked at.
    pub order_id: String,
    /// Whether it was closed; if not, it was paid in time.
    pub closed: bool,
    /// The id of the notification's job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification: Option<String>,
}

/// What the notifying topic gets, as JSON.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// Always `order-closed`.
    pub event: String,
    /// The order that was closed.
    pub order_id: String,
    /// The customer to notify.
    pub customer: String,
    /// What the customer has not paid.
    pub amount: Option<f64>,
}

/// Closes the order of the job, unless it is paid.
pub fn close_if_unpaid(job: Job) -> Result<Json<Closing>, Failure> {
    // An order that does not parse never will: `json` rejects it, and it waits among the dead letters for a person.
    let order: Order = job.json()?;

    if order.status.as_deref() == Some("paid") {
        log::info("order was paid in time", &[("order", &order.order_id)]);
        return Ok(Json(Closing { order_id: order.order_id, closed: false, notification: None }));
    }

    let notification = notify(&order)?;
    log::info(
        "order closed",
        &[("order", &order.order_id), ("customer", &order.customer), ("notification", &notification)],
    );
    Ok(Json(Closing { order_id: order.order_id, closed: true, notification: Some(notification) }))
}

/// Enqueues the notification. It becomes visible only together with this job's acknowledgement: a retried attempt does
/// not notify twice. `unique` guards against the order itself having been pushed twice.
fn notify(order: &Order) -> Result<String, Failure> {
    let topic = config::get("notify-topic").unwrap_or_else(|| "notify".into());
    let notification = Notification {
        event: "order-closed".into(),
        order_id: order.order_id.clone(),
        customer: order.customer.clone(),
        amount: order.amount,
    };
    let job = NewJob::to(topic).json(&notification)?.unique(format!("order-closed-{}", order.order_id));
    Ok(job.enqueue()?)
}

#[cfg(test)]
mod tests {
    use gristmill_guest::testing::{Host, job};

    use super::*;

    const UNPAID: &str = r#"{"order_id": "1042", "customer": "ada", "amount": 19.9, "unknown": true}"#;

    #[test]
    fn an_unpaid_order_is_closed_and_its_customer_notified() {
        let run = Host::new().run(close_if_unpaid, job("order-timeout").body(UNPAID));
        let closing: Closing = run.json();
        assert!(closing.closed && closing.notification.is_some());

        let [follow_up] = run.enqueued() else { panic!("one notification: {run:?}") };
        assert_eq!((follow_up.topic.as_str(), follow_up.unique.as_deref()), ("notify", Some("order-closed-1042")));
        let sent = job("notify").body(follow_up.body.clone()).build();
        let expected = Notification {
            event: "order-closed".into(),
            order_id: "1042".into(),
            customer: "ada".into(),
            amount: Some(19.9),
        };
        assert_eq!(sent.json(), Ok(expected));
        assert_eq!(run.logs().last().and_then(|line| line.field("order")), Some("1042"));
    }

    #[test]
    fn the_notifying_topic_is_the_operators_choice() {
        let run = Host::new().config("notify-topic", "mail").run(close_if_unpaid, job("order-timeout").body(UNPAID));
        assert_eq!(run.enqueued().first().map(|job| job.topic.as_str()), Some("mail"));
    }

    #[test]
    fn a_paid_order_is_left_alone() {
        let paid = Order { order_id: "7".into(), customer: "bob".into(), status: Some("paid".into()), amount: None };
        let run = Host::new().run(close_if_unpaid, job("order-timeout").json(&paid));
        assert_eq!(run.json::<Closing>(), Closing { order_id: "7".into(), closed: false, notification: None });
        assert!(run.enqueued().is_empty());
    }

    #[test]
    fn an_order_that_does_not_parse_is_rejected() {
        let run = Host::new().run(close_if_unpaid, job("order-timeout").body(r#"{"order_id": 1}"#));
        let failure = run.failure().expect("an id must be a string");
        assert_eq!((failure.code(), failure.is_retry()), ("bad-payload", false));
        assert!(failure.message().contains("`order_id`"), "{failure:?}");
    }

    #[test]
    fn a_refused_notification_keeps_the_order_as_a_dead_job_for_the_operator() {
        let run = Host::new().deny("notify").run(close_if_unpaid, job("order-timeout").body(UNPAID));
        let failure = run.failure().expect("the order is not closed without its notification");
        assert_eq!((failure.code(), failure.is_retry()), ("enqueue-failed", false));
    }
}
