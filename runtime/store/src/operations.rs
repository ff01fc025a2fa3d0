//! [`operations!`]: one row per store operation.

/// Defines a trait of the contract. Each row is an operation: its signature and, where other processes want to know of its
/// effect, the method of [`Announcer`](crate::announcer::Announcer) that emits it. Metrics name the operation as the method.
///
/// From the rows follow the trait and its implementations for [`Timed`](crate::Timed) and for a
/// [`Shard`](crate::sharded::Shard), which asks its store unless that is unavailable. With `primary shard:` in front, the
/// implementation for [`ShardedStore`](crate::sharded::ShardedStore) follows, too: it asks the primary shard.
macro_rules! operations {
    (
        primary shard:
        $(#[$about:meta])*
        pub trait $Trait:ident {
            $(
                $(#[$doc:meta])*
                async fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> Result<$Answer:ty, StoreError>;
            )*
        }
    ) => {
        #[cfg(feature = "sharding")]
        #[async_trait::async_trait]
        impl $Trait for crate::sharded::ShardedStore {
            $(
                async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError> {
                    self.primary().$name($($arg),*).await
                }
            )*
        }

        operations! {
            $(#[$about])*
            pub trait $Trait {
                $(
                    $(#[$doc])*
                    async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError>;
                )*
            }
        }
    };

    (
        $(#[$about:meta])*
        pub trait $Trait:ident $(: $Super:ident)? {
            $(
                $(#[$doc:meta])*
                async fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> Result<$Answer:ty, StoreError>
                    $(=> announce $announce:ident)?;
            )*
        }
    ) => {
        $(#[$about])*
        #[async_trait::async_trait]
        pub trait $Trait: $($Super +)? std::fmt::Debug + Send + Sync + 'static {
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
                    let answer = self.time(stringify!($name), call).await?;
                    operations!(@announce self, answer, ($($arg),*) $(, $announce)?);
                    Ok(answer)
                }
            )*
        }

        #[cfg(feature = "sharding")]
        #[async_trait::async_trait]
        impl $Trait for crate::sharded::Shard {
            $(
                async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError> {
                    self.ask(self.store.$name($($arg),*)).await
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
