//! What the arguments of a route function say about the requests that it takes.

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::token::TokenId;

use super::Operation;

/// An argument of a route function.
pub(crate) trait Argument {
    /// Whether the route's requests hold a permit while they are answered.
    const TAKES_PERMIT: bool = true;

    /// Whether it reads the request's query.
    const TAKES_QUERY: bool = false;

    /// Adds what the argument needs of a request. Most need nothing.
    fn describe(_: &mut Operation<'_>) {}
}

impl<S> Argument for State<S> {}

impl<T> Argument for Extension<T> {}

impl<T> Argument for Option<Extension<T>> {}

impl Argument for HeaderMap {}

impl Argument for Uri {
    const TAKES_QUERY: bool = true;
}

impl<A: Argument, B: Argument> Argument for (A, B) {
    const TAKES_PERMIT: bool = A::TAKES_PERMIT && B::TAKES_PERMIT;
    const TAKES_QUERY: bool = A::TAKES_QUERY || B::TAKES_QUERY;

    fn describe(operation: &mut Operation<'_>) {
        A::describe(operation);
        B::describe(operation);
    }
}

/// What a path names, in its order.
pub(crate) trait InPath {
    fn describe(operation: &mut Operation<'_>);
}

macro_rules! in_path {
    ($($type:ty: $($part:ty),*;)*) => {$(
        impl InPath for $type {
            fn describe(_operation: &mut Operation<'_>) {
                $(_operation.in_path::<$part>();)*
            }
        }
    )*};
}

in_path! {
    (): ;
    Name: Name;
    TokenId: TokenId;
    TopicId: Name, Name;
    (Name, JobId): Name, JobId;
    (Name, TokenId): Name, TokenId;
    (Name, String): Name, String;
    (Name, Name, Name): Name, Name, Name;
    (Name, Name, String): Name, Name, String;
}
