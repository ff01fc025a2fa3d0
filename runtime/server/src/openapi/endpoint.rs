//! What a route function is: a handler that states what it asks of a token, and whose arguments and answer describe it.

use axum::handler::Handler;

use super::{Argument, Operation, RouteAnswer};
use gristmill_core::token::Scope;

/// What a route asks of the token that a request brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// No token.
    Nothing,
    /// Any token that is valid, whatever its scopes.
    AnyToken,
    /// The scope in the tenant that the request is about.
    InTenant(Scope),
    /// The scope in all tenants.
    Everywhere(Scope),
}

/// An argument that states what the route asks of a token.
pub(crate) trait Gate: Argument {
    const REQUIREMENT: Requirement;
}

/// A route function: one of its arguments is a [`Gate`], the first or the last one. `T` is the tuple that names the
/// argument types in [`Handler`]; its first member is axum's own marker for how the last argument is read.
pub(crate) trait Endpoint<T, S>: Handler<T, S> {
    const REQUIREMENT: Requirement;

    /// Whether its requests hold a permit while it answers them.
    const TAKES_PERMIT: bool;

    /// Whether its requests may have a query.
    const TAKES_QUERY: bool;

    fn describe(operation: &mut Operation<'_>);
}

macro_rules! endpoints {
    ($($other:ident)*) => {
        impl<F, Fut, M, S, G, $($other,)* R> Endpoint<(M, G, $($other,)*), S> for F
        where
            F: FnOnce(G, $($other),*) -> Fut + Handler<(M, G, $($other,)*), S>,
            Fut: Future<Output = R>,
            G: Gate,
            $($other: Argument,)*
            R: RouteAnswer,
        {
            const REQUIREMENT: Requirement = G::REQUIREMENT;
            const TAKES_PERMIT: bool = G::TAKES_PERMIT $(&& $other::TAKES_PERMIT)*;
            const TAKES_QUERY: bool = G::TAKES_QUERY $(|| $other::TAKES_QUERY)*;

            fn describe(operation: &mut Operation<'_>) {
                G::describe(operation);
                $($other::describe(operation);)*
                R::describe(operation);
            }
        }
    };
}

endpoints!();
endpoints!(A);
endpoints!(A B);
endpoints!(A B C);
endpoints!(A B C D);
