//! [`operations!`]: one row per store operation.

/// Defines a trait of the contract. Each row is an operation: its signature and, where other processes want to know of its
/// effect, the method of [`Announcer`](crate::announcer::Announcer) that emits it. Metrics name the operation as the method.
///
/// From the rows follow the trait and its implementations for [`Timed`](crate::Timed) and for a
/// [`Shard`](crate::sharded::Shard), which asks its store unless that is unavailable. With `primary shard:` in front, the
/// implementation for [`ShardedStore`](crate::sharded::ShardedStore) also follows: it asks the primary shard.
///
/// With `parts:` in front, the implementations for the stores that are made of several also follow, `ShardedStore` and
/// [`RedisStore`](crate::redis::RedisStore): a row says in brackets which [`CompositeStore`](crate::composite::CompositeStore) are asked, and how
/// their answers are [joined](crate::joined). `[ask topic: first]` asks those that may hold something of the argument `topic`
/// and answers with the first answer; `[current tenant]` asks one, as do those stores of which it says `shards current` or
/// `partitions current`. Without brackets, and where it says `shards by hand` or
/// `partitions by hand`, the store has a method of the same name that does it.
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
        parts:
        $(#[$about:meta])*
        pub trait $Trait:ident $(: $Super:ident)? {
            $(
                $(#[$doc:meta])*
                async fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> Result<$Answer:ty, StoreError>
                    $([$($how:tt)*])? $(=> announce $announce:ident)?;
            )*
        }
    ) => {
        #[cfg(feature = "sharding")]
        #[async_trait::async_trait]
        impl $Trait for crate::sharded::ShardedStore {
            $(
                async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError> {
                    operations!(@ask shards, self, $name($($arg),*), [$($($how)*)?])
                }
            )*
        }

        #[cfg(feature = "redis")]
        #[async_trait::async_trait]
        impl $Trait for crate::redis::RedisStore {
            $(
                async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError> {
                    operations!(@ask partitions, self, $name($($arg),*), [$($($how)*)?])
                }
            )*
        }

        $(operations!(@own $name, [$($($how)*)?]);)*

        operations! {
            $(#[$about])*
            pub trait $Trait $(: $Super)? {
                $(
                    $(#[$doc])*
                    async fn $name(&self $(, $arg: $type)*) -> Result<$Answer, StoreError> $(=> announce $announce)?;
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

    (@ask $parts:ident, $self:ident, $name:ident($($arg:ident),*), []) => {
        $self.$name($($arg),*).await
    };
    (@ask shards, $self:ident, $name:ident $args:tt, [shards by hand; $($how:tt)*]) => {
        operations!(@ask shards, $self, $name $args, [])
    };
    (@ask partitions, $self:ident, $name:ident $args:tt, [partitions by hand; $($how:tt)*]) => {
        operations!(@ask partitions, $self, $name $args, [])
    };
    (@ask $parts:ident, $self:ident, $name:ident $args:tt, [$others:ident by hand; $($how:tt)*]) => {
        operations!(@ask $parts, $self, $name $args, [$($how)*])
    };
    (@ask shards, $self:ident, $name:ident $args:tt, [shards current; $ask:ident $scope:ident: $join:ident $(($with:expr))?]) => {
        operations!(@ask shards, $self, $name $args, [current $scope])
    };
    (@ask partitions, $self:ident, $name:ident $args:tt, [partitions current; $ask:ident $scope:ident: $join:ident $(($with:expr))?]) => {
        operations!(@ask partitions, $self, $name $args, [current $scope])
    };
    (@ask $parts:ident, $self:ident, $name:ident $args:tt, [$others:ident current; $($how:tt)*]) => {
        operations!(@ask $parts, $self, $name $args, [$($how)*])
    };
    (@ask $parts:ident, $self:ident, $name:ident($($arg:ident),*), [current $scope:ident]) => {
        crate::composite::CompositeStore::current($self, $scope).await?.$name($($arg),*).await
    };
    (@ask $parts:ident, $self:ident, $name:ident($($arg:ident),*), [$how:ident $scope:ident: $join:ident $(($with:expr))?]) => {{
        let how = operations!(@how $how);
        let answers = crate::composite::CompositeStore::ask($self, how, $scope, |store| async move { store.$name($($arg),*).await });
        Ok(crate::joined::$join(answers.await? $(, $with)?))
    }};
    (@how ask) => { crate::composite::Asking::Answer };
    (@how change) => { crate::composite::Asking::Change };
    (@how all) => { crate::composite::Asking::All };
    (@how poll) => { crate::composite::Asking::News };

    // A store's own method comes before that of a trait. Without one, the trait's would call itself: here no trait is in scope.
    (@own $name:ident, []) => {
        operations!(@own $name, [shards by hand;]);
        operations!(@own $name, [partitions by hand;]);
    };
    (@own $name:ident, [shards by hand; $($how:tt)*]) => {
        #[cfg(feature = "sharding")]
        const _: () = {
            mod own {
                const _: () = { let _ = crate::sharded::ShardedStore::$name; };
            }
        };
    };
    (@own $name:ident, [partitions by hand; $($how:tt)*]) => {
        #[cfg(feature = "redis")]
        const _: () = {
            mod own {
                const _: () = { let _ = crate::redis::RedisStore::$name; };
            }
        };
    };
    (@own $name:ident, [$($how:tt)*]) => {};

    (@announce $self:ident, $answer:ident, ($($arg:ident),*)) => {};
    (@announce $self:ident, $answer:ident, ($($arg:ident),*), $announce:ident) => {
        if let Some(announcer) = &$self.announcer {
            announcer.$announce($($arg,)* &$answer);
        }
    };
}

pub(super) use operations;
