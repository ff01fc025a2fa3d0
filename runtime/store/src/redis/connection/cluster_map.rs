//! Which server of a cluster has which slots: read when it is first needed, and again when a server refuses a call or is lost.

use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, ProtocolVersion, RedisResult, Value, cmd};

use super::cluster::Cluster;
use super::error::{misconfigured, timed_out, unexpected};
use super::server::{Server, ServerAddress};
use super::server_link::ServerLink;
use super::slots::{Slot, SlotMap, SlotRange, read_range};
use super::timeout::timeout;
use super::topology::Topology;

/// How long one server may take to say which server has which slots.
const MAP_TIMEOUT: Duration = Duration::from_millis(700);

impl Cluster {
    pub(in crate::redis) async fn map(&self) -> RedisResult<Arc<SlotMap>> {
        if let Some(map) = self.map.borrow().clone() {
            return Ok(map);
        }
        self.read_map(None, None).await?;
        self.map.borrow().clone().ok_or_else(|| unexpected("there is no map of the slots"))
    }

    /// Asks which server has which slots, unless another caller has done so since `known` was read. The server at `hint` is asked first.
    pub(super) async fn read_map(&self, known: Option<&Arc<SlotMap>>, hint: Option<ServerAddress>) -> RedisResult<()> {
        let _turn = self.reading.lock().await;
        let current = self.map.borrow().clone();
        if current.as_ref().map(Arc::as_ptr) != known.map(Arc::as_ptr) {
            return Ok(());
        }
        let mut addresses: Vec<ServerAddress> = hint.into_iter().collect();
        for server in current.iter().flat_map(|map| map.servers()) {
            if let Topology::Single(server) = &server.topology {
                addresses.push(server.address.clone());
            }
        }
        addresses.extend(self.seeds.iter().map(|seed| seed.address.clone()));
        let mut asked: Vec<ServerAddress> = Vec::new();
        let mut problem = timed_out("no server of the cluster answered in time");
        for address in addresses {
            if asked.contains(&address) {
                continue;
            }
            asked.push(address.clone());
            let answer = timeout(MAP_TIMEOUT, self.ask(&address)).await;
            match answer
                .unwrap_or_else(|_| Err(timed_out("a server of the cluster did not say in time which slots it has")))
            {
                Ok(ranges) => {
                    self.map.send_replace(Some(Arc::new(self.with_links(ranges, current.as_deref()))));
                    return Ok(());
                }
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// Slots, first and last, and where the server is that has them.
    async fn ask(&self, address: &ServerAddress) -> RedisResult<Vec<(Slot, Slot, ServerAddress)>> {
        let server = self.server(address.clone());
        let mut connection = server.connect(ProtocolVersion::RESP2, AsyncConnectionConfig::new()).await?;
        let answer: RedisResult<Vec<Vec<Value>>> =
            cmd("CLUSTER").arg("SLOTS").query_async(&mut connection.commands).await;
        let ranges = answer.map_err(|error| {
            if error.to_string().contains("cluster support disabled") {
                return misconfigured(format!("{server} is in no cluster; begin `url` with `redis://`"));
            }
            error
        })?;
        ranges.into_iter().map(|range| read_range(range, address)).collect()
    }

    fn with_links(&self, ranges: Vec<(Slot, Slot, ServerAddress)>, before: Option<&SlotMap>) -> SlotMap {
        let mut map = SlotMap { ranges: Vec::with_capacity(ranges.len()) };
        for (first, last, address) in ranges {
            let known = map.find(&address).or_else(|| before.and_then(|before| before.find(&address)));
            let server = known.unwrap_or_else(|| self.new_link(address));
            map.ranges.push(SlotRange { first, last, server });
        }
        map.ranges.sort_unstable_by_key(|range| range.first);
        map
    }

    /// The server that a refusal names. It may have no slot yet.
    pub(super) fn server_at(&self, map: &SlotMap, address: ServerAddress) -> Arc<ServerLink> {
        map.find(&address).unwrap_or_else(|| self.new_link(address))
    }

    fn new_link(&self, address: ServerAddress) -> Arc<ServerLink> {
        Arc::new(ServerLink::new(Topology::Single(self.server(address)), self.settings.clone()))
    }

    /// The server at the address, with the user and the certificates of the seeds.
    fn server(&self, address: ServerAddress) -> Server {
        match self.seeds.first() {
            Some(seed) => Server { address, ..seed.clone() },
            None => Server { address, settings: redis::RedisConnectionInfo::default(), tls: None, choice: None },
        }
    }
}
