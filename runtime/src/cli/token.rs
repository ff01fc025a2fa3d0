//! `gristmill token`: which clients the server accepts.

use std::num::NonZero;
use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use super::document::with;
use super::exit::{Exit, Usage};
use super::global::Global;
use super::store::Reached;
use super::table::Table;
use super::{screen, stats};
use gristmill_config::{Manifest, units};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::token::{
    DESCRIPTION_BYTES, NewToken, Rate, Scope, TOKENS_PER_TENANT, Token, TokenId, TokenLimits, TokenText,
};
use gristmill_server::unknown_tenant;
use gristmill_store::{Produce, TokenAdded};

/// Make, list or revoke the tokens of clients
///
/// Until the first token is made, every user of this machine may do everything, and the server refuses all others. From the
/// first token on, every request needs one, also after the last one is revoked.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill token create --tenant acme --scope push,read --description 'web shop' --expires 90d
  gristmill token create --all-tenants --scope push,work,read,admin
  gristmill token list --tenant acme
  gristmill token revoke 3f9c1a7be0d24c55")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a token, and show it: this once and never again
    Create(Create),
    /// List tokens, the oldest first; not what they say
    List {
        /// Only this tenant's [default: all that the token may see]
        #[arg(long, value_name = "NAME")]
        tenant: Option<Name>,
    },
    /// Refuse a token from now on, and those that were made with it, on every server
    Revoke {
        /// The token's id
        id: TokenId,
    },
    /// Let requests come without a token again, as before the first one; revoke all tokens before
    Disable,
}

#[derive(Debug, clap::Args)]
struct Create {
    /// The tenant whose jobs it is for
    #[arg(long, value_name = "NAME", required_unless_present = "all_tenants", conflicts_with = "all_tenants")]
    tenant: Option<Name>,
    /// A token for operators: it holds in every tenant
    #[arg(long)]
    all_tenants: bool,
    /// What it allows: push (bring jobs), work (claim and settle them), read (look), admin (everything
    /// else), lmstfy (what clients of lmstfy may do beside these)
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', required = true)]
    scope: Vec<Scope>,
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// For how long it is good [default: until it is revoked]
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    expires: Option<Duration>,
    /// How many requests a second it allows, in each server [default: no limit]
    #[arg(long, value_name = "N", value_parser = some)]
    requests_per_second: Option<NonZero<u32>>,
    /// How many of them may come at once [default: those of a second]
    #[arg(long, value_name = "N", value_parser = some, requires = "requests_per_second")]
    burst: Option<NonZero<u32>>,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Create(create) => make(global, create).await,
        Command::List { tenant } => list(global, tenant).await,
        Command::Revoke { id } => revoke(global, &*global.store_alone().await?, &id).await,
        Command::Disable => disable(global, &*global.store_alone().await?).await,
    }
}

async fn make(global: &Global, create: Create) -> anyhow::Result<Exit> {
    if create.description.len() > DESCRIPTION_BYTES {
        return Err(Usage(format!("--description has at most {DESCRIPTION_BYTES} bytes")).into());
    }
    // The first token may come before the first job.
    let manifest = global.manifest_without_secrets()?;
    let store = global.way(&manifest)?.reach_or_make().await?.store;
    let text = TokenText::generate()?;
    match store.add_token(&create.token(&text)).await? {
        TokenAdded::Added(token) => {
            if !global.quiet {
                note_unknown_tenant(&*store, &manifest, token.tenant.as_ref()).await;
            }
            show(global, &text, &token)
        }
        TokenAdded::Exists => anyhow::bail!("the same token was made before, which cannot be: try again"),
        TokenAdded::MakerGone => anyhow::bail!("the token that GRISTMILL_TOKEN or --token names was revoked meanwhile"),
        TokenAdded::TooMany => anyhow::bail!("there are {TOKENS_PER_TENANT} tokens already: revoke some first"),
    }
}

/// Notes that nothing knows the tenant, which is no error: it may get its first token before its first job. A client that may not list the
/// tenants gets no note.
pub(super) async fn note_unknown_tenant(store: &dyn Produce, manifest: &Manifest, tenant: Option<&Name>) {
    let Some((tenant, known)) = tenant.zip(store.tenants().await.ok()) else { return };
    let known = known.into_iter().chain(stats::tenants(manifest)).collect();
    if let Some(unknown) = unknown_tenant(tenant, &known) {
        screen::note(&format!("note: {unknown}"));
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    match units::duration(text).map_err(|wrong| wrong.to_string())? {
        Duration::ZERO => Err("the token would be good at no time: name at least 1ms, or leave --expires out".into()),
        time => Ok(time),
    }
}

fn some(text: &str) -> Result<NonZero<u32>, String> {
    let number = text.parse::<u32>().map_err(|error| error.to_string())?;
    NonZero::new(number)
        .ok_or_else(|| "it would allow no request at all: name at least 1, or leave the option out".into())
}

impl Create {
    fn token(self, text: &TokenText) -> NewToken {
        let burst = self.burst;
        let rate = |per_second| Rate { per_second, burst: burst.unwrap_or(per_second) };
        NewToken {
            hash: text.hash(),
            tenant: self.tenant,
            scopes: self.scope.into_iter().collect(),
            description: self.description,
            limits: TokenLimits { requests: self.requests_per_second.map(rate), throttle: None },
            expires_in: self.expires,
            made_by: None,
        }
    }
}

/// The text alone on standard output, so that it can be piped to where it is to be kept.
fn show(global: &Global, text: &TokenText, token: &Token) -> anyhow::Result<Exit> {
    if global.json {
        screen::document(&with(json!(token), [("text", text.as_str().into())]))?;
        return Ok(Exit::Done);
    }
    screen::line(text.as_str())?;
    if !global.quiet {
        screen::note(&format!("note: this is token {}; it is shown this once: keep it safe", token.id));
    }
    Ok(Exit::Done)
}

async fn list(global: &Global, tenant: Option<Name>) -> anyhow::Result<Exit> {
    let Reached { store, server, .. } = global.reach(&global.manifest_without_secrets()?).await?;
    let tenant = match (&tenant, &server) {
        // An admin of one tenant may list the tokens of that one.
        (None, Some(server)) => server.own_tenant().await?,
        _ => tenant,
    };
    let table = Table::new(&["ID", "TENANT", "SCOPES", "MADE", "EXPIRES", ">PER SECOND", "MADE BY", "DESCRIPTION"]);
    let (tokens, now) = (store.tokens(tenant.as_ref()).await?, Timestamp::now());
    global.list(&tokens, table, |token| row(token, now), "there are no tokens")?;
    Ok(Exit::Done)
}

fn row(token: &Token, now: Timestamp) -> [String; 8] {
    let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    let expires = match token.expires_at {
        None => "never".into(),
        Some(end) if end <= now => "expired".into(),
        Some(end) => end.to_string(),
    };
    [
        token.id.to_string(),
        token.tenant.as_ref().map_or_else(|| "(all)".into(), ToString::to_string),
        scopes.join(","),
        token.created_at.to_string(),
        expires,
        token.limits.requests.map_or_else(|| "-".into(), |rate| rate.per_second.to_string()),
        token.made_by.as_ref().map_or_else(|| "-".into(), ToString::to_string),
        token.description.clone(),
    ]
}

async fn revoke(global: &Global, store: &dyn Produce, id: &TokenId) -> anyhow::Result<Exit> {
    let revoked = store.revoke_token(id).await?;
    let words = match revoked {
        true => format!("token {id} is revoked"),
        false => format!("there is no token {id}; see `gristmill token list`"),
    };
    global.say(&json!({ "id": id, "revoked": revoked }), revoked, &words)?;
    // A command that may not list tokens any more has not revoked the last one.
    if revoked && store.tokens(None).await.is_ok_and(|remaining| remaining.is_empty()) {
        screen::note(
            "that was the last token: requests are refused until `gristmill token create` makes another one, or \
             `gristmill token disable` lets them come without",
        );
    }
    Ok(if revoked { Exit::Done } else { Exit::Failed })
}

async fn disable(global: &Global, store: &dyn Produce) -> anyhow::Result<Exit> {
    let lifted = store.lift_token_requirement().await?;
    let words = match lifted {
        true => {
            "the store requires no tokens any more, until `gristmill token create` makes one: a server on loopback, or with `insecure = true`, \
             answers requests without"
        }
        false => "there are tokens: revoke them first; see `gristmill token list`",
    };
    global.say(&json!({ "lifted": lifted }), lifted, words)?;
    Ok(if lifted { Exit::Done } else { Exit::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_allows_nothing_is_refused_in_words() {
        assert_eq!((some_time("1ms"), some("1")), (Ok(Duration::from_millis(1)), Ok(NonZero::<u32>::MIN)));
        assert!(some_time("0s").is_err_and(|problem| problem.contains("leave --expires out")));
        assert!(some("0").is_err_and(|problem| problem.contains("name at least 1")));
    }
}
