//! Rules of products over HTTP: `/products/{product}/rules`, each `{"effect", "action", "filter"}`.
//!
//! A rule has no name: what is to be removed is said again, in the query. Connected devices are held to what was changed at once.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State as Of};
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::json;

use super::catalogue::{Answer, Done, bad, conditions, read};
use super::http::Admin;
use crate::access::Rule;
use crate::catalogue::{Notice, What};

/// The routes of rules.
pub(super) fn routes() -> Router<Arc<Admin>> {
    let rules = get(rules).post(add).delete(remove);
    Router::new().route("/products/{product}/rules", rules)
}

async fn rules(Of(admin): Of<Arc<Admin>>, Path(product): Path<String>) -> Answer {
    let rules = admin.catalogue()?.rules_of(&product).await?;
    Ok(Done(StatusCode::OK, json!({ "rules": rules })))
}

async fn add(Of(admin): Of<Arc<Admin>>, Path(product): Path<String>, body: String) -> Answer {
    let rule: Rule = read(&body)?;
    admin.catalogue()?.add_rule(&product, &rule).await?;
    let notice = Notice::of_product(&product, What::Rules);
    let answer = json!({ "product": product, "added": rule });
    admin.done(StatusCode::CREATED, answer, notice).await
}

async fn remove(
    Of(admin): Of<Arc<Admin>>,
    Path(product): Path<String>,
    RawQuery(query): RawQuery,
) -> Answer {
    const KEYS: [&str; 3] = ["effect", "action", "filter"];
    let [effect, action, filter] =
        conditions(query.as_deref(), KEYS)?.map(Option::unwrap_or_default);
    let of = |key: &'static str| move |expected: &'static str| bad(format!("{key}: {expected}"));
    let rule = Rule {
        effect: effect.parse().map_err(of("effect"))?,
        action: action.parse().map_err(of("action"))?,
        filter: filter.parse().map_err(of("filter"))?,
    };
    admin.catalogue()?.remove_rule(&product, &rule).await?;
    let notice = Notice::of_product(&product, What::Rules);
    let answer = json!({ "product": product, "removed": rule });
    admin.done(StatusCode::OK, answer, notice).await
}
