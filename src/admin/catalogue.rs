//! Products, devices, certificates and bindings over HTTP: looked at and changed. Bodies are JSON.
//!
//! Secrets are in the answers that make them, never in others. An answer to a change says whether gateways are told (`told`). A node
//! without a catalogue, which lets anybody in or no devices, knows nothing of them: 404.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State as Of};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{Refused, json_body};
use super::http::Admin;
use crate::auth::credentials::{Credentials, Method, Secret};
use crate::catalogue::{
    Catalogue, Error, Filter, Fingerprint, Listed, Notice, ProductSecret, Registration, State,
    What, tell,
};
use crate::device::DeviceId;

/// Of one answer, unless the request says otherwise, and whatever it says.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 10_000;

/// What was done.
pub(super) struct Done(pub(super) StatusCode, pub(super) Value);

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        (self.0, json_body(&self.1)).into_response()
    }
}

pub(super) type Answer = Result<Done, Refused>;

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Unknown(_) => StatusCode::NOT_FOUND,
            Error::Exists(_) | Error::Conflict(_) => StatusCode::CONFLICT,
            Error::Name(_) => StatusCode::BAD_REQUEST,
            Error::Open(_) | Error::Database(..) | Error::Timeout(_) | Error::Sealing(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Self(status, error.to_string())
    }
}

/// The routes under `/products` and `/devices`.
pub(super) fn routes() -> Router<Arc<Admin>> {
    const DEVICE: &str = "/devices/{product}/{name}";
    let of_device = |rest: &str| format!("{DEVICE}{rest}");
    Router::new()
        .route("/products", get(products).post(add_product))
        .route("/products/{product}", delete(remove_product))
        .route("/products/{product}/registration", put(set_registration))
        .route("/devices", get(devices).post(add))
        .route(DEVICE, get(show).delete(remove))
        .route(&of_device("/state"), put(set_state))
        .route(&of_device("/secret"), put(set_secret))
        .route(&of_device("/certificates"), post(add_certificate))
        .route(
            &of_device("/certificates/{fingerprint}"),
            delete(remove_certificate),
        )
        .route(&of_device("/sub-devices"), post(bind))
        .route(
            &of_device("/sub-devices/{sub_product}/{sub_name}"),
            delete(unbind),
        )
}

pub(super) fn bad(words: String) -> Refused {
    Refused(StatusCode::BAD_REQUEST, words)
}

/// A JSON body.
pub(super) fn read<T: DeserializeOwned>(body: &str) -> Result<T, Refused> {
    serde_json::from_str(body).map_err(|error| bad(format!("body: {error}")))
}

fn device(product: &str, name: &str) -> Result<DeviceId, Refused> {
    DeviceId::new(product, name).map_err(|error| bad(error.to_string()))
}

fn secret(text: Option<&str>) -> Result<Option<Secret>, Refused> {
    let secret = text.map(str::parse::<Secret>).transpose();
    secret.map_err(|error| bad(format!("secret: {error}")))
}

/// The conditions of a query: each key is one of `keys`, in their order.
pub(super) fn conditions<const KEYS: usize>(
    query: Option<&str>,
    keys: [&str; KEYS],
) -> Result<[Option<String>; KEYS], Refused> {
    let mut found = [const { None }; KEYS];
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let place = keys
            .iter()
            .zip(&mut found)
            .find(|(known, _)| **known == key);
        let Some((_, place)) = place else {
            return Err(bad(format!(
                "{key}: unknown, expected one of {}",
                keys.join(", ")
            )));
        };
        *place = Some(value.into_owned());
    }
    Ok(found)
}

fn limit(text: Option<String>) -> Result<usize, Refused> {
    let Some(text) = text else {
        return Ok(LIMIT);
    };
    let expected = |_number| bad(format!("limit: found {text:?}, expected a number"));
    Ok(text.parse::<usize>().map_err(expected)?.clamp(1, LIMIT_MAX))
}

impl Admin {
    pub(super) fn catalogue(&self) -> Result<&Catalogue, Refused> {
        let elsewhere = || {
            let words =
                "this node has no catalogue: expected the role gateway and the device profile";
            Refused(StatusCode::NOT_FOUND, words.to_owned())
        };
        self.catalogue.as_ref().ok_or_else(elsewhere)
    }

    /// Tells gateways, and says so in the answer.
    pub(super) async fn done(
        &self,
        status: StatusCode,
        mut answer: Value,
        notice: Notice,
    ) -> Answer {
        let told = tell(&self.readiness.link.client, &[notice]).await;
        if let Err(error) = &told {
            tracing::warn!(%error, "gateways are not told of a change");
        }
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("told".to_owned(), json!(told.is_ok()));
        }
        Ok(Done(status, answer))
    }
}

async fn products(Of(admin): Of<Arc<Admin>>, RawQuery(query): RawQuery) -> Answer {
    let [after, of] = conditions(query.as_deref(), ["after", "limit"])?;
    let of = limit(of)?;
    let after = after.unwrap_or_default();
    let products = admin.catalogue()?.products(&after, of).await?;
    let next = products.last().filter(|_| products.len() >= of);
    let next = next.map(|product| product.id.clone());
    Ok(Done(
        StatusCode::OK,
        json!({ "products": products, "next": next }),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewProduct {
    id: String,
}

async fn add_product(Of(admin): Of<Arc<Admin>>, body: String) -> Answer {
    let NewProduct { id } = read(&body)?;
    admin.catalogue()?.add_product(&id).await?;
    Ok(Done(StatusCode::CREATED, json!({ "added": id })))
}

async fn remove_product(Of(admin): Of<Arc<Admin>>, Path(id): Path<String>) -> Answer {
    admin.catalogue()?.remove_product(&id).await?;
    Ok(Done(StatusCode::OK, json!({ "removed": id })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRegistration {
    /// closed, known or new.
    devices: String,
    secret: Option<String>,
}

async fn set_registration(
    Of(admin): Of<Arc<Admin>>,
    Path(product): Path<String>,
    body: String,
) -> Answer {
    let NewRegistration { devices, secret } = read(&body)?;
    let registration = devices.parse::<Registration>();
    let registration = registration.map_err(|expected| bad(format!("devices: {expected}")))?;
    let catalogue = admin.catalogue()?;
    let changed = catalogue.change_registration(&product, registration, secret);
    let secret = changed.await?;
    let secret = secret.as_ref().map(ProductSecret::text);
    Ok(Done(
        StatusCode::OK,
        json!({ "product": product, "devices": devices, "secret": secret }),
    ))
}

async fn devices(Of(admin): Of<Arc<Admin>>, RawQuery(query): RawQuery) -> Answer {
    let keys = ["product", "state", "after", "limit"];
    let [product, state, after, of] = conditions(query.as_deref(), keys)?;
    let state = state.map(|state| state.parse::<State>()).transpose();
    let filter = Filter {
        product,
        state: state.map_err(|expected| bad(format!("state: {expected}")))?,
    };
    let after = after.map(|after| match after.split_once('/') {
        Some((product, name)) => device(product, name),
        None => Err(bad(format!(
            "after: found {after:?}, expected PRODUCT/NAME"
        ))),
    });
    let (after, of) = (after.transpose()?, limit(of)?);
    let page = admin.catalogue()?.page(&filter, after.as_ref(), of).await?;
    let next = page.last().filter(|_| page.len() >= of);
    let next = next.map(|last| last.device.to_string());
    let devices: Vec<_> = page.iter().map(Listed::described).collect();
    Ok(Done(
        StatusCode::OK,
        json!({ "devices": devices, "next": next }),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    product: String,
    name: String,
    secret: Option<String>,
}

async fn add(Of(admin): Of<Arc<Admin>>, body: String) -> Answer {
    let new: New = read(&body)?;
    let id = device(&new.product, &new.name)?;
    Credentials::check(&id).map_err(|error| bad(error.to_string()))?;
    let secret = secret(new.secret.as_deref())?;
    let (catalogue, names) = (admin.catalogue()?, [new.name]);
    let added = catalogue.add(&new.product, &names, secret.as_ref()).await?;
    let secret = added.first().map(|record| &record.secret);
    let answer = secret.map(|secret| credentials(&id, secret)).transpose()?;
    let notice = Notice::of(&id, What::Added);
    admin
        .done(StatusCode::CREATED, answer.unwrap_or_default(), notice)
        .await
}

/// What a device sends to log in, as `jetway device add --json` prints it.
fn credentials(device: &DeviceId, secret: &Secret) -> Result<Value, Refused> {
    let made = Credentials::generate(device, secret, Method::HmacSha256);
    let made = made.map_err(|error| bad(error.to_string()))?;
    Ok(json!({
        "product": device.product(),
        "name": device.name(),
        "secret": secret.text(),
        "client_id": made.client_id,
        "username": made.username,
        "password": made.password,
    }))
}

type Names = (String, String);

async fn show(Of(admin): Of<Arc<Admin>>, Path((product, name)): Path<Names>) -> Answer {
    let shown = admin.catalogue()?.show(&device(&product, &name)?).await?;
    Ok(Done(StatusCode::OK, shown.described()))
}

async fn remove(Of(admin): Of<Arc<Admin>>, Path((product, name)): Path<Names>) -> Answer {
    let id = device(&product, &name)?;
    let notice = admin.catalogue()?.remove(&id).await?;
    let answer = json!({ "removed": id.to_string() });
    admin.done(StatusCode::OK, answer, notice).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewState {
    state: String,
}

async fn set_state(
    Of(admin): Of<Arc<Admin>>,
    Path((product, name)): Path<Names>,
    body: String,
) -> Answer {
    let (id, new) = (device(&product, &name)?, read::<NewState>(&body)?);
    let state = new.state.parse::<State>();
    let state = state.map_err(|expected| bad(format!("state: {expected}")))?;
    let notice = admin.catalogue()?.set_state(&id, state).await?;
    let answer = json!({ "device": id.to_string(), "state": state });
    admin.done(StatusCode::OK, answer, notice).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSecret {
    secret: Option<String>,
}

/// Without a body the secret is a random one.
async fn set_secret(
    Of(admin): Of<Arc<Admin>>,
    Path((product, name)): Path<Names>,
    body: String,
) -> Answer {
    let id = device(&product, &name)?;
    let new = match body.is_empty() {
        true => NewSecret { secret: None },
        false => read(&body)?,
    };
    let new = secret(new.secret.as_deref())?;
    let made = admin.catalogue()?.set_secret(&id, new).await?;
    let notice = Notice::of(&id, What::Secret);
    admin
        .done(StatusCode::OK, credentials(&id, &made)?, notice)
        .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewCertificate {
    fingerprint: String,
}

async fn add_certificate(
    Of(admin): Of<Arc<Admin>>,
    Path((product, name)): Path<Names>,
    body: String,
) -> Answer {
    let (id, new) = (device(&product, &name)?, read::<NewCertificate>(&body)?);
    let certificate = fingerprint(&new.fingerprint)?;
    let added = admin.catalogue()?.add_certificate(&id, &certificate.0);
    added.await?;
    let notice = Notice::of(&id, What::CertificateAdded);
    let answer = json!({ "device": id.to_string(), "added": certificate.to_string() });
    admin.done(StatusCode::CREATED, answer, notice).await
}

async fn remove_certificate(
    Of(admin): Of<Arc<Admin>>,
    Path((product, name, text)): Path<(String, String, String)>,
) -> Answer {
    let (id, certificate) = (device(&product, &name)?, fingerprint(&text)?);
    let removed = admin.catalogue()?.remove_certificate(&id, &certificate.0);
    removed.await?;
    let notice = Notice::of(&id, What::CertificateRemoved);
    let answer = json!({ "device": id.to_string(), "removed": certificate.to_string() });
    admin.done(StatusCode::OK, answer, notice).await
}

fn fingerprint(text: &str) -> Result<Fingerprint, Refused> {
    text.parse()
        .map_err(|expected| bad(format!("fingerprint: {expected}")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewBindings {
    sub_devices: Vec<String>,
}

async fn bind(
    Of(admin): Of<Arc<Admin>>,
    Path((product, name)): Path<Names>,
    body: String,
) -> Answer {
    let (gateway, new) = (device(&product, &name)?, read::<NewBindings>(&body)?);
    let sub_devices = new
        .sub_devices
        .iter()
        .map(|text| match text.split_once('/') {
            Some((product, name)) => device(product, name),
            None => Err(bad(format!(
                "sub_devices: found {text:?}, expected PRODUCT/NAME"
            ))),
        });
    let sub_devices = sub_devices.collect::<Result<Vec<_>, _>>()?;
    admin.catalogue()?.bind(&gateway, &sub_devices).await?;
    let notice = Notice::of(&gateway, What::Bound);
    let answer = json!({ "gateway": gateway.to_string(), "bound": new.sub_devices });
    admin.done(StatusCode::CREATED, answer, notice).await
}

async fn unbind(
    Of(admin): Of<Arc<Admin>>,
    Path((product, name, of, sub)): Path<(String, String, String, String)>,
) -> Answer {
    let (gateway, sub_device) = (device(&product, &name)?, device(&of, &sub)?);
    let answer = json!({ "gateway": gateway.to_string(), "unbound": [sub_device.to_string()] });
    admin.catalogue()?.unbind(&gateway, &[sub_device]).await?;
    let notice = Notice::of(&gateway, What::Unbound);
    admin.done(StatusCode::OK, answer, notice).await
}
