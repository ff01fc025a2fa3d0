//! In place of lmstfy's API, which this program is built without.

use std::collections::BTreeMap;

use axum::Router;

use crate::state::AppState;
use gristmill_config::Password;

#[derive(Debug, Clone)]
pub(super) struct Api;

impl Api {
    pub(super) fn new(_: AppState, _: bool) -> Self {
        Self
    }
}

pub(super) fn routes<S: Clone + Send + Sync + 'static>(_: Api) -> Router<S> {
    Router::new()
}

pub(super) fn admin(_: Api, _: BTreeMap<String, Password>) -> Router {
    tracing::warn!("this program is built without lmstfy's API: every path of its admin API is not found");
    Router::new()
}
