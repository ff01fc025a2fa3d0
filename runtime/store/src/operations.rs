//! [`operations!`]: one row per store operation.

/// Defines a trait of the contract. Each row is an operation: its signature, the
/// [`Operation`](gristmill_metrics::Operation) under which its calls are timed, and, where other processes want to know of
/// its effect, the method of [`Announcer`](crate::announcer::Announcer) that emits it.
///
/// From the rows follow the trait and its implementation for [`Timed`](crate::Timed). With `primary shard:` in front, the
/// implementation for [`ShardedStore`](crate::sharded::ShardedStore) follows, too: it asks the primary shard.
macro_rules! operations {
    (
        primary shard:
        $(#[$about:meta])*
        pub trait $Trait:ident {
            $(
                $(#[$doc:meta])*
                async fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> Result<$Answer:ty, StoreError> => $Operation:ident;
            )*
        }
    ) => {
        #[async_trait::async_trait]
        impl $Trait for crate::sharded::ShardedStore {
            $(
                async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError> {
                    let primary = self.primary();
                    primary.ask(primary.store.$name($($arg),*)).await
                }
            )*
        }

        operations! {
            $(#[$about])*
            pub trait $Trait {
                $(
                    $(#[$doc])*
                    async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError> => $Operation;
                )*
            }
        }
    };

    (
        $(#[$about:meta])*
        pub trait $Trait:ident {
            $(
                $(#[$doc:meta])*
                async fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> Result<$Answer:ty, StoreError>
                    => $Operation:ident $(, announce $announce:ident)?;
            )*
        }
    ) => {
        $(#[$about])*
        #[async_trait::async_trait]
        pub trait $Trait: std::fmt::Debug + Send + Sync + 'static {
            $(
                $(#[$doc])*
                async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError>;
            )*
        }

        #[async_trait::async_trait]
        impl<S: $Trait + ?Sized> $Trait for crate::Timed<S> {
            $(
                async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError> {
                    let call = self.store.$name($($arg),*);
                    let answer = self.time(gristmill_metrics::Operation::$Operation, call).await?;
                    operations!(@announce self, answer, ($($arg),*) $(, $announce)?);
                    Ok(answer)
                }
            )*
        }
    };

    (@announce $self:ident, $answer:ident, ($($arg:ident),*)) => {};
    (@announce $self:ident, $answer:ident, ($($arg:ident),*), $announce:ident) => {
        if let Some(announcer) = &$self.announcer {
            announcer.$announce($($arg,)* &$answer);
        }
    };
}

pub(super) use operations;
